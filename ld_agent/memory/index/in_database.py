"""The first search of a conversation, answered by a database that ranks; from the second on, the index in memory answers.

In a large population, most people say something once and stay away for days. Loading all memories of such a person, only to
drop them again, costs more than ranking them in the database. Both give the same records and the same numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.reading import Reading
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.hybrid import COVER, SPEAKER, Question, best_passages, question
from ld_agent.memory.index.lexical import rarity, stems
from ld_agent.memory.index.long_term import COMMON, most_candidates
from ld_agent.memory.index.passages import NO_PASSAGES, NO_VECTORS, PackedVectors, Passages
from ld_agent.memory.index.records import RecordIndex, shared_topics
from ld_agent.memory.scoring import Scorer, Terms, best, scorer
from ld_agent.storage.base import Shelf
from ld_agent.storage.columns import microseconds
from ld_agent.storage.ranking import Inventory, Ranked, RankedRecord, Ranking
from ld_agent.types import Recalled

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "paper": {"s_sem": 1.0, "s_top": 1.0},
    "dense": {"s_sem": 1.0},
    "bm25": {"s_word": 1.0},
}
"""Scorers that are sums of what the database computes; ``paper`` times λ."""
COLD_BYTES = 2_000
"""Approximate size of a conversation without an index."""


class DatabaseFirst:
    """See `ld_agent.memory.index.base.Index`. Safe to use from several threads.

    Args:
        shelf: where the records are; if it cannot rank, or some are not encoded yet, the index answers at once.
        reading: how questions are read.
        make: builds the index in memory.
    """

    def __init__(self, shelf: Shelf, reading: Reading, make: Callable[[], RecordIndex]) -> None:
        self._shelf, self._reading, self._make = shelf, reading, make
        self._index: RecordIndex | None = None
        self._searched = False
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return COLD_BYTES + (self._index.nbytes if self._index else 0)

    def search(self, search: Search) -> list[Recalled]:
        first, self._searched = not self._searched, True
        if first and (recalled := ranked_by_database(self._shelf, search, self._reading)) is not None:
            return recalled
        with self._lock:
            index = self._index = self._index or self._make()
        return index.search(search)


def ranked_by_database(shelf: Shelf, search: Search, reading: Reading) -> list[Recalled] | None:
    """The k best records as the database ranks them; None: it cannot, or some are not encoded yet."""
    by = scorer(search.scorer)
    if not by.first_look and by.name not in WEIGHTS:
        return None
    there = shelf.inventory(by.needs_passages)
    if there is None or there.encoded < there.records or (by.needs_passages and there.with_passages < there.records):
        return None
    if not there.records or search.k <= 0:
        return []
    if by.first_look:
        return _of_candidates(shelf, search, by, there, reading)
    ranking = Ranking(
        WEIGHTS[by.name],
        microseconds(search.at),
        search.k,
        search.vector,
        decayed=by.name == "paper",
        tau=search.tau,
        bounds={by.decided_by: search.gamma if by.bound is None else by.bound},
        topics=search.topics,
        words=sorted(set(stems(search.text, reading))) if by.needs_passages else (),
    )
    more = ("s_word",) if by.needs_passages else ()
    return [
        _recalled(one, search, one.score, {name: one.terms[name] for name in more})
        for one in shelf.ranked(ranking).records
    ]


def _of_candidates(shelf: Shelf, search: Search, by: Scorer, there: Inventory, reading: Reading) -> list[Recalled]:
    """Let the database choose candidates, and rank them by their passages."""
    assert by.first_look is not None
    asked = question(search.text, datetime.fromtimestamp(search.at.timestamp(), UTC), there.speakers, reading)
    most = most_candidates(there.records, search.k)
    ranking = Ranking(
        by.first_look,
        microseconds(search.at),
        most,
        search.vector,
        tau=search.tau,
        topics=search.topics,
        words=sorted(set(asked.words)),
        most=COMMON if there.records > most else 1.0,
        names=sorted(asked.names),
        about=asked.about,
        periods=[(period.start, period.end) for period in asked.periods],
    )
    ranked = shelf.ranked(ranking)
    if not ranked.records:
        return []
    terms = _terms(shelf, search.vector, asked, ranked)
    score, at = by.score(terms), np.array([one.record.at.timestamp() for one in ranked.records])
    return [
        _recalled(
            ranked.records[place], search, float(score[place]), {n: float(v[place]) for n, v in terms.more.items()}
        )
        for place in best(score, by.admits(terms, search.gamma), at, search.k)
    ]


def _terms(shelf: Shelf, vector: NDArray[np.float32], asked: Question, ranked: Ranked) -> Terms:
    """All terms of the candidates, as the index in memory computes them."""
    keys = [one.key for one in ranked.records]
    words, stored = shelf.passage_words(keys), shelf.passage_vectors(keys)
    passages = [Passages.from_words(words[key]) if key in words else NO_PASSAGES for key in keys]
    vectors = [PackedVectors.from_stored(stored[key], len(vector)) if key in stored else NO_VECTORS for key in keys]
    sizes = np.array([len(of_record.turns) for of_record in passages], np.intp)
    s_sent, s_pass, s_like, nearest = best_passages(vectors, sizes, vector, _further(passages, asked, ranked))
    held = {name: np.array([one.terms[name] for one in ranked.records]) for name in ranked.records[0].terms}
    s_word = (held["s_word"] + held["s_own"]) / 2 if asked.about else held["s_word"]
    more = {"s_sent": s_sent, "s_word": s_word, "s_pass": s_pass, "s_like": s_like, "s_date": held["s_date"]}
    more["s_near"] = np.maximum(held["s_sem"], nearest)
    return Terms(held["s_sem"], held["s_top"], np.array([one.decay for one in ranked.records]), more)


def _further(passages: Sequence[Passages], asked: Question, ranked: Ranked) -> NDArray[np.float64]:
    """(w,) the additional scores of the windows of all candidates; see `Lexicon.cover`."""
    worth = {
        word: rarity(ranked.windows, count) for word, count in ranked.windows_with.items() if word not in asked.names
    }
    total = math.sqrt(sum(worth.values()) + 1)
    return np.array(
        [
            COVER * sum(worth.get(word, 0.0) for word in set(window)) / total + SPEAKER * (speaker == asked.about)
            for of_record in passages
            for window, speaker in zip(of_record.windows, of_record.speakers, strict=True)
        ]
    )


def _recalled(one: RankedRecord, search: Search, score: float, more: Mapping[str, float]) -> Recalled:
    s_sem, s_top = one.terms["s_sem"], one.terms["s_top"]
    return Recalled(one.record, s_sem, s_top, one.decay, score, shared_topics(search, one.record), more)
