"""The in-memory index of one shelf: catches up with the store, searches the numbers, loads the records found. Also a cache of
the indexes of many conversations, bounded in memory, which drops the least recently used first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, TypeVar, cast

import numpy as np

from ld_agent.errors import StoreError
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Progress, SentenceEncoder, no_progress
from ld_agent.memory.index.long_term import Columns, LongTermIndex, Search
from ld_agent.memory.index.passages import NO_PASSAGES, PackedVectors, Passages, passages_of
from ld_agent.memory.index.snapshot import from_bytes, to_bytes
from ld_agent.storage.rows import IndexRow
from ld_agent.storage.shelf import Shelf
from ld_agent.types import Recalled

BATCH = 1000  # as many as the store streams at a time
FEWEST_NEW, NEW_SHARE = 500, 0.05
"""Number and share of new records after which a snapshot is stored again."""
ENCODED_AT_ONCE = 32
"""Records encoded before they are stored: an interrupted run keeps its work, and the encoder caches repeated texts."""


class RecordIndex:
    """The records of one view of one conversation. Safe to use from several threads.

    Args:
        shelf: where the records are.
        encoder: makes missing vectors, and determines their dimension.
        reading: how texts are read.
        encoded: keep vectors; if false, records are found only by time and words.
        passages: make and keep the records' passages, for scorers that need them.
        progress: called while missing vectors are encoded, as after an import.
    """

    def __init__(
        self,
        shelf: Shelf,
        encoder: SentenceEncoder,
        reading: Reading,
        *,
        encoded: bool = True,
        passages: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        self._progress, self._reading = progress, reading
        self._shelf, self._encoder, self._encoded, self._looks_at_passages = shelf, encoder, encoded, passages
        self._lock = threading.RLock()
        self._kept = 0  # records in the stored snapshot
        self._numbers = self._restored() or self._empty()

    def _empty(self) -> LongTermIndex:
        numbers = LongTermIndex(self._encoder.dimension if self._encoded else 0, self._reading, self._vectors)
        numbers.columns.reserve(self._shelf.count())
        return numbers

    def _restored(self) -> LongTermIndex | None:
        """The index from the stored snapshot; None: there is none, or it does not match the store."""
        if not self._looks_at_passages or (kept := self._shelf.snapshot()) is None:
            return None
        last_key, data = kept
        try:
            arrays = from_bytes(data)
            vectors = np.frombuffer(self._shelf.vectors(last_key), np.float32).reshape(-1, self._encoder.dimension)
            numbers = LongTermIndex.restored(arrays, vectors, self._reading, self._vectors)
        except (ValueError, KeyError):
            return None
        if len(vectors) != len(numbers) or numbers.columns.last_key != last_key:
            return None
        self._kept = len(numbers)
        return numbers

    def _keep(self) -> None:
        """Store a snapshot of the index once enough was added, because recounting many records takes seconds."""
        count = len(self._numbers)
        if self._looks_at_passages and count - self._kept >= max(FEWEST_NEW, NEW_SHARE * count):
            self._shelf.keep_snapshot(self._numbers.columns.last_key, to_bytes(self._numbers.snapshot()))
            self._kept = count

    @property
    def columns(self) -> Columns:
        """Keys, times and vectors of the records known so far."""
        return self._numbers.columns

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return self._numbers.nbytes

    def search(self, search: Search) -> list[Recalled]:
        """Return the k best records by equations (1)–(3) or another scorer, best first; empty: no relevant memory.

        Finds records stored since the last search, by this process or another.

        Raises:
            StoreError: the conversation was deleted.
        """
        with self._lock:
            try:
                return self._search(search)
            except StoreError:  # a record is gone: removed manually, or replaced by another process
                self._numbers, self._kept = self._empty(), 0
                self.catch_up()
                if not len(self._numbers):
                    raise  # the whole conversation is gone
                return self._search(search)

    def _search(self, search: Search) -> list[Recalled]:
        self.catch_up()
        hits = self._numbers.search(search)
        records = self._shelf.records([hit.key for hit in hits]) if hits else []
        shared = [tuple(sorted({*search.topics} & {*record.topics})) for record in records]
        return [
            Recalled(record, hit.s_sem, hit.s_top, hit.decay, hit.score, overlap, hit.more)
            for record, hit, overlap in zip(records, hits, shared, strict=True)
        ]

    def catch_up(self) -> None:
        """Load records stored since the last call, by this process or another, and encode those without vectors."""
        with self._lock:
            while batch := list(islice(self._shelf.rows_after(self._numbers.columns.last_key), BATCH)):
                words = self._shelf.passage_words([row.key for row in batch]) if self._looks_at_passages else {}
                passages = {key: Passages.from_words(text) for key, text in words.items()}
                if any(self._lacks(row, passages) for row in batch):
                    batch = self._encoded_now(batch, passages)
                for row in batch:
                    of_record = passages.get(row.key, NO_PASSAGES) if self._looks_at_passages else None
                    self._numbers.add(row.key, row.vector if self._encoded else None, row.at, row.topics, of_record)
            self._keep()

    def _lacks(self, row: IndexRow, passages: Mapping[int, Passages]) -> bool:
        return (self._encoded and row.vector is None) or (self._looks_at_passages and row.key not in passages)

    def _encoded_now(self, batch: Sequence[IndexRow], passages: dict[int, Passages]) -> list[IndexRow]:
        """The rows of a batch with their vectors; missing vectors and passages are computed and stored."""
        rows = list[IndexRow]()
        before, total = len(self._numbers), max(self._shelf.count(), len(self._numbers) + len(batch))
        for start in range(0, len(batch), ENCODED_AT_ONCE):
            part = list(batch[start : start + ENCODED_AT_ONCE])
            rows += with_vectors(part, self._shelf, self._encoder) if self._encoded else part
            if self._looks_at_passages:
                bare = [row.key for row in part if row.key not in passages]
                passages |= make_passages(self._shelf, bare, self._encoder, self._reading)
            if total > ENCODED_AT_ONCE:
                self._progress("reading memories", before + len(rows), total)
        return rows

    def _vectors(self, keys: Sequence[int]) -> Mapping[int, PackedVectors]:
        stored = self._shelf.passage_vectors(keys)
        return {key: PackedVectors.from_stored(blob, self._encoder.dimension) for key, blob in stored.items()}


def make_passages(shelf: Shelf, keys: Sequence[int], encoder: SentenceEncoder, reading: Reading) -> dict[int, Passages]:
    """Compute and store the passages of records; return them by key."""
    bare = shelf.with_sources(keys) if keys else []
    made = passages_of([(text, said) for _, text, said in bare], encoder, reading)
    fresh = dict(zip((key for key, *_ in bare), made, strict=True))
    if fresh:
        shelf.set_passages({key: (new.words_text, new.vectors.stored) for key, new in fresh.items()})
    return fresh


def with_vectors(rows: Sequence[IndexRow], shelf: Shelf, encoder: SentenceEncoder) -> list[IndexRow]:
    """Encode and store the missing vectors of rows; return the complete rows."""
    bare = [row for row in rows if row.vector is None]
    if not bare:
        return list(rows)
    fresh = dict(zip((row.key for row in bare), encoder.encode([row.text for row in bare]), strict=True))
    shelf.set_vectors(fresh)
    return [replace(row, vector=fresh[row.key]) if row.vector is None else row for row in rows]


class Sized(Protocol):
    """Anything with a size in bytes."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)
