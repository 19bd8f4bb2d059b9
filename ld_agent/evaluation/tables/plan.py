"""The commands that fill the cells of a paper's table, or the reason why a row has none. Runs nothing.

On the embedded default, an arm is its shipped config; on any other model, that config's settings as overrides. A file
of Multi-Session Chat's session 5 includes the earlier sessions, so one run fills the columns of all of them. Equal runs of
different tables have one folder.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from ld_agent.evaluation.judging.verdicts import MEASURES, PEOPLE
from ld_agent.evaluation.tables import tuning as tuning
from ld_agent.evaluation.tables.facts import settings_for
from ld_agent.evaluation.tables.paper_figures import Column, OurRow, PaperTable, Where
from ld_agent.evaluation.tables.published import LD_AGENT, based_on, typed, values_of

DATA = {
    "msc": "MSC/msc_dialogue/session_{session}/{split}.txt",
    "conversation_chronicles": "CC/{split}.jsonl",
    "carecall": "CARECALL/{split}.json",
    "ubuntu_irc": "UBUNTU_IRC/{split}.jsonl",
}
ANNOTATED = "MSC/msc_personasummary/session_4/test.txt"
DPR = ("encoder.model", "encoder.question_model", "encoder.pooling")
NAMES = {"k": "k{}", "adapter_of": "tuned-on-{}", "rounds": "rounds-{}", "shots": "{}-shot"}
"""How a fact stands in the name of a run's folder, if not as its value."""
NOT_MEASURED = "nothing here measures it"
SAMPLES = {"continuing": 200, "knowledge": 300, "feedback": 200}
"""Statistics of ECM's benchmarks (Table 2)."""
EVALS = {"response": "eval response", "extraction": "eval extraction", "memory": "eval memory"}
FIRST_EVALUATED = 2
"""The first session only starts the conversation (LD-Agent, section 3.2)."""
ERRORS_OF = 100
"""Conversations of which Rsum checks the memory (section 6.4)."""
YOURS = {
    "MSC": "the folder of Multi-Session Chat, with msc_dialogue and msc_personasummary",
    "CONVERSATION_CHRONICLES": "Conversation Chronicles, saved as JSON lines",
    "CARECALL": "a folder with CareCall-Memory",
    "UBUNTU_IRC": "a folder with Ubuntu IRC, train.jsonl and test.jsonl",
    "DIALOGSUM": "the folder of DialogSum",
    "DIALOGUES": "conversations with an assistant, in any format",
    "REQUESTS": "requests, one a line",
    "BUILDER": "the config of the model that builds the benchmarks, GPT-4 in the paper",
    "JUDGE": "the config of the judge",
    "RATINGS...": "the ratings that people exported from the page",
}
"""What stands for files of the reader's in the commands."""


