"""The stored records of one view as columns in memory: what views that rank their records by themselves search in.

Knows times, vectors and primary keys; what the records say, and what makes one better than another, is the view's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.scoring import best
from ld_agent.memory.views.base import Query, ViewContext
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Record, Utterance

BATCH = 1000  # as many as the store streams at once


class StoredRecords:
    """The records of one view of one conversation, in the order of their making.

    Args:
        context: what the view is made from.
        view: the view's name.
        encoded: keep a vector of each record; one that has none yet is encoded and stored.
    """

    def __init__(self, context: ViewContext, view: str, *, encoded: bool = True) -> None:
        self._context, self._shelf, self._encoded = context, context.shelf(view), encoded
        self.keys: list[int] = []
        self.at: NDArray[np.float64] = np.empty(0)
        self.vectors: Vectors = np.empty((0, context.encoder.dimension if encoded else 0), np.float32)

    def catch_up(self) -> bool:
        """Take in what was stored since the last look, by this process or another; returns whether there was any."""
        before = len(self.keys)
        last = self.keys[-1] if self.keys else 0
        while batch := list(islice(self._shelf.rows_after(last), BATCH)):
            if self._encoded:
                bare = [row for row in batch if row.vector is None]
                fresh = dict(
                    zip((r.key for r in bare), self._context.encoder.encode([r.text for r in bare]), strict=True)
                )
                if fresh:
                    self._shelf.set_vectors(fresh)
                rows = [fresh[row.key] if row.vector is None else row.vector for row in batch]
                self.vectors = np.concatenate([self.vectors, np.stack(rows)])
            self.at = np.concatenate([self.at, [row.at for row in batch]])
            self.keys += [row.key for row in batch]
            last = self.keys[-1]
        return len(self.keys) > before

    def fetch(self, rows: Sequence[int]) -> list[Record]:
        """The records of these rows, in their order, as they stand in the store now.

        Raises:
            StoreError: one of them was removed, or the whole conversation.
        """
        return self._shelf.records([self.keys[row] for row in rows]) if len(rows) else []

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


def verbatim(said: Sequence[Utterance], vector: Vectors) -> Draft:
    """A record of some utterances of one session, word for word."""
    return Draft(dialogue(said), said[-1].at, said[-1].session, vector, sources=tuple(u.id for u in said))


def dialogue(utterances: Sequence[Utterance]) -> str:
    """Utterances with who said them, one a line: "Maya: I have a dog."."""
    return "\n".join(f"{u.speaker}: {u.text}" for u in utterances)
