"""No long-term memory: a reply knows only the running session. The baseline that every mechanism must beat."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.config.sections import MemorySection
from ld_agent.memory.views.base import Query, View
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Session


class NoneView(View):
    """Keeps no records and recalls nothing."""

    name = "none"
    asks_model = False
    alone = "recalls nothing"

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "no long-term memory"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            self.shelf.digest(session.number, [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        return []
