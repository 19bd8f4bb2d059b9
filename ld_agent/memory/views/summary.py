"""ECM's summary-based memory: a summary of each session, by the summarizer, retrieved by cosine alone."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.memory.views.stored import NearestView, draft_of
from ld_agent.steps import Steps
from ld_agent.types import Session


class SummaryView(NearestView):
    """One record per session (section 3.1), made in one call; the ``summary.k`` nearest to the query by cosine are
    recalled, if above γ (K = 1 in the paper).
    """

    name = "summary"
    bound = "summary.k"
    rounds = "summary.rounds"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        context = self.context
        summaries = yield from context.summarizer.steps(sessions)
        vectors = context.encoder.encode([summary.text for summary in summaries])
        for session, summary, vector in zip(sessions, summaries, vectors, strict=True):
            draft = draft_of(session.utterances, summary.text, vector, fallback=summary.fallback)
            self.shelf.digest(session.number, [draft])
