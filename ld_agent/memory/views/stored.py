"""The stored records of one view, for views with their own ranking or selection.

Knows times, vectors and primary keys; texts and ranking are up to the view.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ld_agent.config.sections import MemorySection
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.long_term import Search
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.memory.views.base import Query, View, ViewContext
from ld_agent.memory.views.reflection import reflect
from ld_agent.prompts import as_name
from ld_agent.steps import Steps
from ld_agent.storage.rows import UNENCODED, Draft
from ld_agent.types import Recalled, Record, Session, Utterance


class StoredRecords:
    """The records of one view of one conversation, in storage order, as of the last `catch_up`.

    Args:
        context: the context of the view.
        view: the view's name.
        encoded: keep a vector of each record; missing ones are encoded and stored.
    """

    def __init__(self, context: ViewContext, view: str, *, encoded: bool = True) -> None:
        self._context, self._view, self._encoded = context, view, encoded
        self._shelf, self._count = context.store.shelf(context.key, view), 0

    @property
    def _index(self) -> RecordIndex:
        context = self._context
        index = context.indexes.get(
            context.key,
            self._view,
            lambda: RecordIndex(
                self._shelf, context.encoder, context.reading, encoded=self._encoded, progress=context.progress
            ),
        )
        if len(index.columns) < self._count:  # it was dropped in the meantime and made again
            index.catch_up()
        return index

    @property
    def keys(self) -> list[int]:
        keys: list[int] = self._index.columns.keys[: self._count].tolist()
        return keys

    @property
    def at(self) -> NDArray[np.float64]:
        """(n,) seconds since the epoch."""
        return self._index.columns.at[: self._count]

    def catch_up(self) -> None:
        """Load records stored since the last call, by this process or another."""
        index = self._index
        index.catch_up()
        self._count = len(index.columns)

    def fetch(self, rows: Sequence[int]) -> list[Record]:
        """The current records of these rows, in the given order.

        Raises:
            StoreError: one of them was removed, or the whole conversation.
        """
        if not len(rows):
            return []
        keys = self._index.columns.keys
        return self._shelf.records([int(keys[row]) for row in rows])

    def known(self, query: Query) -> NDArray[np.bool_]:
        """(n,) whether each record is not younger than the query."""
        return self.at <= query.at.timestamp()

    def cosines(self, query: Query) -> NDArray[np.float32]:
        """(n,) s_sem: the cosine of query and record, in [-1, 1]."""
        return self._index.columns.cosines(query.vector)[: self._count]

    def nearest(self, query: Query, k: int, gamma: float) -> list[Recalled]:
        """The k records of greatest cosine among those with s_sem > γ, best first: plain dense retrieval."""
        return self._index.search(Search(query.text, query.vector, query.at, k, gamma))


class StoredView(View):
    """A view that ranks or selects among its stored records.

    Attributes:
        encoded: keep a vector of each record.
    """

    encoded: ClassVar[bool] = True

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._records = StoredRecords(context, self.name, encoded=self.encoded)


class NearestView(StoredView):
    """A view that recalls the records nearest to a query by cosine, as many as `bound` allows, if above γ.

    Attributes:
        rounds: the key below ``memory`` that says how often a recall is reflected on at most; "": never.
    """

    rounds: ClassVar[str] = ""

    @classmethod
    def most_rounds(cls, settings: MemorySection) -> int:
        """How often a recall is reflected on at most."""
        return int(attrgetter(cls.rounds)(settings)) if cls.rounds else 0

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        dense, rounds = SCORERS["dense"], cls.most_rounds(settings)
        reflected = f"; reflected on at most {rounds} time{'s' if rounds > 1 else ''}" if rounds else ""
        admitted = dense.admission(settings.least_cosine)
        return f"overall = {dense.formula}; recalled if {admitted}; k = {cls.most(settings)}{reflected}"

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        return self._nearest(query, self.context.settings.least_cosine)

    def _nearest(self, query: Query, gamma: float, shown: Set[str] = frozenset()) -> Steps[list[Recalled]]:
        """The records nearest to a query, but those that were made of lines which are shown anyway."""
        context, k = self.context, self.most(self.context.settings) or 0

        def search(text: str) -> list[Recalled]:
            vector = query.vector if text == query.text else context.encoder.encode_query(text)
            found = self._records.nearest(replace(query, text=text, vector=vector), k + len(shown), gamma)
            return [one for one in found if shown.isdisjoint(one.record.sources)][:k]

        recalled, rounds = yield from reflect(context.models, query.text, search, self.most_rounds(context.settings))
        self.explanation = {"rounds": rounds} if rounds else {}
        return recalled


class VerbatimView(NearestView):
    """A view whose records are what was said, word for word, in pieces of ``piece`` utterances of one session."""

    asks_model = False
    piece: ClassVar[int]

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            said = session.utterances
            pieces = [said[start : start + self.piece] for start in range(0, len(said), self.piece)]
            texts = [dialogue(piece) for piece in pieces]
            vectors = self.context.encoder.encode(texts) if self.encoded else [UNENCODED] * len(texts)
            self.shelf.digest(
                session.number,
                [draft_of(*each, verbatim=True) for each in zip(pieces, texts, vectors, strict=True)],
            )


def recalled(record: Record, s_sem: float, *, decay: float = 1.0, score: float | None = None) -> Recalled:
    """A record recalled without topics.

    Args:
        s_sem: cosine of query and record; 0: not encoded.
        decay: time decay, in (0, 1]; 1: none.
        score: the ranking score; None: the cosine.
    """
    return Recalled(record, s_sem, 0.0, decay, s_sem if score is None else score)


def draft_of(said: Sequence[Utterance], text: str, vector: Vectors, **more: Any) -> Draft:
    """A record with the given text of some utterances of one session; ``more``: other fields of the draft."""
    return Draft(text, said[-1].at, said[-1].session, vector, sources=tuple(u.id for u in said), **more)


def dialogue(utterances: Sequence[Utterance]) -> str:
    """Utterances with their speakers, one per line: "Maya: I have a dog."."""
    return "\n".join(f"{as_name(u.speaker)}: {u.text}" for u in utterances)
