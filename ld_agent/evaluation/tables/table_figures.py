"""What can stand in a row of a paper's table, and what of it does not come from runs: statistics of corpora and benchmarks,
and people's ratings.
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


@dataclass(slots=True)
class Entry:
    """One row's figures.

    Attributes:
        backbone: shown in the row's label; without a run, the data.
        facts: what it is, for `matches`: task, corpus, session or benchmark; and of a run, `FACTS`.
        figures: by measure; a float is shown with two decimals.
        note: shown under the table.
    """

    folder: Path
    backbone: str
    facts: Facts
    figures: Mapping[str, float | int] = field(default_factory=dict)
    note: str = ""
    verdicts: list[Judged] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.facts['task']} of {self.backbone}"

    @property
    def hash(self) -> str:
        return json.dumps([str(self.folder), self.backbone, dict(self.facts)])

    @property
    def system(self) -> str:
        """The same for entries of one configuration over different data."""
        return self.hash

    @property
    def data_sha256(self) -> str:
        return ""

    @property
    def fallbacks(self) -> Counts:
        """How often its mechanisms fell back; {}: nothing was counted."""
        return {}

    def count(self, session: int | None) -> int:
        """Number of predictions of a session; None: of all. Without a run, rows rather than columns have sessions."""
        return 0 if session is not None else 1

    def matches(self, where: Where) -> bool:
        return satisfied(self.facts, where)

    def figure(self, measure: str, session: int | None = None) -> str:
        """A figure as shown in a table; "" if there is none."""
        value = self.figures.get(measure)
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def figures_under(folder: Path, left_out: list[str]) -> Iterator[Entry]:
    """Yield the figures of all files in a folder tree; one that cannot be read is added to ``left_out``."""
    for path in sorted([*folder.rglob(STATISTICS), *folder.rglob(f"*{RATINGS}")]):
        try:
            yield from _statistics(path) if path.name == STATISTICS else _ratings(path)
        except DataFileError as exc:
            left_out.append(str(exc))


def _statistics(path: Path) -> Iterator[Entry]:
    for one in read_statistics(path):
        data = "/".join(Path(one["data"]).parts[-2:])
        of = f"Statistics of {data}" + ("" if one["limit"] is None else f", the first {one['limit']}")
        if one["kind"] == "benchmark":
            facts = {"task": "statistics", "benchmark": one["benchmark"]}
            yield Entry(path.parent, data, facts, one, f"{of}: benchmark {one['benchmark']}, {one['samples']} samples.")
            continue
        corpus = CORPORA.get(one["corpus"], one["corpus"])
        note = f"{of}: {corpus}, {one['episodes']} episodes; lengths in {one['unit']}."
        for number, values in one["by_session"].items():
            facts = {"task": "statistics", "corpus": corpus, "session": int(number)}
            yield Entry(path.parent, data, facts, values, note)


def _ratings(path: Path) -> Iterator[Entry]:
    try:
        ratings: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["ratings"]
        values = {name: float(ratings[name]) for name in ("qualified", "kappa") if ratings[name] is not None}
        by = f"{ratings['items']} samples by {ratings['annotators']} people."
        data, facts = str(ratings["data"]), {"task": "ratings", "benchmark": str(ratings["benchmark"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataFileError(path, None, f"not ratings ({exc!r}); make them again with ld-agent judge agree") from exc
    yield Entry(path.parent, data, facts, values, f"Ratings of {data}: {by}")
