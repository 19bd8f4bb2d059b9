"""The commands that fill the cells of a paper's table, or the reason why a row has none. Runs nothing.

On the embedded default, an arm is its shipped config; on any other model, that config's settings as overrides. A file
of Multi-Session Chat's session 5 includes the earlier sessions, so one run fills the columns of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ld_agent.evaluation.paper_figures import Column, OurRow, PaperTable, Where
from ld_agent.evaluation.published import LD_AGENT, based_on, typed, values_of
from ld_agent.evaluation.verdicts import MEASURES, PEOPLE

DATA = {
    "msc": "MSC/msc_dialogue/session_{session}/{split}.txt",
    "conversation_chronicles": "CC/{split}.jsonl",
    "carecall": "CARECALL/{split}.json",
    "ubuntu_irc": "UBUNTU_IRC/{split}.jsonl",
}
ANNOTATED = "MSC/msc_personasummary/session_4/test.txt"
KEYS = {
    "k": "memory.k",
    "selection": "memory.conditional.selection",
    "context": "memory.conditional.context",
    "knowledge": "memory.conditional.knowledge",
    "prompting": "modules.extractor.prompting",
    "checked": "memory.recursive.checked",
}
"""The setting behind each fact."""
SWITCHES: Mapping[tuple[str, Any], Mapping[str, Any]] = {
    ("personas", False): {"personas.cap": 0, "modules.generator.grounded": False},
    ("user_personas", False): {"personas.user_cap": 0},
    ("agent_personas", False): {"personas.agent_cap": 0},
    ("examples", False): {"memory.recursive.examples": None},
    ("shots", 0): {"memory.recursive.examples": None},
    ("prompting", "chain_of_thought"): {"modules.extractor.max_new_tokens": 96},
}
REFLECTING = ("conditional", "history", "summary")
NOT_MEASURED = "nothing here measures it"
SAMPLES = {"continuing": 200, "knowledge": 300, "feedback": 200}
"""Statistics of ECM's benchmarks (Table 2)."""
EVALS = {"response": "eval response", "extraction": "eval extraction", "memory": "eval memory"}
TUNING = "-c configs/training/generator.yaml"


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


def _label(row: OurRow) -> str:
    named = row.section and not row.label.startswith(f"{row.section}:")
    return (f"{row.section}: {row.label}" if named else row.label).replace("{backbone}", "…")


def _cell(table: PaperTable, row: OurRow, column: Column, config: str) -> list[str]:
    if row.where is None:
        return ["# no configuration records what such a run was tuned on: run it, then pass it with --row"]
    wanted = {**row.where, **column.where}
    have = values_of(config)
    if wanted.get("tuned") and (table.tuned_apart or have["modules.generator.adapter"] is None):
        if have["backbone.kind"] != "transformers":
            return [f"# {have['backbone.model']} answers at an endpoint: nothing here tunes it"]
        wanted["adapter_of"] = row.adapter_of or wanted["corpus"]
    if column.first is not None and column.second is not None:
        return _comparison(table, wanted, column.first, column.second, config)
    if wanted.get("task") == "statistics":
        return _statistics(wanted, config)
    if wanted.get("task") == "ratings":
        name = wanted["benchmark"]
        form = f"ld-agent judge form {name}.jsonl --questions benchmark --limit 50 --out runs/{name}.html"
        return [_build(name, config), form, f"ld-agent judge agree RATINGS... --key runs/{name}.key.json --keep"]
    if column.measure is None:
        return [f"# {column.name}: {NOT_MEASURED}"]
    out = [*_before(table, wanted, config), *_run(table, wanted, config)]
    folder = _folder(wanted, config)
    judged = MEASURES.get(column.measure)
    if judged == PEOPLE:
        questions = "recursive" if wanted.get("task") == "response" else "memory"
        out.append(f"ld-agent judge form {folder} --questions {questions} --out {folder}.html --limit 100")
        out.append(f"ld-agent judge agree RATINGS... --key {folder}.key.json --keep")
    elif judged is not None:
        out.append(f"ld-agent judge {judged} {folder} -c JUDGE")
    if column.measure == "bert_score":
        out.append(f"ld-agent eval score {folder} --bert-score default")
    if row.adapter_of:
        out.append(f'ld-agent tables {table.name} --from runs --row "{row.label}={folder}"')
    return out


def _comparison(table: PaperTable, wanted: Where, first: Where, second: Where, config: str) -> list[str]:
    sides = [{**wanted, **side} for side in (first, second)]
    lines = [line for side in sides for line in _run(table, side, config)]
    folders = [_folder(side, config) for side in sides]
    if wanted.get("task") == "ecm-knowledge":
        return [*lines, *(f"ld-agent judge score {folder} -c JUDGE" for folder in folders)]
    return [*lines, f"ld-agent judge compare {' '.join(folders)} -c JUDGE"]


def _statistics(wanted: Where, config: str) -> list[str]:
    if "benchmark" in wanted:
        name = wanted["benchmark"]
        return [_build(name, config), f"ld-agent statistics {name}.jsonl --out runs/statistics_{name}"]
    corpus = str(wanted["corpus"])
    return [f"ld-agent statistics {_data(corpus, 'test')} --out runs/statistics_{corpus}"]


