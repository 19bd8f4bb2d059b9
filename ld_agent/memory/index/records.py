"""The index of one shelf in memory: catches up with the store, searches the numbers, reads the records that were found."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from ld_agent.errors import StoreError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.columns import Columns, new_rows
from ld_agent.memory.index.long_term import LongTermIndex
from ld_agent.memory.index.passages import NO_PASSAGES, PackedVectors, Passages, passages_of
from ld_agent.memory.index.snapshot import from_bytes, to_bytes
from ld_agent.storage.base import Shelf
from ld_agent.types import Recalled

FEWEST_NEW, NEW_SHARE = 500, 0.05
"""Records, and share of all records, that a kept index may lack before it is kept again."""
PASSAGES_AT_ONCE = 32  # records; what an interrupted run has made is kept


class RecordIndex:
    """See `ld_agent.memory.index.base.Index`. Safe to use from several threads.

    Args:
        shelf: where the records are.
        encoder: its dimension is that of the vectors, and it makes those that are missing.
        encoded: keep vectors; if not, records are found by time and words alone.
        passages: make and keep the records' passages, for scorers that need them.
    """

    def __init__(self, shelf: Shelf, encoder: SentenceEncoder, *, encoded: bool = True, passages: bool = False) -> None:
        self._shelf, self._encoder, self._encoded, self._looks_at_passages = shelf, encoder, encoded, passages
        self._lock = threading.RLock()
        self._kept = 0  # records in the snapshot in the store
        self._numbers = self._restored() or self._empty()

    def _empty(self) -> LongTermIndex:
        numbers = LongTermIndex(self._encoder.dimension if self._encoded else 0, self._vectors)
        numbers.columns.reserve(self._shelf.count())
        return numbers

    def _restored(self) -> LongTermIndex | None:
        """The index as it was last kept; None: it was not, or does not fit what is stored."""
        if not self._looks_at_passages or (kept := self._shelf.snapshot()) is None:
            return None
        last_key, data = kept
        try:
            arrays = from_bytes(data)
            vectors = np.frombuffer(self._shelf.vectors(last_key), np.float32).reshape(-1, self._encoder.dimension)
            numbers = LongTermIndex.restored(arrays, vectors, self._vectors)
        except (ValueError, KeyError):
            return None
        if len(vectors) != len(numbers) or numbers.columns.last_key != last_key:
            return None
        self._kept = len(numbers)
        return numbers

    def _keep(self) -> None:
        """Keep the index for the next start once enough was added; many records take seconds to count again."""
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
            except StoreError:  # a record is gone: removed by hand, or replaced by another process
                self._numbers, self._kept = self._empty(), 0
                self.catch_up()
                if not len(self._numbers):
                    raise  # the whole conversation is
                return self._search(search)

    def _search(self, search: Search) -> list[Recalled]:
        self.catch_up()
        hits = self._numbers.search(
            search.vector,
            search.topics,
            search.at.timestamp(),
            k=search.k,
            gamma=search.gamma,
            tau=search.tau,
            scorer_name=search.scorer,
            text=search.text,
        )
        records = self._shelf.records([hit.key for hit in hits]) if hits else []
        return [
            Recalled(
                record, hit.s_sem, hit.s_top, hit.decay, hit.score,
                tuple(sorted({*search.topics} & {*record.topics})), hit.more,
            )
            for record, hit in zip(records, hits, strict=True)
        ]  # fmt: skip

    def catch_up(self) -> None:
        """Take in what was stored since the last look."""
        with self._lock:
            numbers = self._numbers
            for batch in new_rows(self._shelf, numbers.columns.last_key, self._encoder if self._encoded else None):
                passages = self._passages([row.key for row in batch]) if self._looks_at_passages else None
                for row in batch:
                    of_record = None if passages is None else passages.get(row.key, NO_PASSAGES)
                    numbers.add(row.key, row.vector if self._encoded else None, row.at, row.topics, of_record)
            self._keep()

    def _vectors(self, keys: Sequence[int]) -> Mapping[int, PackedVectors]:
        stored = self._shelf.passage_vectors(keys)
        return {key: PackedVectors.from_stored(blob, self._encoder.dimension) for key, blob in stored.items()}

    def _passages(self, keys: Sequence[int]) -> dict[int, Passages]:
        """The passages of records; made from what was said and stored where a record has none yet."""
        passages = {key: Passages.from_words(text) for key, text in self._shelf.passage_words(keys).items()}
        missing = [key for key in keys if key not in passages]
        for start in range(0, len(missing), PASSAGES_AT_ONCE):
            bare = self._shelf.with_sources(missing[start : start + PASSAGES_AT_ONCE])
            texts = [(text, said) for _, text, said in bare]
            fresh = dict(zip((key for key, *_ in bare), passages_of(texts, self._encoder), strict=True))
            self._shelf.set_passages({key: (new.words_text, new.vectors.stored) for key, new in fresh.items()})
            passages |= fresh
        return passages
