"""Reproducible timestamps for corpora that record gaps or sessions but no dates.

The first utterance of the last session is at `ANCHOR`. Utterances of a session are `SPACING` apart. Between sessions
lies the gap stated by the corpus plus `MARGIN`: a session closes only when a gap is *longer* than β (one hour by
default), and the shortest stated gap is "1 hour". With the margin, the default β yields exactly the corpus's sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

ANCHOR = datetime(2024, 1, 1, 12, tzinfo=UTC)
SPACING = timedelta(seconds=30)
MARGIN = timedelta(seconds=60)
DEFAULT_GAP = timedelta(days=1)


def spaced(start: datetime, count: int) -> list[datetime]:
    """Return ``count`` times from ``start`` on, `SPACING` apart."""
    return [start + i * SPACING for i in range(count)]


def dated_back(counts: Sequence[int], gaps: Sequence[timedelta]) -> list[list[datetime]]:
    """Date sessions backwards from `ANCHOR`.

    Args:
        counts: utterances of each session, oldest session first; each at least 1.
        gaps: the stated gap after each session but the last; ``len(counts) - 1`` positive values.

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
