"""ECM's summary-based memory: a summary of each session, by the summarizer, retrieved by cosine alone."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.views.base import Query, View, ViewContext
from ld_agent.memory.views.reflection import reflect
from ld_agent.memory.views.stored import StoredRecords, ranking, searching
from ld_agent.modules.summarizer import Summary
from ld_agent.sections import MemorySection
from ld_agent.steps import Steps
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Session


class SummaryView(View):
    """One record per session (section 3.1), made in one call; the ``summary.k`` nearest to the query by cosine are
    recalled, if above γ (K = 1 in the paper).
    """

    name = "summary"
    bound = "summary.k"

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._records = StoredRecords(context, self.name)

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return ranking(settings.summary.k, settings.least_cosine, settings.summary.rounds)

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        context = self._context
        summaries = yield from context.summarizer.steps(sessions)
        vectors = context.encoder.encode([summary.text for summary in summaries])
        for session, summary, vector in zip(sessions, summaries, vectors, strict=True):
            self._shelf.digest(session.number, [_draft(session, summary, vector)])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        settings = self._context.settings
        search = searching(self._context, self._records, query, settings.summary.k, settings.least_cosine)
        reflected = yield from reflect(self._context.models, query.text, search, settings.summary.rounds)
        self._explanation = {"rounds": list(reflected.rounds)} if reflected.rounds else {}
        return reflected.recalled


def _draft(session: Session, summary: Summary, vector: Vectors) -> Draft:
    return Draft(
        text=summary.text,
        at=session.utterances[-1].at,
        session=session.number,
        vector=vector,
        sources=tuple(u.id for u in session.utterances),
        fallback=summary.fallback,
    )
