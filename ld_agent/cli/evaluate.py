"""``ld-agent eval``: measure modules and agents against references, with confidence intervals. One command for every
entry of `ld_agent.evaluation.tasks.registry`, and ``score``. Prints; decides nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.options import BertModel, Configs, Json, Lenient, Limit, On, Out, Overrides, Overwrite
from ld_agent.cli.runs import carry_out, report
from ld_agent.evaluation.tasks.registry import TASKS, Option, TaskEntry
from ld_agent.program import lenient

if TYPE_CHECKING:
    from ld_agent.evaluation.run_files import Run

app = typer.Typer(help="Measure extraction, summaries, replies and recall against references.", no_args_is_help=True)


def command_of(task: TaskEntry) -> Callable[..., None]:
    """Create the command of a task: the common parameters and the task's own options."""

    def command(**given: Any) -> None:
        data, limit = given["data"], given["limit"]
        options = {option.name: given[option.name] for option in task.options}
        with lenient(given["skip_bad"]):
            carry_out(
                lambda settings: task.make(data, settings, limit, **options),
                data=data,
                overrides=given["overrides"],
                configs=given["config"],
                limit=limit,
                as_json=given["as_json"],
                out=given["out"],
                overwrite=given["overwrite"],
                bert_score=given.get("bert_score"),
                on=given["on"],
                labelled=lambda runs: task.with_labels(runs, **options),
            )

    parameters = [
        _parameter("data", Annotated[Path, typer.Argument(metavar="DATA", help=task.data)], inspect.Parameter.empty),
        _parameter("overrides", Overrides),
        _parameter("config", Configs),
        _parameter("limit", Limit),
        _parameter("as_json", Json, default=False),
        _parameter("out", Out),
        _parameter("overwrite", Overwrite, default=False),
        _parameter("on", On, default=""),
        _parameter("skip_bad", Lenient, default=False),
        *([_parameter("bert_score", BertModel)] if task.has_texts else ()),
        *(_parameter(option.name, _annotation(option), option.default) for option in task.options),
    ]
    command.__doc__ = task.help
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _annotation(option: Option) -> Any:
    if isinstance(option.default, bool):
        return Annotated[bool, typer.Option(option.flag, help=option.help)]
    if isinstance(option.default, tuple):
        return Annotated[list[Path] | None, typer.Option(option.flag, help=option.help)]
    if isinstance(option.default, str):
        return Annotated[str, typer.Option(option.flag, help=option.help)]
    return Annotated[int | None, typer.Option(option.flag, min=1, help=option.help)]


for _task in TASKS.values():
    if _task.help is not None:
        app.command(_task.name)(command_of(_task))


@app.command()
def score(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders written with --out.")],
    as_json: Json = False,
    bert_score: BertModel = None,
    partial: Annotated[bool, typer.Option("--partial", help="Also score unfinished runs.")] = False,
) -> None:
    """Score stored predictions again, without a model; compare several runs with the first.

    Example:

      ld-agent eval score runs/extraction/default runs/extraction/qwen3-0.6b
    """
    from ld_agent.cli.show import say
    from ld_agent.errors import InputError
    from ld_agent.evaluation.run_files import read_run, runs_under

    paths = [run for folder in folders for run in (runs_under(folder) or [folder])]
    runs: list[tuple[Run, Path | None]] = []
    for folder in paths:
        run = read_run(folder)
        if run.missing:
            progress = f"{folder} is unfinished: {run.missing} of {run.wanted} predictions are missing"
            if not partial:
                raise InputError(
                    f"{progress}; run its eval command again to resume, or score what is there with --partial"
                )
            say(progress)
        runs.append((run, None if run.missing else folder))
    report(runs, as_json, bert_score)
