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
from ld_agent.evaluation.tables import tuning
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
    """Return the commands for each row of ours, by label; a row that no command fills has the reason instead. Each config is the
    base of a system, as ``-c`` takes it."""
    planned = []
    for _, row in table.our_rows:
        cells = (_cell(table, row, column, config) for config in configs for column in table.columns)
        named = row.section and not row.label.startswith(f"{row.section}:")
        label = (f"{row.section}: {row.label}" if named else row.label).replace("{backbone}", "…")
        planned.append((label, list(dict.fromkeys(line for lines in cells for line in lines))))
    return planned


def shown(table: PaperTable, configs: Sequence[str]) -> str:
    """Return the command that shows the table with the planned runs, those given to their rows by name included."""
    given = []
    for _, row in table.our_rows:
        runs = [run for config in configs for run in _runs(table, row, table.columns[0], config)[:1]]
        if row.adapter_of:
            given += [f"--row {shlex.quote(f'{row.label}={run.folder}')}" for run in runs if not run.untunable]
    return " ".join([f"ld-agent tables {table.name} --from runs", *given])


def yours(lines: Iterable[str]) -> list[str]:
    """Return what the names in capitals in some commands stand for, one comment each."""
    text = "\n".join(lines)
    there = (name for name in YOURS if re.search(rf"(?<![\w]){re.escape(name)}(?![A-Z_])", text))
    return [f"# {name.removesuffix('...')}: {YOURS[name]}" for name in there]


def build_command(benchmark: str) -> str:
    """One model builds a benchmark, whichever systems are asked."""
    sources = {"feedback": "REQUESTS", "knowledge": ANNOTATED}.get(benchmark, "DIALOGUES")
    return f"ld-agent ecm build {benchmark} --from {sources} --samples {SAMPLES[benchmark]} --out {benchmark}.jsonl -c BUILDER"


def _runs(table: PaperTable, row: OurRow, column: Column, config: str) -> list[PlannedRun]:
    return [PlannedRun(table, row, {**row.where, **side}, config) for side in column.sides]


def _cell(table: PaperTable, row: OurRow, column: Column, config: str) -> list[str]:
    runs = _runs(table, row, column, config)
    run, wanted = runs[0], runs[0].wanted
    if run.untunable:
        return [f"# {values_of(config)['backbone.model']} {tuning.UNTUNABLE}"]
    if len(runs) > 1:
        lines, folders = [line for one in runs for line in one.command()], [one.folder for one in runs]
        if run.task == "ecm-knowledge":
            return [*lines, *(f"ld-agent judge score {folder} -c JUDGE" for folder in folders)]
        return [*lines, f"ld-agent judge compare {' '.join(folders)} -c JUDGE"]
    name = wanted.get("benchmark", "")
    if run.task == "ratings":
        form = f"ld-agent judge form {name}.jsonl --questions benchmark --limit 50 --out runs/{name}.html"
        return [build_command(name), form, f"ld-agent judge agree RATINGS... --key runs/{name}.key.json --keep"]
    if run.task == "statistics" and name:
        return [build_command(name), f"ld-agent statistics {name}.jsonl --out runs/statistics_{name}"]
    if run.task == "statistics":
        return [f"ld-agent statistics {_data(run.corpus, 'test')} --out runs/statistics_{run.corpus}"]
    if column.measure is None:
        return [f"# {column.name}: {NOT_MEASURED}"]
    return [*run.before(), *run.command(), *run.after(column.measure)]


