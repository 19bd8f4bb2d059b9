"""The numbers of n records as columns that grow in amortised constant time and catch up with the store.

Knows keys, times, vectors and topics, but no words or scores.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.rough import RoughVectors
from ld_agent.memory.index.snapshot import Arrays, packed, unpacked
from ld_agent.memory.scoring import topic_overlap
from ld_agent.storage.base import IndexRow, Shelf

GROWTH = 1.125
BATCH = 1000  # as many as the store streams at a time
TOPIC_BYTES = 150  # of a list and its entry, besides the word and the rows


class Columns:
    """Keys, times, vectors and topics of n records.

    Args:
        dimension: of the vectors; 0: no vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._n = 0
        self._vectors = np.empty((0, dimension), np.float32)
        self._at = np.empty(0, np.float64)
        self._topic_counts = np.empty(0, np.int32)
        self._keys = np.empty(0, np.int64)
        self._rough = RoughVectors(dimension)
        self._rows_with: dict[str, array[int]] = {}
        self._topic_bytes = 0

    def __len__(self) -> int:
        return self._n

    @property
    def keys(self) -> NDArray[np.int64]:
        """(n,) primary keys, ascending."""
        return self._keys[: self._n]

    @property
    def at(self) -> NDArray[np.float64]:
        """(n,) seconds since the epoch."""
        return self._at[: self._n]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(n, dimension) unit vectors."""
        return self._vectors[: self._n]

    @property
    def last_key(self) -> int:
        """The greatest key; 0 if empty."""
        return int(self._keys[self._n - 1]) if self._n else 0

    @property
    def nbytes(self) -> int:
        """Size in bytes, including spare capacity."""
        columns = (self._vectors, self._at, self._topic_counts, self._keys)
        return sum(column.nbytes for column in columns) + self._rough.nbytes + self._topic_bytes

    def snapshot(self) -> Arrays:
        """Everything but the vectors as arrays, for `restored`."""
        counts = self._topic_counts[: self._n]
        arrays: Arrays = {"keys": self.keys, "at": self.at, "topic_counts": counts}
        return arrays | packed(self._rows_with, "topics")

    @classmethod
    def restored(cls, arrays: Arrays, vectors: NDArray[np.float32]) -> Columns:
        """The columns of a `snapshot`.

        Args:
            vectors: (n, dimension) unit vectors.
        """
        columns = cls(vectors.shape[1])
        columns._n = len(arrays["keys"])
        columns._vectors, columns._keys, columns._at = vectors, arrays["keys"], arrays["at"]
        columns._topic_counts, columns._rows_with = arrays["topic_counts"], unpacked(arrays, "topics")
        columns._topic_bytes = sum(len(t) + TOPIC_BYTES + 4 * len(rows) for t, rows in columns._rows_with.items())
        return columns

    def add(self, key: int, vector: NDArray[np.float32] | None, at: float, topics: Sequence[str]) -> None:
        """Append one record.

        Args:
            key: the store's primary key, greater than all earlier ones.
            vector: (dimension,) unit vector; None where the dimension is 0.
            at: seconds since the epoch.
            topics: the record's topic set V_k, without repetitions.
        """
        if self._n == len(self._keys):
            self._resize(max(64, int(self._n * GROWTH) + 1))
        row = self._n
        if vector is not None:
            self._vectors[row] = vector
        self._at[row], self._keys[row], self._topic_counts[row] = at, key, len(topics)
        for topic in topics:
            if topic not in self._rows_with:
                self._rows_with[topic] = array("I")
                self._topic_bytes += len(topic) + TOPIC_BYTES
            self._rows_with[topic].append(row)
            self._topic_bytes += 4
        self._n += 1

    def reserve(self, records: int) -> None:
        """Reserve capacity for that many records in total, so that loading a store copies nothing."""
        if records > len(self._keys):
            self._resize(records)

    def _resize(self, capacity: int) -> None:
        for name in ("_vectors", "_at", "_topic_counts", "_keys"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), old.dtype)
            new[: self._n] = old[: self._n]
            setattr(self, name, new)

    def cosines(self, vector: NDArray[np.float32], rows: NDArray[np.intp] | None = None) -> NDArray[np.float32]:
        """s_sem of some or all rows, computed row by row, so that equal vectors get equal numbers.

        Args:
            vector: (dimension,) unit vector.
            rows: (m,) row numbers; None: all n.
        """
        s_sem: NDArray[np.float32] = np.vecdot(self.vectors if rows is None else self.vectors[rows], vector)
        np.maximum(np.minimum(s_sem, 1.0, out=s_sem), -1.0, out=s_sem)
        return s_sem

    def rough_cosines(self, vector: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(n,) approximate cosines and (n,) bounds of their errors; see `RoughVectors`."""
        return self._rough.cosines(self.vectors, vector)

    def overlap(self, topics: Sequence[str], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Equation (1) for some or all rows.

        Args:
            topics: V_q, without repetitions.
            rows: (m,) row numbers; None: all n.
        """
        counts = self._topic_counts[: self._n] if rows is None else self._topic_counts[rows]
        shared = np.zeros(len(counts), np.int32)
        for topic in topics:
            if topic not in self._rows_with:
                continue
            listed = np.frombuffer(self._rows_with[topic], np.uint32)
            if rows is None:
                shared[listed] += 1
            else:
                places = np.minimum(listed.searchsorted(rows), len(listed) - 1)
                shared += listed[places] == rows
        return topic_overlap(shared, len(topics), counts)


def new_rows(shelf: Shelf, after: int) -> Iterator[list[IndexRow]]:
    """Yield rows stored after a key, by this process or another, in batches."""
    while batch := list(islice(shelf.rows_after(after), BATCH)):
        yield batch
        after = batch[-1].key


def with_vectors(rows: Sequence[IndexRow], shelf: Shelf, encoder: SentenceEncoder) -> list[IndexRow]:
    """Encode and store the missing vectors of rows; return the complete rows."""
    bare = [row for row in rows if row.vector is None]
    if not bare:
        return list(rows)
    fresh = dict(zip((row.key for row in bare), encoder.encode([row.text for row in bare]), strict=True))
    shelf.set_vectors(fresh)
    return [replace(row, vector=fresh[row.key]) if row.vector is None else row for row in rows]
