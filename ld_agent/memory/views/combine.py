"""Several views at once: their work side by side in shared batches, and what they recall as one list.

Knows no mechanism: it sees lists of recalled records and steps that ask for completions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ld_agent.modules.wording import words_of
from ld_agent.types import Recalled

T = TypeVar("T")
FEW = 2
"""Most utterances behind a record that tells the same as one made of a single one of them; more are a whole session."""
NEAR = 0.8
"""Share of common words, in [0, 1], from which on two texts say the same."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What several views recalled together, best first, and what was left out for want of room."""

    recalled: tuple[Recalled, ...]
    over_budget: int = 0


def merged(found: Mapping[str, Sequence[Recalled]], budget: int | None, count: Callable[[str], int]) -> Merged:
    """Make one list of what several views recalled.

    Scores of two mechanisms are of different kinds (a cosine, a BM25 sum, an overall score), so that each is taken
    relative to its own view's best; equals stand in the order of the views. Of two records of different views that come
    from the same utterance, or say nearly the same, the first stays. What exceeds the budget is left out, the last first.

    Args:
        found: by view, best first. One view alone is left as it is.
        budget: tokens of all texts together; None: no limit. The best record stays whatever its length.
        count: tokens of a text.
    """
    if len(found) < 2:
        return Merged(tuple(recalled for own in found.values() for recalled in own))
    ranked = [
        (-relative, place, rank, recalled)
        for place, own in enumerate(found.values())
        for rank, (relative, recalled) in enumerate(zip(_relative(own), own, strict=True))
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
    """Whether two records tell of the same utterance, or nearly the same."""
    first, second = one.record, other.record
    fewer, more = sorted((len(first.sources), len(second.sources)))
    if fewer == 1 and more <= FEW and set(first.sources) & set(second.sources):
        return True
    words, others = set(words_of(first.text)), set(words_of(second.text))
    return bool(words and others) and len(words & others) >= NEAR * len(words | others)


def _relative(own: Sequence[Recalled]) -> list[float]:
    """Scores relative to the view's best, in its order: 1 for the first, and never growing."""
    best = own[0].score if own else 0.0
    shares: list[float] = []
    for recalled in own:
        share = recalled.score / best if best > 0 else 1.0
        shares.append(min([share, *shares[-1:], 1.0]))
    return shares