def plan(table: PaperTable, configs: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the commands for each row of ours, by label; a row that no command fills has the reason instead.

    Args:
        configs: base configurations, one system each, as ``-c`` takes them.
    """
    planned = []
    for row in table.rows:
        if not isinstance(row, OurRow):
            continue
        lines: dict[str, None] = {}
        for config in configs:
            for column in table.columns:
                for line in _cell(table, row, column, config):
                    lines.setdefault(line)
        planned.append((_label(row), list(lines)))
    return planned


def shown(table: PaperTable, configs: Sequence[str]) -> str:
    """Return the command that shows the table with the planned runs, those given to their rows by name included."""
    given = []
    for row in table.rows:
        if not isinstance(row, OurRow) or not row.adapter_of:
            continue
        for config in configs:
            wanted = _wanted(table, row, table.columns[0], config)
            if not tuning.untunable(wanted, config):
                given.append(f"--row {shlex.quote(f'{row.label}={run_folder(table.paper, wanted, config)}')}")
    return " ".join([f"ld-agent tables {table.name} --from runs", *given])


def yours(lines: Iterable[str]) -> list[str]:
    """Return what the names in capitals in some commands stand for, one comment each."""
    text = "\n".join(lines)
    there = (name for name in YOURS if re.search(rf"(?<![\w]){re.escape(name)}(?![A-Z_])", text))
    return [f"# {name.removesuffix('...')}: {YOURS[name]}" for name in there]


def _label(row: OurRow) -> str:
    named = row.section and not row.label.startswith(f"{row.section}:")
    return (f"{row.section}: {row.label}" if named else row.label).replace("{backbone}", "…")


def _cell(table: PaperTable, row: OurRow, column: Column, config: str) -> list[str]:
    if row.where is None:
        return ["# no configuration records what such a run was tuned on: run it, then pass it with --row"]
    wanted = _wanted(table, row, column, config)
    if tuning.untunable(wanted, config):
        return [f"# {values_of(config)['backbone.model']} {tuning.UNTUNABLE}"]
    if column.first is not None and column.second is not None:
        return _comparison(table, wanted, column.first, column.second, config)
    if wanted.get("task") == "statistics":
        return _statistics(wanted)
    if wanted.get("task") == "ratings":
        name = wanted["benchmark"]
        form = f"ld-agent judge form {name}.jsonl --questions benchmark --limit 50 --out runs/{name}.html"
        return [build_command(name), form, f"ld-agent judge agree RATINGS... --key runs/{name}.key.json --keep"]
    if column.measure is None:
        return [f"# {column.name}: {NOT_MEASURED}"]
    return [
        *_before(table, wanted, config),
        *_run(table, wanted, config),
        *_after(table, wanted, column.measure, config),
    ]


def _wanted(table: PaperTable, row: OurRow, column: Column, config: str) -> dict[str, Any]:
    """The conditions on a cell's run; ``adapter_of`` is the corpus on which a generator has to be tuned for it."""
    wanted = {**(row.where or {}), **column.where}
    untuned = values_of(config)["modules.generator.adapter"] is None
    if wanted.get("tuned") and (table.tuned_apart or untuned):
        wanted["adapter_of"] = row.adapter_of or wanted["corpus"]
    return wanted


def _after(table: PaperTable, wanted: Where, measure: str, config: str) -> list[str]:
    """What has to be done with a finished run before the measure can be shown."""
    folder = run_folder(table.paper, wanted, config)
    judged = MEASURES.get(measure)
    if judged == PEOPLE:
        questions = "recursive" if wanted.get("task") == "response" else "memory"
        return [
            f"ld-agent judge form {folder} --questions {questions} --out {folder}.html --limit 100",
            f"ld-agent judge agree RATINGS... --key {folder}.key.json --keep",
        ]
    if judged is not None:
        limit = f" --limit {ERRORS_OF}" if judged == "errors" else ""
        return [f"ld-agent judge {judged} {folder} -c JUDGE{limit}"]
    return [f"ld-agent eval score {folder} --bert-score default"] if measure == "bert_score" else []


def _comparison(table: PaperTable, wanted: Where, first: Where, second: Where, config: str) -> list[str]:
    sides = [{**wanted, **side} for side in (first, second)]
    lines = [line for side in sides for line in _run(table, side, config)]
    folders = [run_folder(table.paper, side, config) for side in sides]
    if wanted.get("task") == "ecm-knowledge":
        return [*lines, *(f"ld-agent judge score {folder} -c JUDGE" for folder in folders)]
    return [*lines, f"ld-agent judge compare {' '.join(folders)} -c JUDGE"]


def _statistics(wanted: Where) -> list[str]:
    if "benchmark" in wanted:
        name = wanted["benchmark"]
        return [build_command(name), f"ld-agent statistics {name}.jsonl --out runs/statistics_{name}"]
    corpus = str(wanted["corpus"])
    return [f"ld-agent statistics {_data(corpus, 'test')} --out runs/statistics_{corpus}"]


def _before(table: PaperTable, wanted: Where, config: str) -> list[str]:
    """Prerequisites of a run: adapters for the modules that its config has none for, or examples."""
    shots = wanted.get("shots", 0)
    if shots:
        base, given = _settings(table, {**wanted, "shots": 0}, config)
        valid = f"valid/{tuning.slug(config)}"  # not in runs, where it could take the place of a test run
        source = f"{_data('msc', 'valid')} -c {base} {given} --from-session 4 --limit 50 --out {valid}"
        drawn = f"python -m training.reply_examples --from {valid} --count {shots} --out {_examples(shots, config)}"
        return [_spaced(f"ld-agent eval response {source}"), drawn]
    modules = tuning.tuned_modules(table.paper, wanted, config)
    if "adapter_of" not in wanted:
        return tuning.module_commands(modules, config, based_on(config, ["events"], table.paper)[1])
    corpus, part = str(wanted["adapter_of"]), tuning.part_of(wanted)
    lines = tuning.module_commands(modules, config, based_on(config, ["events"], table.paper)[1])
    lines += [tuning.SPLIT] if corpus == "conversation_chronicles" else []
    for each in dict.fromkeys([part if part == tuning.FULL else tuning.BASELINE, part]):
        arm = " ".join(_settings(table, {"task": "response", "corpus": corpus, **tuning.PARTS[each]}, config))
        lines += tuning.generator_commands(each, corpus, config, arm)
    return lines


def build_command(benchmark: str) -> str:
    """One model builds a benchmark, whichever systems are asked."""
    sources = {"feedback": "REQUESTS", "knowledge": ANNOTATED}.get(benchmark, "DIALOGUES")
    return f"ld-agent ecm build {benchmark} --from {sources} --samples {SAMPLES[benchmark]} --out {benchmark}.jsonl -c BUILDER"


def _data(corpus: str, split: str, session: int = 5) -> str:
    return DATA[corpus].format(split=split, session=session)


def _run(table: PaperTable, wanted: Where, config: str) -> list[str]:
    task = str(wanted.get("task", "response"))
    base, given = _settings(table, wanted, config)
    folder = run_folder(table.paper, wanted, config)
    if task.startswith("ecm-"):
        name = task.removeprefix("ecm-")
        return [build_command(name), _spaced(f"ld-agent ecm run {name}.jsonl -c {base} {given} --out {folder}")]
    sessions = [column.session for column in table.columns if column.session is not None]
    corpus = str(wanted.get("corpus", "msc"))
    data = ANNOTATED if task == "extraction" else _data(corpus, "test", max(sessions, default=5))
    evaluated = min(sessions, default=1 if corpus == "ubuntu_irc" else FIRST_EVALUATED)
    first = f"--from-session {evaluated}" if evaluated > 1 and task == "response" else ""
    split = [tuning.SPLIT] if corpus == "conversation_chronicles" else []
    return [
        *split,
        _spaced(f"ld-agent {EVALS.get(task, 'eval response')} {data} -c {base} {given} {first} --out {folder}"),
    ]


def _settings(table: PaperTable, wanted: Where, config: str) -> tuple[str, str]:
    """The config that a run is based on and its overrides, as typed into a shell."""
    views = wanted.get("views") or ()
    base, settings = based_on(config, views, table.paper)
    settings |= _untuned(wanted, base)
    if wanted.get("task") == "memory":
        settings.pop("modules.generator.prompting", None)  # no reply is asked for
    settings |= settings_for(wanted)
    if wanted.get("shots"):
        settings["memory.recursive.examples"] = _examples(wanted["shots"], config)
    if wanted.get("question_encoder"):
        settings |= {key: value for key, value in values_of("dpr").items() if key in DPR}
    settings |= tuning.settings_for(tuning.tuned_modules(table.paper, wanted, config), config)
    if "adapter_of" in wanted and "corpus" in wanted and "tuned" in wanted:
        corpus, part = str(wanted["adapter_of"]), tuning.part_of(wanted)
        settings["modules.generator.adapter"] = tuning.generator_adapter(corpus, part, config)
    return base, typed(base, settings)


def _untuned(wanted: Where, base: str) -> dict[str, Any]:
    """Settings of modules that are untuned in a row: no adapter, and the prompts of `paper`."""
    facts = {"generator": "tuned", "extractor": "extractor_tuned"}
    names = ("adapter", "prompting", "grounded", *(["repetition_penalty"] if base == LD_AGENT else []))
    paper = values_of("paper")
    return {
        f"modules.{module}.{name}": paper[f"modules.{module}.{name}"]
        for module, fact in facts.items()
        if wanted.get(fact) is False
        for name in names
    }


def _examples(shots: int, config: str) -> str:
    return f"examples_{tuning.slug(config)}_{shots}.jsonl"


def _slug(paper: str) -> str:
    """A paper's name as a folder's; its versions have one."""
    return paper.partition(",")[0].lower()


def run_folder(paper: str, wanted: Where, config: str) -> str:
    """The folder of a run; the same for every table that needs the same run, and for no other run."""
    named = [tuning.slug(config), *(wanted.get("views") or ())]
    if "benchmark" not in wanted and not str(wanted.get("task", "")).startswith("ecm-"):
        wanted = {"corpus": "msc", **wanted}
    named += [_named(key, value, wanted) for key, value in sorted(wanted.items())]
    return f"runs/{_slug(paper)}/" + "_".join(dict.fromkeys(filter(None, named)))


def _named(key: str, value: Any, wanted: Where) -> str:
    """A condition in the name of a folder; "": the run is the same without it."""
    implied = {"views", "checked", "examples"} | ({"extractor_tuned"} if value is True else set())
    unreflected = key == "rounds" and value == 0 and "conditional" not in (wanted.get("views") or ())
    if key in implied or value is None or value == "response" or unreflected or (key == "shots" and value == 0):
        return ""
    if isinstance(value, bool) and key not in ("tuned", "question_encoder"):
        return "" if value else f"no-{key.replace('_', '-')}"
    if isinstance(value, bool):
        return {"tuned": ("untuned", "tuned"), "question_encoder": ("", "dpr")}[key][value]
    return NAMES.get(key, "{}").format(value)


def _spaced(command: str) -> str:
    return " ".join(command.split())
