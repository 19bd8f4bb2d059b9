"""The long-term index: the numbers of one conversation's records in memory.

Holds vectors, times, topics and, for scorers that look at them, word statistics; no text: what is found is a primary key,
and its text is read from the store. A record costs 4 bytes a dimension and about 100 more, with word statistics some 6 for
each word that it says. The scorer ``paper`` searches exactly. ``hybrid`` looks at the passages of all records where there are
few, else of the best `CANDIDATES` by what is held here; it fetches them and keeps some.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.dates import nearness
from ld_agent.memory.hybrid import COVER, FIRST_LOOK, OWN, Question, best_passages, question, weighted
from ld_agent.memory.lexical import Lexicon, stems
from ld_agent.memory.passages import NO_VECTORS, PackedVectors, Passages
from ld_agent.memory.scoring import LOOKS_AT_PASSAGES, Terms, best, hybrid_score, scorer, time_decay, topic_overlap

GROWTH = 1.125
FEW = 32
CANDIDATES = 8
COMMON = 0.5
"""Share of the records above which a word is passed over, where there are many records: it tells little and costs most."""
KEPT_VECTORS = 1024
"""Records whose passages' vectors stay in memory, about 11 kB each for a session of 22 turns."""
Fetch = Callable[[Sequence[int]], Mapping[int, PackedVectors]]


@dataclass(frozen=True, slots=True)
class Hit:
    """One found record: its primary key, the numbers of equations (2) and (3), and by name those of its scorer alone."""

    key: int
    s_sem: float
    decay: float
    score: float
    more: Mapping[str, float] = field(default_factory=dict)


