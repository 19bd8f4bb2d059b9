"""Plot what ``ld-agent bench population --json`` measured:

python -m ld_agent.evaluation.population_plot docs/population.json docs/population.png
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

COLOURS = {"cold": "#c0392b", "second": "#888888", "warm": "#1f6fb2"}
NAMES = {"cold": "the database ranks", "second": "the index is made", "warm": "the index is in memory"}
MARK = 50
"""Milliseconds that a cold recall may take."""


def picture(people: Sequence[Mapping[str, float]]) -> Figure:
    """Plot the duration of recall over the number of a person's events. ``people`` is ``by_person`` of the results."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    events = [one["events"] for one in people]
    for kind, colour in COLOURS.items():
        axes.scatter(events, [one[f"{kind}_ms"] for one in people], color=colour, s=12, label=NAMES[kind])
    axes.axhline(MARK, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="events of the person asked", ylabel="recall, ms", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def main(results: Path, out: Path) -> None:
    """Draw the results of a file."""
    given = json.loads(results.read_text(encoding="utf-8"))
    picture(given["by_person"]).savefig(out, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