class PlannedRun:
    """A run that a cell of a table needs: its facts, of which ``adapter_of`` is the corpus on which a generator has to be tuned,
    and the base configuration."""

    def __init__(self, table: PaperTable, row: OurRow, wanted: Where, config: str) -> None:
        self._table, self._row, self._config, self.wanted = table, row, config, dict(wanted)
        self.task, self.corpus = str(wanted.get("task", "response")), str(wanted.get("corpus", "msc"))
        if wanted.get("tuned") and (table.tuned_apart or values_of(config)["modules.generator.adapter"] is None):
            self.wanted["adapter_of"] = row.adapter_of or wanted["corpus"]
        self._modules = tuning.tuned_modules(table.paper, self.wanted, config)

    @property
    def untunable(self) -> bool:
        return tuning.untunable(self.wanted, self._config)

    @property
    def folder(self) -> str:
        """Its folder; the same for every table that needs the same run, and for no other run."""
        named, wanted = [tuning.slug(self._config), *(self.wanted.get("views") or ())], self.wanted
        if "benchmark" not in wanted and not self.task.startswith("ecm-"):
            wanted = {"corpus": "msc", **wanted}
        named += [_named(key, value, wanted) for key, value in sorted(wanted.items())]
        paper = self._table.paper.partition(",")[0].lower()  # versions of a paper have one folder
        return f"runs/{paper}/" + "_".join(dict.fromkeys(filter(None, named)))

    def command(self) -> list[str]:
        """The command that makes it, after what prepares its data."""
        if self.task.startswith("ecm-"):
            name = self.task.removeprefix("ecm-")
            made = f"ld-agent ecm run {name}.jsonl {self._settings()} --out {self.folder}"
            return [build_command(name), " ".join(made.split())]
        sessions = [column.session for column in self._table.columns if column.session is not None]
        data = ANNOTATED if self.task == "extraction" else _data(self.corpus, "test", max(sessions, default=5))
        evaluated = min(sessions, default=1 if self.corpus == "ubuntu_irc" else FIRST_EVALUATED)
        first = f"--from-session {evaluated}" if evaluated > 1 and self.task == "response" else ""
        split = [tuning.SPLIT] if self.corpus == "conversation_chronicles" else []
        made = f"ld-agent eval {self.task} {data} {self._settings()} {first} --out {self.folder}"
        return [*split, " ".join(made.split())]

    def before(self) -> list[str]:
        """Prerequisites: adapters for the modules that its config has none for, or examples."""
        if shots := self.wanted.get("shots", 0):
            valid = f"valid/{tuning.slug(self._config)}"  # not in runs, where it could take the place of a test run
            plain = PlannedRun(self._table, self._row, {**self.wanted, "shots": 0}, self._config)._settings()
            source = f"{_data('msc', 'valid')} {plain} --from-session 4 --limit 50 --out {valid}"
            drawn = f"python -m training.reply_examples --from {valid} --count {shots} --out {self._examples()}"
            return [" ".join(f"ld-agent eval response {source}".split()), drawn]
        published = based_on(self._config, ["events"], self._table.paper)[1]
        lines = tuning.module_commands(self._modules, self._config, published)
        if corpus := self.wanted.get("adapter_of"):
            lines += [tuning.SPLIT] if corpus == "conversation_chronicles" else []
            part = tuning.part_of(self.wanted)
            for each in dict.fromkeys([part if part == tuning.FULL else tuning.BASELINE, part]):
                facts = {"task": "response", "corpus": corpus, **tuning.PARTS[each]}
                arm = PlannedRun(self._table, self._row, facts, self._config)._settings()
                lines += tuning.generator_commands(each, corpus, self._config, arm)
        return lines

    def after(self, measure: str) -> list[str]:
        """What has to be done with the finished run before a measure can be shown."""
        judged, folder = MEASURES.get(measure), self.folder
        if judged == PEOPLE:
            questions = "recursive" if self.task == "response" else "memory"
            return [
                f"ld-agent judge form {folder} --questions {questions} --out {folder}.html --limit 100",
                f"ld-agent judge agree RATINGS... --key {folder}.key.json --keep",
            ]
        if judged is not None:
            limit = f" --limit {ERRORS_OF}" if judged == "errors" else ""
            return [f"ld-agent judge {judged} {folder} -c JUDGE{limit}"]
        return [f"ld-agent eval score {folder} --bert-score default"] if measure == "bert_score" else []

    def _settings(self) -> str:
        """The config that it is based on and its overrides, as typed into a shell."""
        wanted = self.wanted
        base, settings = based_on(self._config, wanted.get("views") or (), self._table.paper)
        settings |= _untuned(wanted, base)
        if self.task == "memory":
            settings.pop("modules.generator.prompting", None)  # no reply is asked for
        settings |= settings_for(wanted)
        if wanted.get("shots"):
            settings["memory.recursive.examples"] = self._examples()
        if wanted.get("question_encoder"):
            settings |= {key: value for key, value in values_of("dpr").items() if key in DPR}
        settings |= tuning.settings_for(self._modules, self._config)
        if "adapter_of" in wanted:
            part = tuning.part_of(wanted)
            settings["modules.generator.adapter"] = tuning.generator_adapter(wanted["adapter_of"], part, self._config)
        return f"-c {base} {typed(base, settings)}".rstrip()

    def _examples(self) -> str:
        return f"examples_{tuning.slug(self._config)}_{self.wanted['shots']}.jsonl"


def _data(corpus: str, split: str, session: int = 5) -> str:
    return DATA[corpus].format(split=split, session=session)


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


def _named(key: str, value: Any, wanted: Where) -> str:
    """A condition in the name of a folder; "": the run is the same without it."""
    implied = {"views", "examples"} | ({"extractor_tuned"} if value is True else set())
    unreflected = key == "rounds" and value == 0 and "conditional" not in (wanted.get("views") or ())
    if key in implied or value is None or value == "response" or unreflected or (key == "shots" and value == 0):
        return ""
    if isinstance(value, bool) and key not in ("tuned", "question_encoder"):
        return "" if value else f"no-{key.replace('_', '-')}"
    if isinstance(value, bool):
        return {"tuned": ("untuned", "tuned"), "question_encoder": ("", "dpr")}[key][value]
    return NAMES.get(key, "{}").format(value)
