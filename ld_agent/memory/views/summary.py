"""ECM's summary-based memory: a summary of each session, found by cosine alone. The words are the summarizer's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ld_agent.memory.views.base import Parts, Query
from ld_agent.memory.views.stored import StoredRecords
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Record, Session


class SummaryView:
    """One record a session (section 3.1), made in one call; the ``summary.k`` nearest to the query by cosine are recalled,
    if above γ (K = 1 in the paper).
    """

    name = "summary"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._records = StoredRecords(parts, self.name)

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        parts = self._parts
        summaries = yield from parts.summarizer.steps(sessions)
        vectors = parts.encoder.encode([summary.text for summary in summaries])
        for session, summary, vector in zip(sessions, summaries, vectors, strict=True):
            parts.store.digest(parts.key, self.name, session.number, [(_draft(session, summary), vector)])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        return self._records.nearest(query, self._parts.settings.summary.k, self._parts.settings.gamma)


def _draft(session: Session, summary: Summary) -> Callable[[str], Record]:
    def make(record_id: str) -> Record:
        return Record(
            id=record_id,
            view=SummaryView.name,
            text=summary.text,
            at=session.utterances[-1].at,
            session=session.number,
            sources=tuple(u.id for u in session.utterances),
            fallback=summary.fallback,
        )

    return make
