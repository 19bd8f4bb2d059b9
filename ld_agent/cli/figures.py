"""``ld-agent figures``: a paper's figure from stored runs, as a picture and as numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.runs import Json
from ld_agent.program import print_json


def figures(
    name: Annotated[str, typer.Argument(help="ld-agent-3b, rsum-4, rsum-7, ecm-5 or ecm-6.")],
    runs: Annotated[Path | None, typer.Option("--from", help="A folder that contains runs, at any depth.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the picture here, such as choice.png.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the commands that make the runs instead.")] = False,
    config: Annotated[str, typer.Option("--config", "-c", help="With --plan: the base configuration.")] = "default",
    as_json: Json = False,
) -> None:
    """Draw a paper's figure from your runs and print its numbers.

    Examples:

      ld-agent figures ecm-6 --from runs --out sweep.png

      ld-agent figures ecm-5 --plan -c qwen3-0.6b
    """
    from ld_agent.errors import InputError
    from ld_agent.evaluation import figures as drawn
    from ld_agent.evaluation.table_plan import yours
    from ld_agent.evaluation.table_runs import collect

    if plan:
        lines = drawn.commands(name, config)
        if as_json:
            print_json(lines)
        else:
            sys.stdout.write("\n".join([*yours(lines), *lines]) + "\n")
        return
    if runs is None:
        raise InputError("--from is missing: give the folder with your runs, or --plan for the commands that make them")
    values = drawn.numbers(name, collect(runs))
    if out is not None:
        drawn.draw(name, values, out)
    if as_json:
        print_json(values)
        return
    _show(drawn.FIGURES[name], values)


def _show(title: str, points: dict[str, dict[object, float]]) -> None:
    from rich.table import Table

    from ld_agent.cli.show import console

    heads = sorted({key for values in points.values() for key in values}, key=str)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="dim")
    for number, head in enumerate(["", *heads]):
        table.add_column(str(head), justify="right" if number else "left")
    for row, values in points.items():
        table.add_row(row, *(f"{values[head]:.2f}" if head in values else "–" for head in heads))
    console.print(table)
