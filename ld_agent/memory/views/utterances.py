"""Retrieval over what was said in earlier sessions, with the ``k`` best in the prompt: LLM-Rsum's baselines over single
utterances, by words (BM25) or by meaning (dense), and ECM's history-based memory of one exchange each.

Asks a model only to reflect on a recall, if ``history.rounds`` is above 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ld_agent.config.sections import MemorySection
from ld_agent.languages.reading import Reading
from ld_agent.memory.scoring import best
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.stored import StoredRecords, VerbatimView, recalled
from ld_agent.steps import Steps
from ld_agent.text import terms_of
from ld_agent.types import Recalled

if TYPE_CHECKING:
    from bm25s import BM25

WORD_BYTES = 150
"""Bytes of a word and its entry, besides the numbers."""


class DenseView(VerbatimView):
    """Every utterance is a record; the k nearest to the query by cosine are recalled, if above γ."""

    name = "dense"
    bound = "k"
    piece = 1


class HistoryView(VerbatimView):
    """Each pair of consecutive utterances with their speakers is a record (ECM, section 3.1); the k nearest to the query
    by cosine are recalled, if above γ (K = 3 in the paper). The last utterance of a session may be a record of its own.
    """

    name = "history"
    bound = "k"
    rounds = "history.rounds"
    piece = 2


class Bm25View(VerbatimView):
    """Every utterance is a record; the k best by BM25 among those that share a word with the query are recalled.

    Words are compared in lower case, without stop words; Chinese, Japanese and Korean are compared character by
    character. Word statistics cover all records and are recomputed when a session is added.
    """

    name = "bm25"
    bound = "k"
    piece = 1
    encoded = False

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return f"overall = BM25; recalled if a word is in common; k = {settings.k}"

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._records.catch_up()
        context = self.context
        words = context.indexes.get(context.key, f"{self.name} words", lambda: _WordStatistics(context.reading))
        index = words.of(self._records)
        if index is None:
            return []
        wanted = [word for word in content_words(query.text, context.reading) if word in index.vocab_dict]
        if not wanted:
            return []
        score = np.asarray(index.get_scores(wanted), np.float64)
        eligible = (score > 0) & self._records.known(query)
        rows = [int(row) for row in best(score, eligible, self._records.at, context.settings.k)]
        records = zip(self._records.fetch(rows), rows, strict=True)
        return [recalled(record, 0.0, score=float(score[row])) for record, row in records]


class _WordStatistics:
    """The BM25 index of a view's records, rebuilt when there are more."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._records = 0
        self._index: BM25 | None = None

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        if self._index is None:
            return 0
        arrays = [value for value in self._index.scores.values() if isinstance(value, np.ndarray)]
        return sum(array.nbytes for array in arrays) + WORD_BYTES * len(self._index.vocab_dict)

    def of(self, records: StoredRecords) -> BM25 | None:
        """The index of these records; None: they have no words."""
        if self._records != len(records.keys):
            self._records, self._index = len(records.keys), _indexed(records, self._reading)
        return self._index


def content_words(text: str, reading: Reading) -> list[str]:
    """The terms of a text that carry meaning, in lower case and in order, repetitions included; see `terms_of`."""
    return [word for word in terms_of(text) if word not in reading.stop_words]


def _indexed(records: StoredRecords, reading: Reading) -> BM25 | None:
    """BM25 in its most common form (Lucene's, k1 = 1.5, b = 0.75) over all records; None: they have no words."""
    from bm25s import BM25

    words = [content_words(record.text, reading) for record in records.fetch(range(len(records.keys)))]
    if not any(words):
        return None
    index = BM25(method="lucene", k1=1.5, b=0.75)
    index.index(words, show_progress=False)
    return index
