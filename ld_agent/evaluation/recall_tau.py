"""Recall against the time constant τ, for both scorers, as an SVG picture and its numbers. Written by

    python -m ld_agent.evaluation.recall_tau locomo10.json docs/recall_tau.svg

which also writes the numbers beside it (``.json``). Questions are asked the day after a conversation's end, months after
most of what they are about.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.config import Config, load_config
from ld_agent.evaluation.retrieval import ask, asking, figures, load_cases, remembered
from ld_agent.evaluation.retrieval_cases import Case
from ld_agent.memory.views.events import EventView

TAUS: tuple[float | None, ...] = (1e6, 1e7, 3e7, 1e8, 1e9, None)
CURVES = ("paper", "hybrid")  # the scorers that look at τ
MEASURES = ("recall_any@1", "recall_any@5", "recall_all@5")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 400, 60, 30, 50
COLOURS = {"paper": "#c0392b", "hybrid": "#1f6fb2"}
DASHES = {"recall_any@1": "", "recall_any@5": "6 3", "recall_all@5": "2 3"}


def curve(config: Config, cases: Sequence[Case], taus: Sequence[float | None] = TAUS) -> list[dict[str, Any]]:
    """Measure both scorers at every τ over memories that are made once; a row each with its figures."""
    outcomes: dict[tuple[str, float | None], list[Any]] = {(s, tau): [] for s in CURVES for tau in taus}
    with asking(config, cases) as agent:
        for case in cases:
            view, numbers = remembered(agent, case, "summaries")
            for scorer, tau in outcomes:
                settings = view.parts.settings.model_copy(update={"scorer": scorer, "tau": tau})
                outcomes[scorer, tau] += ask(agent, case, EventView(replace(view.parts, settings=settings)), numbers)
    return [{"scorer": s, "tau": tau, **figures(found)} for (s, tau), found in outcomes.items()]


def picture(rows: Sequence[Mapping[str, Any]]) -> str:
    """The curves as SVG; a line a scorer and measure, τ on a scale that has a place for each value measured."""
    taus = list(dict.fromkeys(row["tau"] for row in rows))
    step = (WIDTH - LEFT - 150) / max(len(taus) - 1, 1)
    across = {tau: LEFT + place * step for place, tau in enumerate(taus)}

    def down(value: float) -> float:
        return TOP + (1 - value) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        y = down(tenth / 10)
        parts.append(f'<line x1="{LEFT}" x2="{across[taus[-1]]:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth * 10} %</text>')
    for tau, x in across.items():
        label = "no decay" if tau is None else f"{tau:.0e}".replace("e+0", "e").replace("e+", "e")
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 10}">time constant τ in seconds (1e7 s are 116 days)</text>')
    place = 0
    for scorer in dict.fromkeys(row["scorer"] for row in rows):
        for measure in MEASURES:
            points = [(across[r["tau"]], down(r[measure])) for r in rows if r["scorer"] == scorer]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            style = f'stroke="{COLOURS.get(scorer, "#555")}" stroke-width="2" stroke-dasharray="{DASHES[measure]}"'
            parts.append(f'<polyline points="{line}" fill="none" {style}/>')
            x, y = across[taus[-1]] + 15, TOP + 16 * place
            parts.append(f'<line x1="{x:.0f}" x2="{x + 25:.0f}" y1="{y}" y2="{y}" {style}/>')
            parts.append(f'<text x="{x + 30:.0f}" y="{y + 4}">{scorer} {measure.removeprefix("recall_")}</text>')
            place += 1
    return "\n".join([*parts, "</svg>", ""])


def main(data: Path, out: Path) -> None:
    """Measure, and write the picture and the numbers beside it."""
    rows = curve(load_config(), load_cases(data))
    for row in rows:
        row.pop("ms_per_query", None)
    out.write_text(picture(rows), encoding="utf-8")
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
