"""Human-annotated memory in place of a model's (LLM-Rsum, Table 5, "Gt. Memory"). Asks no model.

The annotations come with a replayed corpus (`ld_agent.replay`); a conversation without any has no golden memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.memory.views.base import Guidance, Query, View
from ld_agent.memory.views.memory_text import memory_text
from ld_agent.memory.views.recursive import newest_version
from ld_agent.sections import MemorySection
from ld_agent.steps import Steps
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Session


class GoldenView(View):
    """One version per session: the annotated memory after it."""

    name = "golden"
    asks_model = False
    rewrites = True

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "the newest annotated memory, always"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            last = session.utterances[-1].at
            known = [memory for memory in self._context.annotated if memory.at <= last]
            facts = {speaker: list(facts) for speaker, facts in known[-1].facts.items()} if known else {}
            text = memory_text(facts)
            self._shelf.digest(session.number, [self._draft(session, facts, text)] if text else [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        return newest_version(self._context, self._shelf, query)

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """The same steps as for a model-written memory."""
        used = any(each.record.view == self.name for each in recalled)
        return Guidance(self._context.models.prompt("recursive_reply").render()[0].content if used else "")

    def _draft(self, session: Session, facts: dict[str, list[str]], text: str) -> Draft:
        return Draft(
            text=text,
            at=session.utterances[-1].at,
            session=session.number,
            vector=self._context.encoder.encode([text])[0],
            sources=tuple(u.id for u in session.utterances),
            rewritten=True,
            details={"facts": facts},
        )
