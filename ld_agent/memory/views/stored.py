"""The stored records of one view, for views with their own ranking or selection.

Knows times, vectors and primary keys; texts and ranking are up to the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.memory.views.base import Query, ViewContext
from ld_agent.prompts import as_name
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Record, Utterance


class StoredRecords:
    """The records of one view of one conversation, in storage order, as of the last `catch_up`.

    Args:
        context: the context of the view.
        view: the view's name.
        encoded: keep a vector of each record; missing ones are encoded and stored.
    """

    def __init__(self, context: ViewContext, view: str, *, encoded: bool = True) -> None:
        self._context, self._view, self._shelf, self._encoded = context, view, context.shelf(view), encoded
        self._count = 0

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

    @property
    def vectors(self) -> Vectors:
        """(n, dimension)."""
        return self._index.columns.vectors[: self._count]

    def catch_up(self) -> bool:
        """Load records stored since the last call, by this process or another; return whether there were any."""
        index, before = self._index, self._count
        index.catch_up()
        self._count = len(index.columns)
        return self._count > before

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


def searching(
    context: ViewContext, records: StoredRecords, query: Query, k: int, gamma: float
) -> Callable[[str], list[Recalled]]:
    """`StoredRecords.nearest` as a function of the query's text, for reflection to extend."""

    def search(text: str) -> list[Recalled]:
        if text == query.text:
            return records.nearest(query, k, gamma)
        return records.nearest(replace(query, text=text, vector=context.encoder.encode_query(text)), k, gamma)

    return search


def ranking(k: int, gamma: float, rounds: int = 0) -> str:
    """What decides in `StoredRecords.nearest`, in a line."""
    dense = SCORERS["dense"]
    reflected = f"; reflected on at most {rounds} time{'s' if rounds > 1 else ''}" if rounds else ""
    return f"overall = {dense.formula}; recalled if {dense.admission(gamma)}; k = {k}{reflected}"


def recalled(record: Record, s_sem: float, *, decay: float = 1.0, score: float | None = None) -> Recalled:
    """A record recalled without topics.

    Args:
        s_sem: cosine of query and record; 0: not encoded.
        decay: time decay, in (0, 1]; 1: none.
        score: the ranking score; None: the cosine.
    """
    return Recalled(record, s_sem, 0.0, decay, s_sem if score is None else score)


def verbatim(said: Sequence[Utterance], vector: Vectors) -> Draft:
    """A record of some utterances of one session, verbatim."""
    return Draft(
        dialogue(said), said[-1].at, said[-1].session, vector, sources=tuple(u.id for u in said), verbatim=True
    )


def dialogue(utterances: Sequence[Utterance]) -> str:
    """Utterances with their speakers, one per line: "Maya: I have a dog."."""
    return "\n".join(f"{as_name(u.speaker)}: {u.text}" for u in utterances)
