"""Human-annotated memory in place of a model's (LLM-Rsum, Table 5, "Gt. Memory"). Asks no model.

The annotations come with a replayed corpus (`ld_agent.running.replay`); a conversation without any has no golden memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.config.sections import MemorySection
from ld_agent.memory.views.memory_text import memory_text
from ld_agent.memory.views.recursive import VersionsView
from ld_agent.memory.views.stored import draft_of
from ld_agent.steps import Steps
from ld_agent.types import Session


class GoldenView(VersionsView):
    """One version per session: the annotated memory after it."""

    name = "golden"
    asks_model = False

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "the newest annotated memory, always"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            last = session.utterances[-1].at
            known = [memory for memory in self.context.annotated if memory.at <= last]
            facts = {speaker: list(facts) for speaker, facts in known[-1].facts.items()} if known else {}
            text = memory_text(facts)
            drafts = []
            if text:
                [vector] = self.context.encoder.encode([text])
                details = {"facts": facts}
                drafts = [draft_of(session.utterances, text, vector, rewritten=True, details=details)]
            self.shelf.digest(session.number, drafts)
