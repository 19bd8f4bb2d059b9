"""``ld-agent tables``: a paper's table filled with stored runs, or the commands to fill it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli.options import RunsFolder
from ld_agent.cli.show import console, figures_table, plain, say
from ld_agent.errors import InputError

if TYPE_CHECKING:
    from ld_agent.evaluation.tables.filled import FilledTable
    from ld_agent.evaluation.tables.paper_figures import PaperTable

NAMES = (
    "ld-agent-1 … ld-agent-5, rsum-3 … rsum-9, rsum-memory, rsum-a10, rsum-a11, rsum-v1-2, ecm-1 … ecm-7; a unique ending is "
    "enough."
)


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
    """Print a table: aligned on a terminal, in Markdown for everything else."""
    if not console.is_terminal:
        sys.stdout.write(filled.markdown())
        return
    table = filled.table
    rows = [[plain(cell, "bold" if line.ours else "") for cell in (line.label, *line.cells)] for line in filled.lines]
    heads = ["", *(column.head for column in table.columns)]
    console.print(figures_table(f"{table.paper}, {table.number}: {table.title}", heads, rows))
    for note in filled.notes:
        console.print(plain(f"- {note}", "dim"))


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