def _before(table: PaperTable, wanted: Where, config: str) -> list[str]:
    """Prerequisites of a run: an adapter tuned on the row's parts of the prompt, or examples."""
    shots = wanted.get("shots", 0)
    if shots:
        source = _data("msc", "valid")
        base, given = _settings(table, {**wanted, "shots": 0}, config)
        valid = f"ld-agent eval response {source} -c {base} {given} --from-session 4 --limit 50 --out runs/valid"
        drawn = f"python -m training.reply_examples --from runs/valid --count {shots} --out {_examples(shots)}"
        return [_spaced(valid), drawn]
    corpus = wanted.get("adapter_of")
    if corpus is None:
        return []
    rows, part = f"rows/{corpus}.jsonl", _part(wanted)
    base, given = _settings(table, {"task": "response", "corpus": corpus, "views": ["events"]}, config)
    build = f"python -m training.build generator --from {_data(corpus, 'train')} --out {rows} --ablations"
    chosen = rows if part == "full" else f"rows/{corpus}.{part}.jsonl"
    model = values_of(config)["backbone.model"]
    tune = f"python -m training.generator {TUNING} model={model} train_file={chosen} eval_file=null output_dir={_adapter(wanted)}"
    return [_spaced(f"{build} -c {base} {given}"), tune]


def _build(benchmark: str, config: str) -> str:
    sources = {"feedback": "REQUESTS", "knowledge": ANNOTATED}.get(benchmark, "DIALOGUES")
    return f"ld-agent ecm build {benchmark} --from {sources} --samples {SAMPLES[benchmark]} --out {benchmark}.jsonl -c {config}"


def _data(corpus: str, split: str, session: int = 5) -> str:
    """The file to read; Multi-Session Chat's training data end with session 4."""
    return DATA[corpus].format(split=split, session=min(session, 4) if split == "train" else session)


def _run(table: PaperTable, wanted: Where, config: str) -> list[str]:
    task = str(wanted.get("task", "response"))
    base, given = _settings(table, wanted, config)
    folder = _folder(wanted, config)
    if task.startswith("ecm-"):
        name = task.removeprefix("ecm-")
        return [_build(name, config), _spaced(f"ld-agent ecm run {name}.jsonl -c {base} {given} --out {folder}")]
    sessions = [column.session for column in table.columns if column.session is not None]
    data = (
        ANNOTATED if task == "extraction" else _data(str(wanted.get("corpus", "msc")), "test", max(sessions, default=5))
    )
    first = f"--from-session {min(sessions)}" if sessions and task == "response" else ""
    return [_spaced(f"ld-agent {EVALS.get(task, 'eval response')} {data} -c {base} {given} {first} --out {folder}")]


def _settings(table: PaperTable, wanted: Where, config: str) -> tuple[str, str]:
    """The config that a run is based on and its overrides, as typed into a shell."""
    views = wanted.get("views") or ()
    base, settings = based_on(config, views, table.paper)
    settings |= _untuned(wanted, base)
    for key, value in wanted.items():
        if key in KEYS:
            settings[KEYS[key]] = value
        settings |= SWITCHES.get((key, value), {}) if not isinstance(value, list) else {}
    if "rounds" in wanted:
        settings |= {f"memory.{view}.rounds": wanted["rounds"] for view in views if view in REFLECTING}
    if wanted.get("shots"):
        settings["memory.recursive.examples"] = _examples(wanted["shots"])
    if "adapter_of" in wanted:
        settings["modules.generator.adapter"] = _adapter(wanted)
    if wanted.get("extractor_tuned") and values_of(base)["modules.extractor.adapter"] is None:
        settings["modules.extractor.adapter"] = "ADAPTER"
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


def _adapter(wanted: Where) -> str:
    """The adapter to tune for a row."""
    return f"adapters/{wanted['adapter_of']}-{_part(wanted)}"


def _part(wanted: Where) -> str:
    """The name that ``training.build --ablations`` gives to the parts of a row's prompt."""
    if wanted.get("personas") is False:
        return "memory" if wanted.get("views") == ["events"] else "context"
    alone = [name for name in ("user", "agent") if wanted.get(f"{name}_personas") is False]
    return {"user": "agent", "agent": "user"}[alone[0]] if alone else "full"


def _examples(shots: int) -> str:
    return f"examples-{shots}.jsonl"


def _folder(wanted: Where, config: str) -> str:
    named = [config.replace("/", "-"), *(wanted.get("views") or ())]
    for key, value in wanted.items():
        if key in ("views", "examples", "checked") or value is True or value is None:
            continue
        lettered = {"k": f"k{value}", "adapter_of": f"tuned-on-{value}", "rounds": f"rounds-{value}"}
        named.append(f"no-{key.replace('_', '-')}" if value is False else lettered.get(key, str(value)))
    return "runs/" + "_".join(dict.fromkeys(named))


def _spaced(command: str) -> str:
    return " ".join(command.split())
