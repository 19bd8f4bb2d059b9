"""The commands that fill the cells of a paper's table, or why there is none for a row. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ld_agent.evaluation.paper_figures import Column, OurRow, PaperTable, Where
from ld_agent.evaluation.verdicts import MEASURES, PEOPLE

DATA = {
    "msc": "MSC/session_{session}/test.txt",
    "conversation_chronicles": "CC/test.json",
    "carecall": "CARECALL/test.json",
    "ubuntu_irc": "UBUNTU_IRC/test.jsonl",
}
SETTINGS = {
    "k": "memory.k={}",
    "selection": "memory.conditional.selection={}",
    "context": "memory.conditional.context={}",
    "knowledge": "memory.conditional.knowledge={}",
    "prompting": "modules.extractor.prompting={}",
    "checked": "memory.recursive.checked={}",
}
"""By fact, the override that makes it so."""
SWITCHES: Mapping[tuple[str, Any], tuple[str, ...]] = {
    ("personas", False): ("personas.cap=0", "modules.generator.grounded=false"),
    ("user_personas", False): ("personas.user_cap=0",),
    ("agent_personas", False): ("personas.agent_cap=0",),
    ("tuned", False): ("modules.generator.adapter=null",),
    ("tuned", True): ("modules.generator.adapter=ADAPTER",),
    ("extractor_tuned", False): ("modules.extractor.adapter=null",),
    ("extractor_tuned", True): ("modules.extractor.adapter=ADAPTER",),
    ("examples", False): ("memory.recursive.examples=null",),
}
NOT_MEASURED = "nothing here measures it"
SAMPLES = {"continuing": 200, "knowledge": 300, "feedback": 200}
"""Of ECM's benchmarks (Table 2)."""
EVALS = {"response": "eval response", "extraction": "eval extraction", "memory": "eval memory"}


def plan(table: PaperTable, configs: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What to run for each row of ours, by its label; a row that no command fills has the reason instead.

    Args:
        configs: base configurations, one system each, as ``-c`` takes them.
    """
    planned = []
    for row in table.rows:
        if not isinstance(row, OurRow):
            continue
        label = f"{row.section}: {row.label}" if row.section else row.label
        lines: dict[str, None] = {}
        for config in configs:
            for column in table.columns:
                for line in _cell(table, row, column, config):
                    lines.setdefault(line)
        planned.append((label.replace("{backbone}", "…"), list(lines)))
    return planned


def _cell(table: PaperTable, row: OurRow, column: Column, config: str) -> list[str]:
    if row.where is None:
        return ["# what such a run was made from is not in a configuration: make it, and give it with --row"]
    wanted = {**row.where, **column.where}
    if column.first is not None and column.second is not None:
        both = [_run({**wanted, **own}, column, config) for own in (column.first, column.second)]
        out = [line for lines in both for line in lines]
        folders = " ".join(_folder({**wanted, **own}, column, config) for own in (column.first, column.second))
        kind = "score" if wanted.get("task") == "ecm-knowledge" else "compare"
        return [*out, f"ld-agent judge {kind} {folders} -c JUDGE"]
    if wanted.get("task") == "statistics":
        return [
            f"ld-agent statistics {_data(wanted, column)} --out runs/statistics_{wanted.get('corpus', 'benchmark')}"
        ]
    if wanted.get("task") == "ratings":
        name = wanted["benchmark"]
        form = f"ld-agent judge form {name}.jsonl --questions benchmark --limit 50 --out runs/{name}.html"
        return [_build(name, config), form, f"ld-agent judge agree RATINGS... --key runs/{name}.key.json --keep"]
    if column.measure is None:
        return [f"# {column.name}: {NOT_MEASURED}"]
    out = _run(wanted, column, config)
    folder = _folder(wanted, column, config)
    judged = MEASURES.get(column.measure)
    if judged == PEOPLE:
        questions = "recursive" if wanted.get("task") == "response" else "memory"
        out.append(f"ld-agent judge form {folder} --questions {questions} --out {folder}.html --limit 100")
        out.append(f"ld-agent judge agree RATINGS... --key {folder}.key.json --keep")
    elif judged is not None:
        out.append(f"ld-agent judge {judged} {folder} -c JUDGE")
    if column.measure == "bert_score":
        out.append(f"ld-agent eval score {folder} --bert-score default")
    return out


def _build(benchmark: str, config: str) -> str:
    sources = "REQUESTS" if benchmark == "feedback" else "DIALOGUES"
    return f"ld-agent ecm build {benchmark} --from {sources} --samples {SAMPLES[benchmark]} --out {benchmark}.jsonl -c {config}"


def _data(where: Where, column: Column) -> str:
    """The data to run on. The file of session 5 has all earlier sessions."""
    if "benchmark" in where:
        return f"{where['benchmark']}.jsonl"
    return DATA.get(str(where.get("corpus", "msc")), "DATA").format(session=column.session or 5)


def _run(where: Where, column: Column, config: str) -> list[str]:
    task = str(where.get("task", "response"))
    settings = " ".join(_settings(where))
    folder = _folder(where, column, config)
    if task.startswith("ecm-"):
        name = task.removeprefix("ecm-")
        return [
            _build(name, config),
            f"ld-agent ecm run {name}.jsonl -c {config} {settings} --out {folder}".replace("  ", " "),
        ]
    data = "MSC/msc_personasummary/session_4/test.txt" if task == "extraction" else _data(where, column)
    return [
        f"ld-agent {EVALS.get(task, 'eval response')} {data} -c {config} {settings} --out {folder}".replace("  ", " ")
    ]


def _settings(where: Where) -> list[str]:
    out = []
    views = where.get("views")
    if views:
        out.append(f"memory.views=[{','.join(views)}]")
    for key, value in where.items():
        if key in SETTINGS:
            out.append(SETTINGS[key].format(str(value).lower() if isinstance(value, bool) else value))
        out += SWITCHES.get((key, value), ()) if not isinstance(value, list) else ()
        if key == "rounds":
            out += [
                f"memory.{view}.rounds={value}" for view in views or () if view in ("conditional", "history", "summary")
            ]
    return out


def _folder(where: Where, column: Column, config: str) -> str:
    named = [str(config).replace("/", "-"), *(where.get("views") or ())]
    for key, value in where.items():
        if key not in ("views", "personas", "examples") and value not in (True, None):
            named.append(f"no-{key}" if value is False else str(value))
    if column.session is not None:
        named.append(f"session-{column.session}")
    return "runs/" + "_".join(dict.fromkeys(named))
