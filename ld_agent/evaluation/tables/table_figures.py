"""Figures in a paper's table that do not come from runs: statistics of corpora and benchmarks, and people's ratings.

Each has one row's figures and their `facts`, in the form that `tables` takes runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError
from ld_agent.evaluation.fallbacks import Counts
from ld_agent.evaluation.judging.verdicts import Judged
from ld_agent.evaluation.statistics import FILE as STATISTICS
from ld_agent.evaluation.statistics import read_statistics
from ld_agent.evaluation.tables.paper_figures import CORPORA, Facts, Where, satisfied

RATINGS = ".ratings.json"


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Figures that do not come from a run.

    Attributes:
        backbone: shown in the row's label: the data.
        facts: for `matches`: task ("statistics" or "ratings"), corpus, session, benchmark.
        figures: by measure; a float is shown with two decimals.
        note: shown under the table.
    """

    folder: Path
    backbone: str
    facts: Facts
    figures: Mapping[str, float | int]
    note: str
    verdicts: tuple[Judged, ...] = ()
    fallbacks: Counts = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.facts['task']} of {self.backbone}"

    @property
    def hash(self) -> str:
        return json.dumps([str(self.folder), self.backbone, dict(self.facts)])

    @property
    def system(self) -> str:
        return self.hash

    @property
    def data_sha256(self) -> str:
        return ""

    @property
    def sessions(self) -> list[int]:
        return []

    def count(self, session: int | None) -> int:
        """Here, rows rather than columns have sessions."""
        return 0 if session is not None else 1

    def matches(self, where: Where) -> bool:
        return satisfied(self.facts, where)

    def figure(self, measure: str, session: int | None = None) -> str:
        value = self.figures.get(measure)
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def figures_under(folder: Path, left_out: list[str]) -> Iterator[TableFigures]:
    """Yield the figures of all files in a folder tree; one that cannot be read is added to ``left_out``."""
    for path in sorted([*folder.rglob(STATISTICS), *folder.rglob(f"*{RATINGS}")]):
        try:
            yield from _statistics(path) if path.name == STATISTICS else _ratings(path)
        except DataFileError as exc:
            left_out.append(str(exc))


def _statistics(path: Path) -> Iterator[TableFigures]:
    for statistics in read_statistics(path):
        data = "/".join(Path(statistics["data"]).parts[-2:])
        part = "" if statistics["limit"] is None else f", the first {statistics['limit']}"
        if statistics["kind"] == "benchmark":
            note = f"Statistics of {data}{part}: benchmark {statistics['benchmark']}, {statistics['samples']} samples."
            values = {key: statistics[key] for key in ("samples", "sessions", "utterances", "questions")}
            yield TableFigures(
                path.parent, data, {"task": "statistics", "benchmark": statistics["benchmark"]}, values, note
            )
            continue
        corpus = CORPORA.get(statistics["corpus"], statistics["corpus"])
        note = (
            f"Statistics of {data}{part}: {corpus}, {statistics['episodes']} episodes; lengths in {statistics['unit']}."
        )
        for number, values in statistics["by_session"].items():
            facts = {"task": "statistics", "corpus": corpus, "session": int(number)}
            yield TableFigures(path.parent, data, facts, values, note)


def _ratings(path: Path) -> Iterator[TableFigures]:
    try:
        ratings: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["ratings"]
        values = {name: float(ratings[name]) for name in ("qualified", "kappa") if ratings[name] is not None}
        by = f"{ratings['items']} samples by {ratings['annotators']} people."
        data, facts = str(ratings["data"]), {"task": "ratings", "benchmark": str(ratings["benchmark"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataFileError(path, None, f"not ratings ({exc!r}); make them again with ld-agent judge agree") from exc
    yield TableFigures(path.parent, data, facts, values, f"Ratings of {data}: {by}")
