"""``ld-agent tables``: a paper's table filled with stored runs, or the commands to fill it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli.options import RunsFolder
from ld_agent.cli.show import console, figures_table, plain, say
from ld_agent.errors import InputError

if TYPE_CHECKING:
    from ld_agent.evaluation.tables.filled import FilledTable
    from ld_agent.evaluation.tables.paper_figures import Column, PaperTable

NAMES = (
    "ld-agent-1 … ld-agent-5, rsum-3 … rsum-9, rsum-memory, rsum-a10, rsum-a11, rsum-v1-2, ecm-1 … ecm-7; a unique ending is "
    "enough."
)
PADDING = 2
"""Characters around a cell."""


def tables(
    name: Annotated[str, typer.Argument(help=NAMES)],
    runs: RunsFolder = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the commands that fill every cell instead.")] = False,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="With --plan: a base configuration; may be repeated.")
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(
            "--row", help="ROW=FOLDER: put a run into a row regardless of its configuration; may be repeated."
        ),
    ] = None,
    session: Annotated[
        int | None,
        typer.Option("--session", min=1, help="Fill columns that are all of session 5 from this session instead."),
    ] = None,
) -> None:
    """Show a table of a paper with your runs next to its figures, and list the differences below.

    Examples:

      ld-agent tables ld-agent-1 --from runs

      ld-agent tables ecm-4 --plan -c qwen3-1.7b

      ld-agent tables rsum-3 --from runs --session 4
    """
    from ld_agent.evaluation.tables.paper_figures import paper_table

    table = paper_table(name) if session is None else paper_table(name).of_session(session)
    if plan:
        sys.stdout.write(_planned(table, config or ["default"]))
    elif runs is None:
        raise InputError("--from is missing: give the folder with your runs, or --plan for the commands that make them")
    else:
        _show(_filled(table, runs, row or []))


def _show(filled: FilledTable) -> None:
    """Print a table: on a terminal aligned, in blocks of as many columns as fit, in Markdown for everything else."""
    if not console.is_terminal:
        sys.stdout.write(filled.markdown())
        return
    table, title = filled.table, f"{filled.table.paper}, {filled.table.number}: {filled.table.title}"
    room = console.width - min(max(len(line.label) for line in filled.lines) + PADDING, console.width // 2)
    for start, end in _blocks(filled, room):
        rows = [
            [plain(cell, "bold" if line.ours else "") for cell in (line.label, *line.cells[start:end])]
            for line in filled.lines
        ]
        console.print(figures_table(title, ["", *(_head(column) for column in table.columns[start:end])], rows))
        title = ""
    for note in filled.notes:
        console.print(plain(f"- {note}", "dim"))


def _blocks(filled: FilledTable, room: int) -> Iterator[tuple[int, int]]:
    """The first and last (exclusive) columns that fit next to each other into ``room`` characters; one always does."""
    start = used = 0
    for number, column in enumerate(filled.table.columns):
        cells = (line.cells[number] for line in filled.lines if number < len(line.cells))
        width = max(map(len, (*_head(column).split("\n"), *cells))) + PADDING
        if number > start and used + width > room:
            yield start, number
            start, used = number, 0
        used += width
    yield start, len(filled.table.columns)


def _head(column: Column) -> str:
    return "\n".join(column.head.rsplit(" ", 1))


def _filled(table: PaperTable, runs: Path, rows: list[str]) -> FilledTable:
    from ld_agent.evaluation.run_files import read_run
    from ld_agent.evaluation.tables.filled import FilledTable
    from ld_agent.evaluation.tables.runs import collect

    given: dict[str, list[str]] = {}
    for assigned in rows:
        label, equals, folder = assigned.rpartition("=")
        if not equals or not label:
            raise InputError(f'--row {assigned!r} is not an assignment; write it like "+ Mem=runs/memory"')
        given.setdefault(label, []).append(str(read_run(Path(folder)).header["hash"]))
    collected = collect(runs)
    for reason in collected.left_out:
        say(f"left out: {reason}")
    filled = FilledTable(table, collected, given)
    if not filled.filled:
        say(f"no run in {runs} fits a cell of {table.name}; the notes under the table say what each run is")
    return filled


def _planned(table: PaperTable, configs: list[str]) -> str:
    from ld_agent.evaluation.tables.plan import plan, shown, yours

    planned = plan(table, configs)
    lines = [*yours(line for _, commands in planned for line in commands), ""]
    lines.append(f"# {table.paper}, {table.number}: {table.title}")
    before: set[str] = set()
    for label, commands in planned:
        lines += ["", f"# {label}", *(f"# above: {line}" if line in before else line for line in commands)]
        before.update(commands)
    return "\n".join([*lines, "", shown(table, configs), ""])
