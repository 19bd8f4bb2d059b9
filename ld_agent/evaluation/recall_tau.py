"""Plot recall against the time constant τ for both scorers:

    python -m ld_agent.evaluation.recall_tau locomo10.json docs/recall_tau.png

The numbers are written next to the plot (``.json``). Questions are asked the day after the end of a conversation,
months after most of the events they refer to.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ld_agent.config import Config, load_config
from ld_agent.evaluation.retrieval import ask, asking, figures, load_cases, remembered
from ld_agent.evaluation.retrieval_cases import Case
from ld_agent.memory.views.events import EventView

TAUS: tuple[float | None, ...] = (1e6, 1e7, 3e7, 1e8, 1e9, None)
CURVES = ("paper", "hybrid")  # the scorers that use τ
MEASURES = ("recall_any@1", "recall_any@5", "recall_all@5")
COLOURS = {"paper": "#c0392b", "hybrid": "#1f6fb2"}
DASHES = {"recall_any@1": "-", "recall_any@5": "--", "recall_all@5": ":"}


def curve(config: Config, cases: Sequence[Case], taus: Sequence[float | None] = TAUS) -> list[dict[str, Any]]:
    """Measure both scorers at every τ on the same memories; return one row per scorer and τ."""
    outcomes: dict[tuple[str, float | None], list[Any]] = {(s, tau): [] for s in CURVES for tau in taus}
    with asking(config, cases) as agent:
        for case in cases:
            view, numbers = remembered(agent, case, "summaries")
            for scorer, tau in outcomes:
                settings = view.context.settings.model_copy(update={"scorer": scorer, "tau": tau})
                outcomes[scorer, tau] += ask(agent, case, EventView(replace(view.context, settings=settings)), numbers)
    return [{"scorer": s, "tau": tau, **figures(answers)} for (s, tau), answers in outcomes.items()]


def picture(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Plot one line per scorer and measure, with the measured values of τ evenly spaced."""
    taus = list(dict.fromkeys(row["tau"] for row in rows))
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for scorer in dict.fromkeys(row["scorer"] for row in rows):
        by_tau = {row["tau"]: row for row in rows if row["scorer"] == scorer}
        for measure in MEASURES:
            values = [100 * by_tau[tau][measure] for tau in taus]
            label = f"{scorer}, {measure.removeprefix('recall_')}"
            axes.plot(values, DASHES[measure], color=COLOURS[scorer], label=label, marker=".")
    axes.set_xticks(range(len(taus)), ["no decay" if tau is None else f"{tau:.0e}".replace("e+0", "e") for tau in taus])
    axes.set(xlabel="time constant τ in seconds (1e7 s are 116 days)", ylabel="recall, per cent", ylim=(0, 100))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center")
    return figure


def main(data: Path, out: Path) -> None:
    """Measure recall, then write the plot and, next to it, the numbers."""
    rows = curve(load_config(), load_cases(data))
    for row in rows:
        row.pop("ms_per_query", None)
    picture(rows).savefig(out, dpi=130)
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
