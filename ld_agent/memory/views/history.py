"""ECM's history-based memory: the unprocessed dialogue in pieces of one exchange each. Asks a model only to reflect on
a recall, if ``history.rounds`` is above 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ld_agent.memory.views.base import Query, View, ViewContext
from ld_agent.memory.views.reflection import reflect
from ld_agent.memory.views.stored import StoredRecords, dialogue, ranking, searching, verbatim
from ld_agent.sections import MemorySection
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Session, Utterance


class HistoryView(View):
    """Each pair of consecutive utterances with their speakers is a record (section 3.1); the k nearest to the query by
    cosine are recalled, if above γ (K = 3 in the paper). The last utterance of a session may be a record of its own.
    """

    name = "history"
    bound = "k"
    asks_model = False

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._records = StoredRecords(context, self.name)

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return ranking(settings.k, settings.least_cosine, settings.history.rounds)

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        context = self._context
        for session in sessions:
            pieces = list(exchanges(session))
            vectors = context.encoder.encode([dialogue(piece) for piece in pieces])
            drafts = [verbatim(piece, vector) for piece, vector in zip(pieces, vectors, strict=True)]
            self._shelf.digest(session.number, drafts)

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        settings = self._context.settings
        search = searching(self._context, self._records, query, settings.k, settings.least_cosine)
        reflected = yield from reflect(self._context.models, query.text, search, settings.history.rounds)
        self._explanation = {"rounds": list(reflected.rounds)} if reflected.rounds else {}
        return reflected.recalled


def exchanges(session: Session) -> Iterator[tuple[Utterance, ...]]:
    """Split a session into pieces of two utterances."""
    for start in range(0, len(session.utterances), 2):
        yield session.utterances[start : start + 2]
