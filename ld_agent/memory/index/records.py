"""The in-memory index of one shelf: catches up with the store, searches the numbers, loads the records found."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from ld_agent.errors import StoreError
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.base import Progress, Search, no_progress
from ld_agent.memory.index.columns import Columns, new_rows, with_vectors
from ld_agent.memory.index.long_term import LongTermIndex
from ld_agent.memory.index.passages import NO_PASSAGES, PackedVectors, Passages, passages_of
from ld_agent.memory.index.snapshot import from_bytes, to_bytes
from ld_agent.storage.base import IndexRow, Shelf
from ld_agent.types import Recalled, Record

FEWEST_NEW, NEW_SHARE = 500, 0.05
"""Number and share of new records after which a snapshot is stored again."""
ENCODED_AT_ONCE = 32
"""Records encoded before they are stored: an interrupted run keeps its work, and the encoder caches repeated texts."""


class RecordIndex:
    """See `ld_agent.memory.index.base.Index`. Safe to use from several threads.

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
        return self._numbers.nbytes

    def search(self, search: Search) -> list[Recalled]:
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
        return [
            Recalled(record, hit.s_sem, hit.s_top, hit.decay, hit.score, shared_topics(search, record), hit.more)
            for record, hit in zip(records, hits, strict=True)
        ]

    def catch_up(self) -> None:
        """Load records stored since the last call, and encode those without vectors."""
        with self._lock:
            for batch in new_rows(self._shelf, self._numbers.columns.last_key):
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
                self._make_passages([row.key for row in part if row.key not in passages], passages)
            if total > ENCODED_AT_ONCE:
                self._progress("reading memories", before + len(rows), total)
        return rows

    def _make_passages(self, keys: Sequence[int], passages: dict[int, Passages]) -> None:
        passages |= make_passages(self._shelf, keys, self._encoder, self._reading)

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


def shared_topics(search: Search, record: Record) -> tuple[str, ...]:
    """The topics of both, in order."""
    return tuple(sorted({*search.topics} & {*record.topics}))
