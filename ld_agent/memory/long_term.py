"""The long-term index: the numbers of one conversation's records in memory, searched exactly.

Holds vectors, times and topics, no text: what is found is a primary key, and its text is read from the store. A record
costs 4 bytes a dimension and about 100 more.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.scoring import Terms, best, scorer, time_decay, topic_overlap

GROWTH = 1.125


@dataclass(frozen=True, slots=True)
class Hit:
    """One found record: its primary key and the numbers of equations (1)–(3)."""

    key: int
    s_sem: float
    s_top: float
    decay: float
    score: float


class LongTermIndex:
    """n records as columns, appended in amortised constant time.

    Args:
        dimension: of the encoder's vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._n = 0
        self._vectors = np.empty((0, dimension), np.float32)
        self._at = np.empty(0, np.float64)
        self._topic_counts = np.empty(0, np.int32)
        self._keys = np.empty(0, np.int64)
        self._rows_with: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return self._n

    @property
    def last_key(self) -> int:
        """The greatest key added so far; 0 when empty. Keys are added in growing order."""
        return int(self._keys[self._n - 1]) if self._n else 0

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns and the topic lists, spare room included."""
        columns = (self._vectors, self._at, self._topic_counts, self._keys)
        return sum(c.nbytes for c in columns) + sum(
            len(t) + 150 + rows.itemsize * len(rows) for t, rows in self._rows_with.items()
        )

    def add(self, key: int, vector: NDArray[np.float32], at: float, topics: Sequence[str]) -> None:
        """Append one record.

        Args:
            key: the store's primary key, greater than every key before.
            vector: (dimension,) float32, unit length.
            at: seconds since the epoch.
            topics: the record's topic set V_k, without repetitions.
        """
        if self._n == len(self._keys):
            self._reserve(max(64, int(self._n * GROWTH) + 1))
        row = self._n
        self._vectors[row], self._at[row], self._keys[row] = vector, at, key
        self._topic_counts[row] = len(topics)
        for topic in topics:
            self._rows_with.setdefault(topic, array("I")).append(row)
        self._n += 1

    def _reserve(self, capacity: int) -> None:
        for name in ("_vectors", "_at", "_topic_counts", "_keys"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), old.dtype)
            new[: self._n] = old[: self._n]
            setattr(self, name, new)

    def reserve(self, records: int) -> None:
        """Make room for that many records in all, so that loading a store copies nothing."""
        if records > len(self._keys):
            self._reserve(records)

    def search(
        self,
        vector: NDArray[np.float32],
        topics: Sequence[str],
        at: float,
        *,
        k: int,
        gamma: float,
        tau: float | None,
        scorer_name: str = "paper",
    ) -> list[Hit]:
        """The k best records by equations (1)–(3), best first, among those not younger than ``at``.

        Args:
            vector: (dimension,) unit vector of the query.
            topics: the query's topic set V_q, without repetitions.
            at: time of the query, seconds since the epoch.
        """
        n = self._n
        if n == 0 or k <= 0:
            return []
        age = at - self._at[:n]
        s_sem = np.vecdot(self._vectors[:n], vector)  # row by row: equal vectors get equal numbers, wherever they stand
        np.clip(s_sem, -1.0, 1.0, out=s_sem)
        shared = np.zeros(n, np.int32)
        for topic in topics:
            rows = self._rows_with.get(topic)
            if rows is not None:
                shared[np.frombuffer(rows, np.uint32)] += 1
        s_top = topic_overlap(shared, len(topics), self._topic_counts[:n])
        decay = time_decay(np.maximum(age, 0.0), tau)
        score = scorer(scorer_name)(Terms(s_sem, s_top, decay))
        found = best(score, (s_sem > gamma) & (age >= 0), self._at[:n], k)
        return [
            Hit(int(self._keys[r]), float(s_sem[r]), float(s_top[r]), float(decay[r]), float(score[r])) for r in found
        ]
