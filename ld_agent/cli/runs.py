"""Runs on the command line: shared options, execution, and display of the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ld_agent.program import print_json

if TYPE_CHECKING:
    from ld_agent.config import Config
    from ld_agent.evaluation.runner import Run, Task

Overrides = Annotated[
    list[str] | None, typer.Argument(help="Config overrides, for every config.", metavar="[KEY=VALUE]...")
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="A config file, or the name of a shipped one; repeat to compare with the first."
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N episodes or dialogues.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Store the predictions in this folder; interrupted runs resume."),
]
BertModel = Annotated[
    str | None,
    typer.Option(
        "--bert-score", metavar="MODEL", help="Also compute BERTScore with this encoder; 'default': encoder.model."
    ),
]
On = Annotated[
    Literal["", "ray"],
    typer.Option("--on", help="ray: distribute the episodes over a Ray cluster. Default: this process."),
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip broken records and sessions out of order, name and count them.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Discard predictions of another configuration in --out.")]


def carry_out(
    make: Callable[[Config], Task],
    data: Path,
    overrides: list[str] | None,
    configs: list[str] | None,
    limit: int | None,
    as_json: bool,
    out: Path | None,
    overwrite: bool,
    bert_score: str | None = None,
    on: str = "",
) -> None:
    """Run a task with every config and report.

    Args:
        make: creates the task for a config.
        configs: config files or shipped names; none: the default.
        out: where the runs are stored, in one folder per config if there are several.
        on: "ray": predict on a Ray cluster.
    """
    from ld_agent.config import greedy_config
    from ld_agent.evaluation.run_files import PREDICTIONS, SCORES
    from ld_agent.evaluation.runner import perform
    from ld_agent.files import check_output

    chosen: Sequence[str | None] = configs or (None,)
    loaded = [greedy_config(name, overrides or []) for name in chosen]
    runs: list[tuple[Run, Path | None]] = []
    names = names_of([name or "default" for name in chosen])
    for name, config_file, settings in zip(names, chosen, loaded, strict=True):
        folder = out / name if out is not None and len(loaded) > 1 else out
        if folder is not None:
            for file in (folder, folder / PREDICTIONS, folder / SCORES):
                check_output(file, (data, config_file))
        runs.append((perform(make(settings), settings, name, data, folder, limit, overwrite, on), folder))
    report(runs, as_json, bert_score)


def names_of(configs: Sequence[str]) -> list[str]:
    """Unique short names of configs: the file's stem, numbered if repeated."""
    names: list[str] = []
    for config in configs:
        stem = Path(config).stem if config.endswith((".yaml", ".yml")) else Path(config).name
        again = sum(1 for name in names if name.partition("#")[0] == stem)
        names.append(f"{stem}#{again + 1}" if again else stem)
    return names


def report(runs: Sequence[tuple[Run, Path | None]], as_json: bool, encoder: str | None) -> None:
    """Measure runs, store the figures with those in a folder, and show them as JSON or tables.

    Args:
        encoder: also compute BERTScore with this encoder; "default": the configured one.
    """
    from ld_agent.cli.show import say
    from ld_agent.config import Config
    from ld_agent.evaluation.bert_score import BertScore
    from ld_agent.evaluation.runner import write_scores
    from ld_agent.evaluation.scoring import comparisons, measures, scores

    similarity = None
    if encoder is not None:
        similarity = BertScore(Config().encoder.model if encoder == "default" else encoder)
    measured = [measures(run, similarity) for run, _ in runs]
    results = []
    for (run, folder), of_run in zip(runs, measured, strict=True):
        result = scores(run, of_run) | ({"bert_score_model": similarity.name} if similarity is not None else {})
        results.append(result)
        if result["empty"]:
            say(f"{run.name}: {result['empty']} of {result['predictions']} predictions are empty and count as such")
        if folder is not None:
            write_scores(folder, result)
    compared = comparisons([run for run, _ in runs], measured) if len(runs) > 1 else []
    if as_json:
        whole = results[0] if len(results) == 1 else {"systems": results, "comparisons": compared}
        print_json(whole)
        return
    _show(results, compared)


def _show(results: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from ld_agent.cli.show import console, plain
    from ld_agent.evaluation.fallbacks import MARK, counts_of, footnote, in_words
    from ld_agent.evaluation.tasks import task_entry

    for result in results:
        mark = f" {MARK}" if result["mostly_fallbacks"] else ""
        size = f"{result['episodes']} episodes, {result['predictions']} predictions"
        title = f"{result['system']}{mark}: eval {result['task']}, {size}"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="dim")
        for heading in ("", "all", "95 % interval", *(f"session {n}" for n in result.get("by_session", {}))):
            table.add_column(heading, justify="right" if heading else "left")
        figures_of = [key for key, value in result.items() if isinstance(value, float) or key in result["intervals"]]
        for name in task_entry(result["task"]).shown or [key for key in figures_of if key != "interval_level"]:
            low_high = result["intervals"].get(name)
            between = f"{_number(low_high[0])} … {_number(low_high[1])}" if low_high else "–"
            by_session = [_number(figures.get(name)) for figures in result.get("by_session", {}).values()]
            table.add_row(plain(name), _number(result.get(name)), between, *by_session)
        console.print(table)
        if counts := counts_of(result):
            console.print(plain(f"fallbacks: {in_words(counts)}", "dim"), soft_wrap=True)
    marked = {result["system"] for result in results if result["mostly_fallbacks"]}
    if compared:
        table = Table(title="paired bootstrap", title_justify="left", box=None, padding=(0, 1), header_style="dim")
        for heading in ("system", "against", "metric", "difference", "95 % interval", "p"):
            table.add_column(heading, justify="left" if heading in ("system", "against", "metric") else "right")
        for test in compared:
            low, high = test["interval"]
            between = f"{_number(low)} … {_number(high)}"
            systems = [f"{name} {MARK}" if name in marked else name for name in (test["system"], test["against"])]
            named = (*map(plain, systems), plain(test["metric"]))
            table.add_row(*named, _number(test["difference"]), between, _number(test["p"]))
        console.print(table)
    for result in results:
        if note := footnote(counts_of(result)):
            console.print(plain(f"{MARK} {result['system']}: {note}", "yellow"), soft_wrap=True)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
