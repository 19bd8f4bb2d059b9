"""Queries to a database that computes the scores of records itself, and its answers. Knows no SQL, and no scorer by
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ld_agent.storage.columns import Vector
from ld_agent.types import Record


@dataclass(frozen=True, slots=True)
class Inventory:
    """How many records a shelf has, how many of them have a vector and how many have passages, and who speaks in those."""

    records: int
    encoded: int
    with_passages: int
    speakers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Records by the score Σ weight · term, times λ where it is ``decayed``; see `ld_agent.memory.scoring` for the terms.

    Attributes:
        weights: by term: s_sem, s_top, s_word, s_date; other terms are ignored.
        at: microseconds since the epoch; nothing younger counts.
        vector: (dimension,) unit vector of the query.
        bounds: by term, what it must exceed.
        words: the query's stems.
        most: pass over words that more than this share of the records say.
        names: stems that say who is asked about, and are no words of what that speaker said.
        about: the speaker of s_own, BM25 over what they said alone; "": there is none.
        periods: (start, end) in seconds since the epoch, of s_date.
    """

    weights: Mapping[str, float]
    at: int
    k: int
    vector: Vector
    decayed: bool = False
    tau: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    topics: Sequence[str] = ()
    words: Sequence[str] = ()
    most: float = 1.0
    names: Sequence[str] = ()
    about: str = ""
    periods: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class RankedRecord:
    """A record, its primary key, and the numbers of a `Ranking`: λ, the score and by name the other terms."""

    key: int
    record: Record
    decay: float
    score: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best records, best first.

    Attributes:
        windows: how many windows all records have.
        windows_with: how many of them say each of the query's words; words that no record says are left out.
    """

    records: Sequence[RankedRecord]
    windows: int = 0
    windows_with: Mapping[str, int] = field(default_factory=dict)