class LongTermIndex:
    """n records as columns, appended in amortised constant time.

    Args:
        dimension: of the encoder's vectors.
        fetch: gives the vectors of records' passages by primary key; a record without any may be left out.
    """

    def __init__(self, dimension: int, fetch: Fetch = lambda keys: {}) -> None:
        self._fetch = fetch
        self._passages: OrderedDict[int, PackedVectors] = OrderedDict()
        self._lexicon = Lexicon()
        self._speakers: dict[str, int] = {}
        self._speaks: array[int] = array("H")  # who says each window
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
        """Bytes held by the columns, the lists and the passages kept, spare room included."""
        columns = (self._vectors, self._at, self._topic_counts, self._keys)
        topics = sum(len(t) + 150 + rows.itemsize * len(rows) for t, rows in self._rows_with.items())
        passages = sum(own.steps.nbytes for own in self._passages.values())
        return sum(c.nbytes for c in columns) + topics + self._lexicon.nbytes + passages

    def add(
        self,
        key: int,
        vector: NDArray[np.float32],
        at: float,
        topics: Sequence[str],
        passages: Passages | None = None,
    ) -> None:
        """Append one record.

        Args:
            key: the store's primary key, greater than every key before.
            vector: (dimension,) float32, unit length.
            at: seconds since the epoch.
            topics: the record's topic set V_k, without repetitions.
            passages: for scorers that look at them; only their word statistics are kept here. Either all records of an
                index have them or none.
        """
        if self._n == len(self._keys):
            self._reserve(max(64, int(self._n * GROWTH) + 1))
        row = self._n
        self._vectors[row], self._at[row], self._keys[row] = vector, at, key
        self._topic_counts[row] = len(topics)
        for topic in topics:
            self._rows_with.setdefault(topic, array("I")).append(row)
        if passages is not None:
            self._lexicon.add(passages.counts, passages.windows, passages.counts_by)
            self._speaks.extend(self._speakers.setdefault(name, len(self._speakers)) for name in passages.speakers)
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
        text: str = "",
    ) -> list[Hit]:
        """The k best records by equations (1)–(3) or another scorer, best first, among those not younger than ``at``.

        γ bounds s_sem; ``hybrid`` takes the nearest passage instead where that is nearer, ``bm25`` any word of the query.

        Args:
            vector: (dimension,) unit vector of the query.
            topics: the query's topic set V_q, without repetitions.
            at: time of the query, seconds since the epoch.
            text: the query itself, for scorers that look at more than its vector and topics.
        """
        n = self._n
        if n == 0 or k <= 0:
            return []
        if scorer_name == "hybrid":
            asked = question(text, datetime.fromtimestamp(at, UTC), self._speakers)
            return self._hybrid(vector, asked, at, k, gamma, tau)
        age = at - self._at[:n]
        s_sem = self._cosines(vector)
        decay = time_decay(np.maximum(age, 0.0), tau)
        s_top, near, more = self._overlap(topics), s_sem > gamma, {}
        if scorer_name in LOOKS_AT_PASSAGES:
            more["s_word"] = self._lexicon.match(stems(text)) if len(self._lexicon) == n else np.zeros(n)
            near = more["s_word"] > 0
        score = scorer(scorer_name)(Terms(s_sem, s_top, decay, more))
        found = best(score, near & (age >= 0), self._at[:n], k)
        return [
            Hit(
                int(self._keys[r]),
                float(s_sem[r]),
                float(decay[r]),
                float(score[r]),
                {name: float(values[r]) for name, values in more.items()},
            )
            for r in found
        ]

    def _cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) s_sem, row by row: equal vectors get equal numbers, wherever they stand."""
        s_sem: NDArray[np.float32] = np.vecdot(self._vectors[: self._n], vector)
        np.maximum(np.minimum(s_sem, 1.0, out=s_sem), -1.0, out=s_sem)
        return s_sem

    def _overlap(self, topics: Sequence[str]) -> NDArray[np.float64]:
        """Equation (1) for all records."""
        shared = np.zeros(self._n, np.int32)
        for topic in topics:
            if topic in self._rows_with:
                shared[np.frombuffer(self._rows_with[topic], np.uint32)] += 1
        return topic_overlap(shared, len(topics), self._topic_counts[: self._n])

    def _hybrid(
        self,
        vector: NDArray[np.float32],
        asked: Question,
        now: float,
        k: int,
        gamma: float,
        tau: float | None,
    ) -> list[Hit]:
        """Rank all known records by the terms that are held here, then the best of them by all terms.

        Equation (3) holds with the greatest cosine of the record's summary or any passage in place of s_sem. λ has no
        part in the choice of candidates: its weight decides between equals only.
        """
        n = self._n
        at = self._at[:n]
        candidates = max(CANDIDATES if n > FEW else FEW, 2 * k)
        held: dict[str, NDArray[np.floating]] = {"s_sem": self._cosines(vector)}
        if len(self._lexicon) == n:  # else there are records that came without passages, and no word of them is known
            held["s_word"] = self._lexicon.match(asked.words, COMMON if n > candidates else 1.0)
        if asked.periods:
            held["s_date"] = nearness(asked.periods, at)
        rows = best(weighted(held, FIRST_LOOK), at <= now, at, candidates)
        nothing = np.zeros(len(rows))
        s_sem, s_word, s_date = (
            held[name][rows] if name in held else nothing for name in ("s_sem", "s_word", "s_date")
        )
        words = [word for word in asked.words if word not in asked.names]
        if asked.about and "s_word" in held:
            s_word = (s_word + self._lexicon.match_by(asked.about, words, rows)) / 2
        s_sent, s_pass, s_like, nearest = self._passages_of(rows, vector, words, asked.about)
        at, decay = at[rows], time_decay(now - at[rows], tau)
        more = {"s_sent": s_sent, "s_word": s_word, "s_pass": s_pass, "s_like": s_like, "s_date": s_date}
        score = hybrid_score(Terms(s_sem, nothing, decay, more))
        found = best(score, np.maximum(s_sem, nearest) > gamma, at, k)
        return [
            Hit(
                int(self._keys[rows[i]]),
                float(s_sem[i]),
                float(decay[i]),
                float(score[i]),
                {name: float(values[i]) for name, values in more.items()},
            )
            for i in found
        ]

    def _passages_of(
        self, rows: NDArray[np.intp], vector: NDArray[np.float32], words: Sequence[str], about: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(m,) s_sent, s_pass, s_like and the greatest cosine of the passages of records; see `best_passages`.

        Args:
            words: the question's stems but names.
            about: the speaker it names.
        """
        vectors = self._kept(self._keys[rows].tolist())
        if len(self._lexicon) < self._n:
            return best_passages(vectors, np.zeros(len(rows), np.intp), vector, np.zeros(0))
        windows = self._lexicon.windows(rows)
        further = COVER * self._lexicon.cover(words, windows)
        if about:
            speaks = np.frombuffer(self._speaks, np.uint16)
            said_by = np.concatenate([speaks[:0], *(speaks[first:after] for first, after in windows)])
            further += OWN * (said_by == self._speakers[about])
        sizes = np.array([after - first for first, after in windows], np.intp)
        return best_passages(vectors, sizes, vector, further)

    def _kept(self, keys: Sequence[int]) -> list[PackedVectors]:
        """The vectors of records' passages, fetched where they are not in memory."""
        kept = self._passages
        if missing := [key for key in keys if key not in kept]:
            fetched = self._fetch(missing)
            kept.update((key, fetched.get(key, NO_VECTORS)) for key in missing)
        found = [kept[key] for key in keys]
        for key in keys:
            kept.move_to_end(key)
        while len(kept) > KEPT_VECTORS:
            kept.popitem(last=False)
        return found
