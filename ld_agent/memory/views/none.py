"""No long-term memory at all: a reply knows the running session only. The baseline that every mechanism must beat."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.memory.views.base import Parts, Query
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Session


class NoneView:
    """Keeps no records and recalls nothing."""

    name = "none"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            self._parts.store.digest(self._parts.key, self.name, session.number, [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        return []
