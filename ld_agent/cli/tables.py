"""``ld-agent tables``: a paper's table filled with stored runs, or the commands to fill it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli.options import Json, RunsFolder
from ld_agent.cli.show import say
from ld_agent.errors import InputError
from ld_agent.program import print_json

if TYPE_CHECKING:
    from ld_agent.evaluation.tables.filled import FilledTable
    from ld_agent.evaluation.tables.paper_figures import PaperTable


NAMES = (
    "ld-agent-1 … ld-agent-5, rsum-3 … rsum-9, rsum-memory, rsum-a10, rsum-a11, rsum-v1-2, ecm-1 … ecm-7; a unique ending is "
    "enough; all: those with a run."
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
    as_json: Json = False,
) -> None:
    """Show a table of a paper with your runs next to its figures, and list the differences below.

    Examples:

      ld-agent tables ld-agent-1 --from runs

      ld-agent tables ecm-4 --plan -c qwen3-0.6b

      ld-agent tables rsum-3 --from runs --session 4

      ld-agent tables all --from runs
    """
    from ld_agent.evaluation.tables.paper_figures import paper_table, paper_tables

    wanted = list(paper_tables().values()) if name == "all" else [paper_table(name)]
    if session is not None:
        wanted = [table.of_session(session) for table in wanted if name != "all" or table.session is not None]
    if plan:
        _planned(wanted, config or ["default"], as_json=as_json)
    elif runs is None:
        raise InputError("--from is missing: give the folder with your runs, or --plan for the commands that make them")
    elif row and name == "all":
        raise InputError("--row belongs to one table; name it instead of all")
    else:
        _filled(name, wanted, runs, row or [], as_json=as_json)


def _filled(name: str, wanted: list[PaperTable], runs: Path, rows: list[str], *, as_json: bool) -> None:
    from ld_agent.evaluation.run_files import read_run
    from ld_agent.evaluation.tables.filled import fill, markdown
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
    filled = [fill(table, collected, given) for table in wanted]
    if not any(one.filled for one in filled):
        say(f"no run in {runs} fits a cell of {name}; the notes under the table say what each run is")
    shown = [one for one in filled if one.filled or name != "all"]
    if as_json:
        print_json([_plain(one) for one in shown] if name == "all" else _plain(shown[0]))
    else:
        sys.stdout.write("\n".join(markdown(one) for one in shown))


def _plain(filled: FilledTable) -> dict[str, object]:
    return {
        "table": filled.table.name,
        "columns": [column.head for column in filled.table.columns],
        "rows": [{"label": line.label, "ours": line.ours, "cells": list(line.cells)} for line in filled.lines],
        "notes": list(filled.notes),
    }


def _planned(wanted: list[PaperTable], configs: list[str], *, as_json: bool) -> None:
    from ld_agent.evaluation.tables.plan import plan, shown, yours

    planned = {table.name: dict(plan(table, configs)) for table in wanted}
    if as_json:
        shows = {table.name: {"the table": [shown(table, configs)]} for table in wanted}
        print_json({name: rows | shows[name] for name, rows in planned.items()})
        return
    commands = [line for rows in planned.values() for lines in rows.values() for line in lines]
    sys.stdout.write("".join(f"{line}\n" for line in yours(commands)))
    before: set[str] = set()
    for table in wanted:
        sys.stdout.write(f"\n# {table.paper}, {table.number}: {table.title}\n")
        for label, lines in planned[table.name].items():
            written = (f"# above: {line}" if line in before else line for line in lines)
            sys.stdout.write(f"\n# {label}\n" + "".join(f"{line}\n" for line in written))
            before.update(lines)
        sys.stdout.write(f"\n{shown(table, configs)}\n")
