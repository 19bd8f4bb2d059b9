"""In-memory search over the numbers of one conversation's records.

Holds vectors, times, topics and, for scorers that need them, word statistics, as columns that grow in amortised constant
time, but no text: a hit is a primary key, whose text is in the store. A record takes 4 bytes per dimension plus
about 100, and about 6 per word for word statistics. Most scorers rank all records by all terms. ``hybrid``
uses the passages of all records if there are few, else of the best `CANDIDATES` by the terms held here; it fetches them and
caches some.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.reading import Reading
from ld_agent.memory.dates import nearness
from ld_agent.memory.index.lexical import Lexicon, question
from ld_agent.memory.index.passages import COVER, NO_VECTORS, SPEAKER, PackedVectors, Passages, best_passages
from ld_agent.memory.index.snapshot import Arrays, as_array, as_texts, packed, unpacked
from ld_agent.memory.scoring import Scorer, Terms, best, scorer, time_decay, topic_overlap, weighted
from ld_agent.text import stems

GROWTH = 1.125
TOPIC_BYTES = 150  # of a list and its entry, besides the word and the rows
FEW, CANDIDATES = 32, 8
"""Few records are all candidates, whose passages are compared; of more, these."""
COMMON = 0.5
"""Share of records above which a word is skipped: it distinguishes little and costs most."""
KEPT_VECTORS = 1024
"""Number of records whose passage vectors are cached, about 11 kB each for a session of 22 turns."""
Fetch = Callable[[Sequence[int]], Mapping[int, PackedVectors]]


@dataclass(frozen=True, slots=True)
class Search:
    """A query and its limits.

    Attributes:
        text: the query, for scorers that look at its words, names and dates.
        vector: (dimension,) unit vector of the query.
        at: records younger than this are not found.
        k: maximum number of records.
        gamma: γ; what it bounds is the scorer's `admission`.
        topics: V_q, without repetitions.
        tau: τ in seconds; None: no decay.
        scorer: by name, see `ld_agent.memory.scoring.SCORERS`.
        goes_on: see `ld_agent.memory.scoring.goes_on`.
    """

    text: str
    vector: NDArray[np.float32]
    at: datetime
    k: int
    gamma: float
    topics: tuple[str, ...] = ()
    tau: float | None = None
    scorer: str = "dense"
    goes_on: float = 0.0


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
        return sum(column.nbytes for column in columns) + self._topic_bytes

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

    def cosines(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) s_sem with a (dimension,) unit vector, computed row by row, so that equal vectors get equal numbers."""
        s_sem: NDArray[np.float32] = np.vecdot(self.vectors, vector)
        np.maximum(np.minimum(s_sem, 1.0, out=s_sem), -1.0, out=s_sem)
        return s_sem

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


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit: its primary key, the numbers of equations (1)–(3), and by name those specific to the scorer."""

    key: int
    s_sem: float
    s_top: float
    decay: float
    score: float
    more: Mapping[str, float] = field(default_factory=dict)


class LongTermIndex:
    """The numbers of n records and the search over them.

    Args:
        dimension: of the encoder's vectors.
        reading: how questions are read.
        fetch: returns the passage vectors of records by primary key; records without passages may be missing.
    """

    def __init__(self, dimension: int, reading: Reading, fetch: Fetch = lambda keys: {}) -> None:
        self.columns = Columns(dimension)
        self._fetch, self._reading = fetch, reading
        self._passages: OrderedDict[int, PackedVectors] = OrderedDict()
        self._passage_bytes = 0
        self._lexicon = Lexicon()
        self._speakers: dict[str, int] = {}
        self._speaks: array[int] = array("H")  # speaker of each window

    def snapshot(self) -> Arrays:
        """Everything except the records' vectors as arrays, for `restored`."""
        speakers: Arrays = {"speakers": as_array(self._speakers), "speaks": np.array(self._speaks, np.uint16)}
        return self.columns.snapshot() | self._lexicon.snapshot() | speakers

    @classmethod
    def restored(cls, arrays: Arrays, vectors: NDArray[np.float32], reading: Reading, fetch: Fetch) -> LongTermIndex:
        """The index of a `snapshot`; see `Columns.restored`."""
        index = cls(vectors.shape[1], reading, fetch)
        index.columns = Columns.restored(arrays, vectors)
        index._lexicon = Lexicon.restored(arrays)
        index._speakers = {name: number for number, name in enumerate(as_texts(arrays["speakers"]))}
        index._speaks = array("H", arrays["speaks"].tobytes())
        return index

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def nbytes(self) -> int:
        """Size of columns, lists and cached passages in bytes, including spare capacity; in constant time."""
        return self.columns.nbytes + self._lexicon.nbytes + self._passage_bytes

    def add(
        self,
        key: int,
        vector: NDArray[np.float32] | None,
        at: float,
        topics: Sequence[str],
        passages: Passages | None = None,
    ) -> None:
        """Append one record; see `Columns.add`.

        Args:
            passages: for scorers that need them; only their word statistics are kept here. Either all records of an
                index have passages or none.
        """
        self.columns.add(key, vector, at, topics)
        if passages is not None:
            self._lexicon.add(passages.counts, passages.windows, passages.counts_by)
            self._speaks.extend(self._speakers.setdefault(name, len(self._speakers)) for name in passages.speakers)

    def search(self, search: Search) -> list[Hit]:
        """The k best records by equations (1)–(3) or another scorer, best first, among those not younger than the query."""
        if len(self) == 0 or search.k <= 0:
            return []
        ranked_by = scorer(search.scorer)
        if ranked_by.first_look:
            rows, terms = self._candidates(ranked_by.first_look, search)
        else:
            rows, terms = None, self._all(ranked_by, search)
        times, keys = self.columns.at, self.columns.keys
        if rows is not None:
            times, keys = times[rows], keys[rows]
        score = ranked_by.score(terms)
        eligible = ranked_by.admits(terms, search.gamma) & (times <= search.at.timestamp())
        places = best(score, eligible, times, search.k)
        numbers = np.stack([terms.s_sem, terms.s_top, terms.decay, score])[:, places].T.tolist()
        more = [{name: float(values[place]) for name, values in terms.more.items()} for place in places]
        return [
            Hit(key, s_sem, s_top, decay, overall, of)
            for key, (s_sem, s_top, decay, overall), of in zip(keys[places].tolist(), numbers, more, strict=True)
        ]

    def _all(self, ranked_by: Scorer, search: Search) -> Terms:
        """The terms of all records."""
        n, more = len(self), dict[str, NDArray[np.floating]]()
        if ranked_by.needs_passages:
            words = stems(search.text, self._reading)
            more["s_word"] = self._lexicon.match(words) if len(self._lexicon) == n else np.zeros(n)
        age = np.maximum(search.at.timestamp() - self.columns.at, 0.0)
        s_sem, s_top = self.columns.cosines(search.vector), self.columns.overlap(search.topics)
        return Terms(s_sem, s_top, time_decay(age, search.tau), more)

    def _candidates(self, first_look: Mapping[str, float], search: Search) -> tuple[NDArray[np.intp], Terms]:
        """Choose candidates by the terms held here; return their rows and all their terms.

        λ is not used for the choice, because its weight decides only between ties.
        """
        n, at, now = len(self), self.columns.at, search.at.timestamp()
        most = max(CANDIDATES if n > FEW else FEW, 2 * search.k)
        asked = question(search.text, search.at, self._speakers, self._reading)
        held = dict[str, NDArray[np.floating]]()
        if len(self._lexicon) == n:  # otherwise there are records without passages, whose words are unknown
            held["s_word"] = self._lexicon.match(asked.words, COMMON if n > most else 1.0)
        if asked.periods:
            held["s_date"] = nearness(asked.periods, at)
        cosines = self.columns.cosines(search.vector)
        rows = best(weighted({"s_sem": cosines, **held}, first_look), at <= now, at, most)
        s_sem = cosines[rows]
        nothing = np.zeros(len(rows))
        s_word, s_date = (held[name][rows] if name in held else nothing for name in ("s_word", "s_date"))
        words = [word for word in asked.words if word not in asked.names]
        if asked.about and "s_word" in held:
            s_word = (s_word + self._lexicon.match_by(asked.about, words, rows)) / 2
        s_sent, s_pass, s_like, nearest = self._passages_of(rows, search.vector, words, asked.about)
        more = {"s_sent": s_sent, "s_word": s_word, "s_pass": s_pass, "s_like": s_like, "s_date": s_date}
        more["s_near"] = np.maximum(s_sem, nearest)
        decay = time_decay(now - at[rows], search.tau)
        more["s_new"] = search.goes_on * decay
        return rows, Terms(s_sem, self.columns.overlap(search.topics, rows), decay, more)

    def _passages_of(
        self, rows: NDArray[np.intp], vector: NDArray[np.float32], words: Sequence[str], about: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(m,) s_sent, s_pass, s_like and the greatest passage cosine of records; see `best_passages`.

        Args:
            words: the question's stems without names.
            about: the speaker that the question names.
        """
        vectors = self._kept(self.columns.keys[rows].tolist())
        if len(self) > len(self._lexicon):
            return best_passages(vectors, np.zeros(len(rows), np.intp), vector, np.zeros(0))
        windows = self._lexicon.windows(rows)
        further = COVER * self._lexicon.cover(words, windows)
        if about:
            speaks = np.frombuffer(self._speaks, np.uint16)
            said_by = np.concatenate([speaks[:0], *(speaks[first:after] for first, after in windows)])
            further += SPEAKER * (said_by == self._speakers[about])
        sizes = np.array([after - first for first, after in windows], np.intp)
        return best_passages(vectors, sizes, vector, further)

    def _kept(self, keys: Sequence[int]) -> list[PackedVectors]:
        """The passage vectors of records, fetched unless cached."""
        kept = self._passages
        if missing := [key for key in keys if key not in kept]:
            fetched = self._fetch(missing)
            for key in missing:
                kept[key] = fetched.get(key, NO_VECTORS)
                self._passage_bytes += kept[key].steps.nbytes
        packed = [kept[key] for key in keys]
        for key in keys:
            kept.move_to_end(key)
        while len(kept) > KEPT_VECTORS:
            self._passage_bytes -= kept.popitem(last=False)[1].steps.nbytes
        return packed
