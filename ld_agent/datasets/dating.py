"""Times for corpora that record gaps or sessions but no dates. Fixed constants, so that every reading agrees.

The first utterance of the last session is at `ANCHOR`; utterances of a session are `SPACING` apart; the gap that the
corpus states runs from the last utterance of one session to the first of the next, plus `MARGIN`. A session closes
when a gap is *longer* than β, whose default is one hour, and the shortest gap of the corpora is "1 hour": the margin
makes the default β fall exactly on the corpus's borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

ANCHOR = datetime(2024, 1, 1, 12, tzinfo=UTC)
SPACING = timedelta(seconds=30)
MARGIN = timedelta(seconds=60)
DEFAULT_GAP = timedelta(days=1)


def spaced(start: datetime, count: int) -> list[datetime]:
    """Return ``count`` times, `SPACING` apart, the first at ``start``."""
    return [start + i * SPACING for i in range(count)]


def dated_back(counts: Sequence[int], gaps: Sequence[timedelta]) -> list[list[datetime]]:
    """Date sessions backwards from `ANCHOR`.

    Args:
        counts: utterances of each session, oldest session first; each at least 1.
        gaps: the stated gap after each session but the last; ``len(counts) - 1`` of them, positive.

    Returns:
        The times of each session's utterances, oldest session first.
    """
    times: list[list[datetime]] = []
    start = ANCHOR
    for i in reversed(range(len(counts))):
        if times:
            start = times[-1][0] - gaps[i] - MARGIN - (counts[i] - 1) * SPACING
        times.append(spaced(start, counts[i]))
    return times[::-1]
