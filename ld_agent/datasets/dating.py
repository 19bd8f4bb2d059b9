"""Reproducible timestamps for corpora that record gaps or sessions but no dates.

The first utterance of the last session is at `ANCHOR`. Utterances of a session are `SPACING` apart. Between sessions
lies the gap stated by the corpus plus `MARGIN`: a session closes only when a gap is *longer* than β (one hour by
default), and the shortest stated gap is "1 hour". With the margin, the default β yields exactly the corpus's sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ld_agent.datasets.base import Turn

ANCHOR = datetime(2024, 1, 1, 12, tzinfo=UTC)
SPACING = timedelta(seconds=30)
MARGIN = timedelta(seconds=60)
DEFAULT_GAP = timedelta(days=1)
Said = Sequence[tuple[str, str]]
"""Speaker and text of each utterance of a session."""


def dated(said: Said, start: datetime = ANCHOR, number: int = 1) -> tuple[Turn, ...]:
    """Return the turns of a session, `SPACING` apart from ``start`` on."""
    return tuple(Turn(speaker, text, start + i * SPACING, number) for i, (speaker, text) in enumerate(said))


def dated_back(sessions: Mapping[int, Said], gaps: Sequence[timedelta]) -> tuple[Turn, ...]:
    """Return the turns of sessions, dated backwards from `ANCHOR`.

    Args:
        sessions: by number, in order; none is empty.
        gaps: the stated gap after each session but the last; ``len(sessions) - 1`` positive values.
    """
    turns: tuple[Turn, ...] = ()
    for (number, said), gap in reversed([*zip(sessions.items(), [*gaps, timedelta()], strict=True)]):
        start = turns[0].at - gap - MARGIN - (len(said) - 1) * SPACING if turns else ANCHOR
        turns = dated(said, start, number) + turns
    return turns
