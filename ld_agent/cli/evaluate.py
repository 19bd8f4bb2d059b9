"""``ld-agent eval``: measure modules and agents against references, with confidence intervals. One command for every
entry of `ld_agent.evaluation.tasks.registry`, and ``score``. Prints; decides nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.options import (
    BertModel,
    Configs,
    Json,
    Lenient,
    Limit,
    Metrics,
    On,
    Out,
    Overrides,
    Overwrite,
    help_of,
)
from ld_agent.cli.show import console, figure, figures_table, plain, say
from ld_agent.config import Config, greedy_config
from ld_agent.errors import InputError
from ld_agent.evaluation.tasks.registry import TASKS, Option, TaskEntry
from ld_agent.files import check_output, write_json
from ld_agent.program import lenient, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ld_agent.evaluation.run_files import Run

app = typer.Typer(help="Measure extraction, summaries, replies and recall against references.", no_args_is_help=True)
FRAME = ("episodes", "predictions", "empty", "interval_level", "bootstrap_samples")
"""Numbers in scores that say how they were computed; the title has the first two."""


def command_of(task: TaskEntry) -> Callable[..., None]:
    """Create the command of a task: `carry_out` with the task's own options."""

    def command(**given: Any) -> None:
        carry_out(task, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    data: Any = Annotated[Path, typer.Argument(metavar="DATA", help=task.data)]
    parameters = [
        inspect.Parameter("data", keyword, annotation=data),
        *(one for one in inspect.signature(carry_out, eval_str=True).parameters.values() if one.kind is keyword),
        *(inspect.Parameter(o.name, keyword, default=o.default, annotation=_annotation(o)) for o in task.options),
    ]
    command.__doc__ = help_of(task.help, *task.examples)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _annotation(option: Option) -> Any:
    if isinstance(option.default, bool | str):
        return Annotated[type(option.default), typer.Option(option.flag, help=option.help)]
    if isinstance(option.default, tuple):
        return Annotated[list[Path] | None, typer.Option(option.flag, help=option.help)]
    return Annotated[int | None, typer.Option(option.flag, min=1, help=option.help)]


def carry_out(
    task: TaskEntry,
    data: Path,
    *,
    overrides: Overrides = None,
    config: Configs = None,
    limit: Limit = None,
    as_json: Json = False,
    out: Out = None,
    overwrite: Overwrite = False,
    on: On = "",
    skip_bad: Lenient = False,
    metrics: Metrics = None,
    **options: Any,
) -> None:
    """Run a task with every config and report.

    Args:
        config: config files or shipped names; none: the default.
        out: where the runs are stored, in one folder per config if there are several.
        options: the task's own.
    """
    from ld_agent.evaluation.run_files import PREDICTIONS, SCORES
    from ld_agent.evaluation.runner import perform
    from ld_agent.evaluation.scoring import metric

    for given in metrics or ():
        metric(given)  # before anything is predicted
    chosen: Sequence[str | None] = config or (None,)
    loaded = [greedy_config(name, overrides or []) for name in chosen]
    runs: list[Run] = []
    names = names_of([name or "default" for name in chosen])
    folders = [out / name if out is not None and len(names) > 1 else out for name in names]
    with lenient(skip_bad):
        for name, config_file, settings, folder in zip(names, chosen, loaded, folders, strict=True):
            if folder is not None:
                for file in (folder, folder / PREDICTIONS, folder / SCORES):
                    check_output(file, (data, config_file))
            made = task.make(data, settings, limit, **options)
            runs.append(perform(made, settings, name, data=data, out=folder, limit=limit, overwrite=overwrite, on=on))
        report([*zip(task.labelled(runs, **options), folders, strict=True)], as_json, metrics=metrics)


for _name, _task in TASKS.items():
    if _name == _task.name:
        app.command(_name)(command_of(_task))


def names_of(configs: Sequence[str]) -> list[str]:
    """Unique short names of configs: the file's stem, numbered if repeated."""
    names: list[str] = []
    for config in configs:
        stem = Path(config).stem if config.endswith((".yaml", ".yml")) else Path(config).name
        again = sum(1 for name in names if name.partition("#")[0] == stem)
        names.append(f"{stem}#{again + 1}" if again else stem)
    return names


@app.command()
def score(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders written with --out.")],
    as_json: Json = False,
    bert_score: BertModel = None,
    metrics: Metrics = None,
    partial: Annotated[bool, typer.Option("--partial", help="Also score unfinished runs.")] = False,
) -> None:
    """Score stored predictions again, without a model; compare several runs with the first.

    Example:

      ld-agent eval score runs/extraction/default runs/extraction/qwen3-1.7b
    """
    from ld_agent.evaluation.run_files import read_run, runs_under

    runs: list[tuple[Run, Path | None]] = []
    for folder in [path for given in folders for path in (runs_under(given) or [given])]:
        run = read_run(folder)
        if run.missing:
            progress = f"{folder} is unfinished: {run.missing} of {run.wanted} predictions are missing"
            if not partial:
                raise InputError(
                    f"{progress}; run its eval command again to resume, or score what is there with --partial"
                )
            say(progress)
        runs.append((run, None if run.missing else folder))
    report(runs, as_json, bert_score, metrics)


def report(
    runs: Sequence[tuple[Run, Path | None]], as_json: bool, encoder: str | None = None, metrics: list[str] | None = None
) -> None:
    """Measure runs, store the figures with those in a folder, and show them as JSON or tables.

    Args:
        encoder: also compute BERTScore with this encoder; "default": the configured one.
        metrics: also compute these, ``module:name``.
    """
    from ld_agent.evaluation.bert_score import BertScore
    from ld_agent.evaluation.run_files import SCORES
    from ld_agent.evaluation.scoring import comparisons, measures, scores

    similarity = None
    if encoder is not None:
        similarity = BertScore(Config().encoder.model if encoder == "default" else encoder)
    measured = [measures(run, similarity, metrics or ()) for run, _ in runs]
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
        print_json(results[0] if len(results) == 1 else {"systems": results, "comparisons": compared})
    else:
        _show(results, compared)


def _show(results: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]]) -> None:
    from ld_agent.evaluation.fallbacks import MARK, counts_of, footnote, in_words

    marked = {result["system"]: f"{result['system']} {MARK}" for result in results if result["mostly_fallbacks"]}
    for result in results:
        size = f"{result['episodes']} episodes, {result['predictions']} predictions"
        title = f"{marked.get(result['system'], result['system'])}: eval {result['task']}, {size}"
        console.print(figures_table(title, *_figures(result)))
        if counts := counts_of(result):
            console.print(plain(f"fallbacks: {in_words(counts)}", "dim"), soft_wrap=True)
    if compared:
        rows: list[list[RenderableType]] = []
        for test in compared:
            systems = [marked.get(test[name], test[name]) for name in ("system", "against")]
            named = [plain(word) for word in (*systems, test["metric"])]
            rows.append([*named, figure(test["difference"]), _between(test["interval"]), figure(test["p"])])
        heads = ["system", "against", "metric", "difference", "95 % interval", "p"]
        console.print(figures_table("paired bootstrap", heads, rows, left=3))
    for result in results:
        if note := footnote(counts_of(result)):
            console.print(plain(f"{MARK} {result['system']}: {note}", "yellow"), soft_wrap=True)


def _figures(result: dict[str, Any]) -> tuple[list[str], list[list[RenderableType]]]:
    """The heads and rows of a run's table."""
    sessions, intervals = result.get("by_session", {}), result["intervals"]
    measured = [key for key, value in result.items() if type(value) in (int, float) or key in intervals]
    rows: list[list[RenderableType]] = []
    for name in [key for key in measured if key not in FRAME]:
        by_session = (figure(figures.get(name)) for figures in sessions.values())
        rows.append([plain(name), figure(result.get(name)), _between(intervals.get(name)), *by_session])
    return ["", "all", "95 % interval", *(f"session {n}" for n in sessions)], rows


def _between(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{figure(interval[0])} to {figure(interval[1])}"
