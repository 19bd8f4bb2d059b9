"""``ld-agent tables``: a paper's table with kept runs in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.runs import Json


def tables(
    name: Annotated[str, typer.Argument(help="ld-agent-1 … ld-agent-5, rsum-3 … rsum-9, rsum-memory, ecm-3 … ecm-6.")],
    runs: Annotated[Path, typer.Option("--from", help="A folder with runs in it or below.")],
    latex: Annotated[bool, typer.Option("--latex", help="LaTeX (booktabs) instead of Markdown.")] = False,
    row: Annotated[
        list[str] | None,
        typer.Option("--row", help="ROW=FOLDER: put a run into a row whatever its configuration; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a table of a paper with your runs next to its figures, and what differs under it.

    Examples:

      ld-agent tables ld-agent-1 --from runs

      ld-agent tables ld-agent-2 --from runs --row "+ Persona [user]=runs/persona_user" --latex
    """
    from ld_agent.cli.show import say
    from ld_agent.errors import InputError
    from ld_agent.evaluation.paper_figures import paper_table
    from ld_agent.evaluation.runner import read_run
    from ld_agent.evaluation.table_runs import collect
    from ld_agent.evaluation.tables import fill
    from ld_agent.evaluation.tables import latex as as_latex
    from ld_agent.evaluation.tables import markdown as as_markdown

    table = paper_table(name)
    given: dict[str, list[str]] = {}
    for assigned in row or []:
        label, equals, folder = assigned.rpartition("=")
        if not equals or not label:
            raise InputError(f'--row {assigned!r} is not an assignment; write it like "+ Mem=runs/memory"')
        given.setdefault(label, []).append(str(read_run(Path(folder)).header["hash"]))
    collected = collect(runs)
    filled = fill(table, collected, given)
    for reason in collected.left_out:
        say(f"left out: {reason}")
    if not filled.filled:
        say(f"no run in {runs} fits a cell of {name}; the notes under the table say what each run is")
    if as_json:
        lines = [{"label": line.label, "ours": line.ours, "cells": list(line.cells)} for line in filled.lines]
        columns = [f"{column.group} {column.name}".strip() for column in table.columns]
        whole = {"table": name, "columns": columns, "rows": lines, "notes": list(filled.notes)}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(as_latex(filled) if latex else as_markdown(filled))