Key = tuple[int, str]
"""A conversation's key in the store, and the name of the kind of index."""


class IndexCache:
    """Indexes by conversation and view. Thread-safe; never builds the same index twice concurrently.

    The most recently requested index is kept, whatever its size. A dropped one is rebuilt from the store when next
    needed. An index is built while no lock is held; only callers that want the same one wait for it.

    Args:
        most_bytes: maximum size of all indexes together; None: unbounded.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = most_bytes
        self._indexes: OrderedDict[Key, Sized] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._last: Key = (0, "")
        self._making: dict[Key, threading.Event] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes; growth of the one in use counts from the next request on."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, conversation: int, view: str, make: Callable[[], T]) -> T:
        """Return the index of a conversation and view, building it if necessary.

        Do not call this in a transaction. An index dropped while it is being built is returned to its builder, but not
        kept.
        """
        key = conversation, view
        while True:
            with self._lock:
                if key in self._indexes:
                    return cast(T, self._used(key))
                building = self._making.get(key)
                if building is None:
                    building = self._making[key] = threading.Event()
                    break
            building.wait()
        try:
            index = make()
            with self._lock:
                if self._making.get(key) is building:
                    self._indexes[key] = index
                    self._used(key)
            return index
        finally:
            with self._lock:
                if self._making.get(key) is building:
                    del self._making[key]
            building.set()

    def _used(self, key: Key) -> Sized:
        self._indexes.move_to_end(key)
        for recent in {self._last, key}:  # the last one may have grown
            if recent in self._indexes:
                self._sizes[recent] = self._indexes[recent].nbytes
        self._last = key
        while self._most is not None and len(self._indexes) > 1 and sum(self._sizes.values()) > self._most:
            oldest, _ = self._indexes.popitem(last=False)
            del self._sizes[oldest]
        return self._indexes[key]

    def drop(self, conversation: int) -> None:
        """Drop the indexes of a conversation whose records were changed or deleted."""
        with self._lock:
            for key in [key for key in self._indexes if key[0] == conversation]:
                del self._indexes[key], self._sizes[key]
            for key in [key for key in self._making if key[0] == conversation]:
                del self._making[key]
