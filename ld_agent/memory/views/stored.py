"""The stored records of one view as columns in memory: what views that rank their records by themselves search in.

Knows times, vectors and primary keys; what the records say, and what makes one better than another, is the view's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ld_agent.errors import StoreError
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.scoring import best
from ld_agent.memory.views.base import Parts, Query
from ld_agent.types import Recalled, Record, Utterance

BATCH = 1000  # as many as the store streams at once
UNENCODED: Vectors = np.empty(0, np.float32)
"""The vector of a record that nobody looks for by meaning."""


class StoredRecords:
    """The records of one view of one conversation, in the order of their making.

    Args:
        parts: the conversation's parts.
        view: the view's name.
        encoded: keep a vector of each record; one that has none yet is encoded and stored.
    """

    def __init__(self, parts: Parts, view: str, *, encoded: bool = True) -> None:
        self._parts, self._view, self._encoded = parts, view, encoded
        self.keys: list[int] = []
        self.at: NDArray[np.float64] = np.empty(0)
        self.vectors: Vectors = np.empty((0, parts.encoder.dimension if encoded else 0), np.float32)

    def catch_up(self) -> bool:
        """Take in what was stored since the last look, by this process or another; returns whether there was any."""
        store, before = self._parts.store, len(self.keys)
        last = self.keys[-1] if self.keys else 0
        while batch := list(islice(store.index_rows(self._parts.key, self._view, last), BATCH)):
            if self._encoded:
                bare = [row for row in batch if row.vector is None]
                fresh = dict(
                    zip((r.key for r in bare), self._parts.encoder.encode([r.text for r in bare]), strict=True)
                )
                if fresh:
                    with store.db.transaction():
                        for key, vector in fresh.items():
                            store.set_vector("record", key, vector)
                rows = [fresh[row.key] if row.vector is None else row.vector for row in batch]
                self.vectors = np.concatenate([self.vectors, np.stack(rows)])
            self.at = np.concatenate([self.at, [row.at for row in batch]])
            self.keys += [row.key for row in batch]
            last = self.keys[-1]
        return len(self.keys) > before

    def fetch(self, rows: Sequence[int]) -> list[Record]:
        """The records of these rows, in their order, as they stand in the store now.

        Raises:
            StoreError: the conversation was deleted meanwhile.
        """
        store = self._parts.store
        records = store.records(self._parts.key, [self.keys[row] for row in rows]) if len(rows) else []
        if len(records) < len(rows):
            raise StoreError(f"{store.path}: the conversation was deleted meanwhile; open it anew")
        return records

    def known(self, query: Query) -> NDArray[np.bool_]:
        """(n,) whether each record is not younger than the query."""
        return self.at <= query.at.timestamp()

    def cosines(self, query: Query) -> NDArray[np.float32]:
        """(n,) s_sem: the cosine of query and record, in [-1, 1]."""
        similarity: NDArray[np.float32] = np.clip(np.vecdot(self.vectors, query.vector), -1.0, 1.0)
        return similarity

    def nearest(self, query: Query, k: int, gamma: float) -> list[Recalled]:
        """The k records of greatest cosine among those with s_sem > γ, best first: dense retrieval, nothing else counts."""
        self.catch_up()
        s_sem = self.cosines(query)
        rows = [int(row) for row in best(s_sem, (s_sem > gamma) & self.known(query), self.at, k)]
        found = zip(self.fetch(rows), rows, strict=True)
        return [recalled(record, float(s_sem[row])) for record, row in found]


def recalled(record: Record, s_sem: float, *, decay: float = 1.0, score: float | None = None) -> Recalled:
    """A record that topics played no part in recalling.

    Args:
        s_sem: cosine of query and record; 0: no encoder was asked.
        decay: what time has left of the record, in (0, 1]; 1: time played no part.
        score: what the ranking used; None: the cosine.
    """
    return Recalled(record, s_sem, 0.0, decay, s_sem if score is None else score)


def verbatim(view: str, said: Sequence[Utterance]) -> Callable[[str], Record]:
    """A record of some utterances of one session, word for word: a function from its new id to it."""

    def make(record_id: str) -> Record:
        return Record(
            id=record_id,
            view=view,
            text=dialogue(said),
            at=said[-1].at,
            session=said[-1].session,
            sources=tuple(u.id for u in said),
        )

    return make


def dialogue(utterances: Sequence[Utterance]) -> str:
    """Utterances with who said them, one a line: "Maya: I have a dog."."""
    return "\n".join(f"{u.speaker}: {u.text}" for u in utterances)
