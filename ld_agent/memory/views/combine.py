"""Merges the recalls of several views into one list.

Knows no mechanism, only lists of recalled records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ld_agent.text import words_of
from ld_agent.types import Recalled

T = TypeVar("T")
FEW = 2
"""Maximum number of sources of a record that duplicates one made from a single one of them; more are a whole
session."""
NEAR = 0.8
"""Share of common words, in [0, 1], at which two texts count as duplicates."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged recall of several views, best first, and what did not fit."""

    recalled: tuple[Recalled, ...]
    over_budget: int = 0


def merged(by_view: Mapping[str, Sequence[Recalled]], budget: int | None, count: Callable[[str], int]) -> Merged:
    """Merge the recalls of several views into one list.

    Scores of different mechanisms are not comparable (a cosine, a BM25 sum, an overall score), so each is taken
    relative to the best of its view; ties follow the order of the views. Of two records of different views with the
    same source, or nearly the same text, the first is kept. Records beyond the budget are dropped from the end.

    Args:
        found: by view, best first. A single view is returned unchanged.
        budget: tokens of all texts together; None: no limit. The best record is always kept.
        count: tokens of a text.
    """
    if len(by_view) < 2:
        return Merged(tuple(recalled for recalls in by_view.values() for recalled in recalls))
    ranked = [
        (-relative, place, rank, recalled)
        for place, recalls in enumerate(by_view.values())
        for rank, (relative, recalled) in enumerate(zip(_relative(recalls), recalls, strict=True))
    ]
    ranked.sort(key=lambda entry: entry[:3])
    kept: list[Recalled] = []
    for *_, recalled in ranked:
        if not any(other.record.view != recalled.record.view and overlap(other, recalled) for other in kept):
            kept.append(recalled)
    if budget is None:
        return Merged(tuple(kept))
    used = 0
    for number, recalled in enumerate(kept):
        used += count(recalled.record.text)
        if used > budget and number > 0:
            return Merged(tuple(kept[:number]), len(kept) - number)
    return Merged(tuple(kept))


def overlap(one: Recalled, other: Recalled) -> bool:
    """Whether two records come from the same utterance or say nearly the same."""
    first, second = one.record, other.record
    fewer, more = sorted((len(first.sources), len(second.sources)))
    if fewer == 1 and more <= FEW and set(first.sources) & set(second.sources):
        return True
    words, others = set(words_of(first.text)), set(words_of(second.text))
    return bool(words and others) and len(words & others) >= NEAR * len(words | others)


def _relative(recalls: Sequence[Recalled]) -> list[float]:
    """Scores relative to the view's best, in its order: 1 for the first, non-increasing."""
    best = recalls[0].score if recalls else 0.0
    shares: list[float] = []
    for recalled in recalls:
        share = recalled.score / best if best > 0 else 1.0
        shares.append(min([share, *shares[-1:], 1.0]))
    return shares
