"""``ld-agent figures``: a paper's figure from stored runs, as a picture and as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.options import Json, RunsFolder
from ld_agent.program import print_json


def figures(
    name: Annotated[str, typer.Argument(help="ld-agent-3b, rsum-4, rsum-7, ecm-5 or ecm-6.")],
    runs: RunsFolder = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the picture here, such as choice.png.")] = None,
    as_json: Json = False,
) -> None:
    """Draw a paper's figure from your runs and print its numbers.

    Example:

      ld-agent figures ecm-6 --from runs --out sweep.png
    """
    from ld_agent.cli.show import console, figures_table
    from ld_agent.errors import InputError
    from ld_agent.evaluation.tables.figures import FIGURES, draw, numbers
    from ld_agent.evaluation.tables.runs import collect

    if runs is None:
        raise InputError("--from is missing: give the folder with your runs")
    values = numbers(name, collect(runs))
    if out is not None:
        draw(name, values, out)
    if as_json:
        print_json(values)
        return
    heads = sorted({key for points in values.values() for key in points}, key=str)
    rows = [
        [row, *(f"{points[head]:.2f}" if head in points else "–" for head in heads)] for row, points in values.items()
    ]
    console.print(figures_table(FIGURES[name], ["", *map(str, heads)], rows))
