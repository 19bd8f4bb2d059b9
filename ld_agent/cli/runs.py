"""Runs on the command line: their execution, and display of the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ld_agent.program import print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ld_agent.config import Config
    from ld_agent.evaluation.run_files import Run
    from ld_agent.evaluation.runner import Task

FRAME = ("episodes", "predictions", "empty", "interval_level", "bootstrap_samples")
"""Numbers in scores that say how they were computed; the title has the first two."""


def carry_out(
    make: Callable[[Config], Task],
    *,
    data: Path,
    overrides: list[str] | None,
    configs: list[str] | None,
    limit: int | None,
    as_json: bool,
    out: Path | None,
    overwrite: bool,
    bert_score: str | None = None,
    on: str = "",
    labelled: Callable[[Sequence[Run]], Sequence[Run]] = tuple,
) -> None:
    """Run a task with every config and report.

    Args:
        make: creates the task for a config.
        configs: config files or shipped names; none: the default.
        out: where the runs are stored, in one folder per config if there are several.
        on: "ray": predict on a Ray cluster.
        labelled: adds people's labels to the finished runs.
    """
    from ld_agent.config import greedy_config
    from ld_agent.evaluation.run_files import PREDICTIONS, SCORES
    from ld_agent.evaluation.runner import perform
    from ld_agent.files import check_output

    chosen: Sequence[str | None] = configs or (None,)
    loaded = [greedy_config(name, overrides or []) for name in chosen]
    runs: list[Run] = []
    folders: list[Path | None] = []
    names = names_of([name or "default" for name in chosen])
    for name, config_file, settings in zip(names, chosen, loaded, strict=True):
        folder = out / name if out is not None and len(loaded) > 1 else out
        if folder is not None:
            for file in (folder, folder / PREDICTIONS, folder / SCORES):
                check_output(file, (data, config_file))
        run = perform(make(settings), settings, name, data=data, out=folder, limit=limit, overwrite=overwrite, on=on)
        runs.append(run)
        folders.append(folder)
    report([*zip(labelled(runs), folders, strict=True)], as_json, bert_score)


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
    from ld_agent.evaluation.run_files import SCORES
    from ld_agent.evaluation.scoring import comparisons, measures, scores
    from ld_agent.files import write_json

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
            write_json(folder / SCORES, result)
    compared = comparisons([run for run, _ in runs], measured) if len(runs) > 1 else []
    if as_json:
        whole = results[0] if len(results) == 1 else {"systems": results, "comparisons": compared}
        print_json(whole)
        return
    _show(results, compared)


def _show(results: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]]) -> None:
    from ld_agent.cli.show import console, figure, figures_table, plain
    from ld_agent.evaluation.fallbacks import MARK, counts_of, footnote, in_words
    from ld_agent.evaluation.tasks.registry import task_entry

    rows: list[list[RenderableType]]
    marked = {result["system"] for result in results if result["mostly_fallbacks"]}
    for result in results:
        mark = f" {MARK}" if result["system"] in marked else ""
        size = f"{result['episodes']} episodes, {result['predictions']} predictions"
        sessions = result.get("by_session", {})
        heads = ["", "all", "95 % interval", *(f"session {n}" for n in sessions)]
        figures_of = [k for k, value in result.items() if type(value) in (int, float) or k in result["intervals"]]
        rows = [
            [
                plain(name),
                figure(result.get(name)),
                _between(result["intervals"].get(name)),
                *(figure(figures.get(name)) for figures in sessions.values()),
            ]
            for name in task_entry(result["task"]).shown or [key for key in figures_of if key not in FRAME]
        ]
        console.print(figures_table(f"{result['system']}{mark}: eval {result['task']}, {size}", heads, rows))
        if counts := counts_of(result):
            console.print(plain(f"fallbacks: {in_words(counts)}", "dim"), soft_wrap=True)
    if compared:
        rows = []
        for test in compared:
            systems = [f"{name} {MARK}" if name in marked else name for name in (test["system"], test["against"])]
            named = [plain(word) for word in (*systems, test["metric"])]
            rows.append([*named, figure(test["difference"]), _between(test["interval"]), figure(test["p"])])
        heads = ["system", "against", "metric", "difference", "95 % interval", "p"]
        console.print(figures_table("paired bootstrap", heads, rows, left=3))
    for result in results:
        if note := footnote(counts_of(result)):
            console.print(plain(f"{MARK} {result['system']}: {note}", "yellow"), soft_wrap=True)


def _between(interval: Sequence[float] | None) -> str:
    from ld_agent.cli.show import figure

    return "–" if interval is None else f"{figure(interval[0])} to {figure(interval[1])}"
