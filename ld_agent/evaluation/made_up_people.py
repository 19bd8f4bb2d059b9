"""A synthetic population as rows for COPY: people with a heavy tail of memories, vectors and topics distributed like
real ones.

Half the people have fewer than 40 events, one in a hundred more than 1,000, one 20,000. An event is a session of one
question and one reply. A vector is the sum of a direction shared by all, one of the person, one of the event's topic,
and noise. The weights give cosines within a person and between people like those of LoCoMo's session summaries (0.73 ±
0.09 and 0.36 ± 0.09). Numbers and frequencies of topics are those of MSC's sessions (median 30). Knows no agent, and
measures nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.index.passages import PackedVectors
from ld_agent.storage.columns import microseconds
from ld_agent.storage.postgres_loading import data, int2, int8, jsonb, text, vector

MEDIAN, HUNDREDTH, LONGEST = 40, 1_000, 20_000
TAIL = np.log(HUNDREDTH / MEDIAN) / 2.3263
"""σ of the logarithm of a person's events: the 99th percentile lies 2.3263 of it above the median."""
NOUNS, TOPICS_AN_EVENT, SPREAD = 5_000, 34, 0.27
"""Topics of an event are drawn with repetition, by a logarithmic normal distribution around TOPICS_AN_EVENT."""
SHARED, OF_PERSON, OF_TOPIC, TOPIC_DIMENSIONS = 0.36, 0.37, 0.22, 8
"""Shares of a vector's squared length; noise has the rest."""
OF_SUMMARY = 0.8
"""Cosine of a passage and its summary."""
SPOKEN, SUMMARIZED = 3, 15
"""How many of its topics an event's question and its summary name."""
EVENTS_A_TRAIT, MOST_TRAITS = 20, 100
NOISES = 4_096
START, APART = datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=7)
COLUMNS = {
    "conversation": "pk id agent utterances records traits",
    "enabled": "conversation tenant view since through",
    "speaker": "conversation tenant name first",
    "session": "conversation tenant number closed thread",
    "digested": "conversation tenant view session",
    "utterance": "pk conversation tenant id session speaker text at extracted",
    "record": "pk conversation tenant id view session text at topics sources vector",
    "passage": "record conversation tenant words vectors spoken lengths",
    "trait": "pk conversation tenant id speaker text at source last_at vector",
}
Rows = dict[str, tuple[str, list[bytes]]]
Floats = NDArray[np.float32]


def event_counts(people: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(people,) events of each person, at least 1; the first has the most."""
    counts = np.clip(np.exp(rng.normal(np.log(MEDIAN), TAIL, people)), 1, LONGEST).astype(np.int64)
    counts[0] = LONGEST
    return counts


def name_of(number: int) -> str:
    """The conversation id of a person."""
    return f"p{number:07}"


def question(rng: np.random.Generator) -> str:
    """A question for a person, about nouns that may have come up."""
    first, second = (noun(int(n)) for n in np.sort(rng.choice(200, 2, replace=False)))
    return f"Do you remember what we said about {first} and the new {second}?"


def noun(number: int) -> str:
    return f"noun{number:04}"


class People:
    """The rows of a population, the same for the same agent, dimension and counts.

    Args:
        counts: (people,) events of each.
    """

    def __init__(self, agent: str, dimension: int, counts: NDArray[np.int64]) -> None:
        self.agent, self.dimension, self.counts = agent, dimension, counts
        rng = np.random.default_rng(0)
        self._shared = _unit(rng.standard_normal((1, dimension), np.float32))
        self._subspace = np.linalg.qr(rng.standard_normal((dimension, TOPIC_DIMENSIONS)))[0].T.astype(np.float32)
        self._noises = _unit(rng.standard_normal((NOISES, dimension), np.float32))
        self._common = np.cumsum((np.arange(NOUNS) + 3.0) ** -0.85)
        self._common /= self._common[-1]
        self._nouns = [noun(n) for n in range(NOUNS)]

    def rows(self, numbers: range, next_keys: dict[str, int]) -> Rows:
        """Return the rows of some people, events of all of them in time order; advances ``next_keys``."""
        rng, counts = np.random.default_rng((1, numbers.start)), self.counts[numbers.start : numbers.stop]
        places = np.repeat(np.arange(len(counts)), counts)
        order = np.argsort(np.concatenate([np.arange(count) for count in counts]), kind="stable")
        vectors = self._vectors(rng, places)
        rows: Rows = {name: (columns, []) for name, columns in COLUMNS.items()}
        keys = [self._person(rows, number, next_keys) for number in numbers]
        self._traits(rows, keys, counts, np.split(vectors, np.cumsum(counts)[:-1]), next_keys)
        self._events(rows, keys, places[order], vectors[order], self._topics(rng, len(places)), next_keys)
        return rows

    def _person(self, rows: Rows, number: int, next_keys: dict[str, int]) -> bytes:
        """Add a conversation; returns its key and tenant as fields."""
        count, key = int(self.counts[number]), int8(_next(next_keys, "conversation"))
        traits = min(count // EVENTS_A_TRAIT, MOST_TRAITS)
        prefix = key + text("/")
        name = text(name_of(number)) + text(self.agent)
        rows["conversation"][1].append(key + name + int8(2 * count) + int8(count) + int8(traits))
        rows["enabled"][1].append(prefix + text("events") + int8(0) + int8(count))
        return prefix

    def _traits(
        self,
        rows: Rows,
        keys: Sequence[bytes],
        counts: NDArray[np.int64],
        vectors: list[Floats],
        next_keys: dict[str, int],
    ) -> None:
        begun = int8(microseconds(START))
        for prefix, count, of_person in zip(keys, counts.tolist(), vectors, strict=True):
            packed = _packed(of_person[:MOST_TRAITS])
            for n in range(min(count // EVENTS_A_TRAIT, MOST_TRAITS)):
                fields = text(f"t{n + 1}") + text("User") + text(f"I like {noun(n)}.") + begun + text(f"u{2 * n + 1}")
                rows["trait"][1].append(int8(_next(next_keys, "trait")) + prefix + fields + begun + packed[n])

    def _events(
        self, rows: Rows, keys: Sequence[bytes], places: NDArray[np.intp], vectors: Floats, topics: list[list[int]],
        next_keys: dict[str, int],
    ) -> None:  # fmt: skip
        """Add sessions and their contents."""
        session, digested, speaker, utterance, record, passage = (
            rows[name][1].append for name in ("session", "digested", "speaker", "utterance", "record", "passage")
        )
        closed, events, said_by = int2(1) + text(""), text("events"), (text("User"), text(self.agent))
        packed, blobs = _packed(vectors), self._passage_vectors(vectors)
        numbers = dict.fromkeys(range(len(keys)), 0)
        for row, (place, of_event) in enumerate(zip(places.tolist(), topics, strict=True)):
            numbers[place] = n = numbers[place] + 1
            prefix, number, at = (
                keys[place],
                int8(n),
                int8(microseconds(START) + n * APART // timedelta(microseconds=1)),
            )
            session(prefix + number + closed)
            digested(prefix + events + number)
            first, second = _next(next_keys, "utterance"), _next(next_keys, "utterance")
            if n == 1:
                speaker(prefix + said_by[0] + int8(first))
                speaker(prefix + said_by[1] + int8(second))
            names = [self._nouns[topic] for topic in of_event]
            asked = text(f"I have been thinking about {' and '.join(names[:SPOKEN])} again.")
            replied, ids = text(f"Tell me of {names[0]}."), (f"u{2 * n - 1}", f"u{2 * n}")
            utterance(int8(first) + prefix + text(ids[0]) + number + said_by[0] + asked + at + int2(1))
            utterance(int8(second) + prefix + text(ids[1]) + number + said_by[1] + replied + at + int2(1))
            key = int8(_next(next_keys, "record"))
            summary = text(f"They talk about {', '.join(names[:SUMMARIZED])}.")
            listed = text('["' + '","'.join(sorted(names)) + '"]') + text(f'["{ids[0]}","{ids[1]}"]')
            record(key + prefix + text(f"m{n}") + events + number + summary + at + listed + packed[row])
            passage(key + prefix + _words(names, self.agent, blobs[row]))

    def _topics(self, rng: np.random.Generator, events: int) -> list[list[int]]:
        """The topics of each event, at least SPOKEN."""
        sizes = np.maximum(np.exp(rng.normal(np.log(TOPICS_AN_EVENT), SPREAD, events)), SPOKEN).astype(np.int64)
        drawn = np.minimum(np.searchsorted(self._common, rng.random(int(sizes.sum()))), NOUNS - 1).tolist()
        ends = np.cumsum(sizes).tolist()
        topics = [list(dict.fromkeys(drawn[start:end])) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return [of_event if len(of_event) >= SPOKEN else list(range(SPOKEN)) for of_event in topics]

    def _vectors(self, rng: np.random.Generator, places: NDArray[np.intp]) -> Floats:
        """(n, dimension) unit vectors of events of the people at ``places``."""
        people = _unit(rng.standard_normal((int(places[-1]) + 1, self.dimension), np.float32))
        topics = _unit(rng.standard_normal((len(places), TOPIC_DIMENSIONS), np.float32)) @ self._subspace
        vectors = np.sqrt(OF_TOPIC) * topics + np.sqrt(OF_PERSON) * people[places] + np.sqrt(SHARED) * self._shared
        noise = np.sqrt(1 - SHARED - OF_PERSON - OF_TOPIC)
        return _unit(vectors + noise * self._noises[rng.integers(0, NOISES, len(places))])

    def _passage_vectors(self, vectors: Floats) -> list[bytes]:
        """For each event, the packed vectors of two windows and a sentence."""
        near = [
            OF_SUMMARY * vectors
            + np.sqrt(1 - OF_SUMMARY**2) * np.roll(self._noises, shift, 0)[np.arange(len(vectors)) % NOISES]
            for shift in range(3)
        ]
        packed = PackedVectors.of(np.stack(near, 1).reshape(-1, self.dimension))
        scale, steps = packed.scale.astype("<f4").tobytes(), packed.steps.tobytes()
        size = 3 * self.dimension
        return [scale[12 * n : 12 * n + 12] + steps[size * n : size * n + size] for n in range(len(vectors))]


def _words(names: Sequence[str], agent: str, vectors: bytes) -> bytes:
    """The words of an event's passages, and their counts as the store's trigger makes them."""
    who, other, summarized = "user", agent.lower(), names[:SUMMARIZED]
    turns = [[who, "think", *names[:SPOKEN]], [other, "tell", names[0]]]
    words = json.dumps([["User", agent], turns, [["talk", *summarized]]], separators=(",", ":"))
    counts = {
        who: [1, 2, {"User": 1}],
        "think": [1, 2, {"User": 1}],
        other: [1, 1, {agent: 1}],
        "tell": [1, 1, {agent: 1}],
    }
    spoken = json.dumps({
        **counts, "talk": [1, None, {}], names[0]: [3, 2, {"User": 1, agent: 1}],
        **{name: [2, 2, {"User": 1}] for name in names[1:SPOKEN]}, **{name: [1, None, {}] for name in summarized[SPOKEN:]},
    })  # fmt: skip
    total = len(turns[0]) + len(turns[1]) + 1 + len(summarized)
    lengths = {"by": {"User": len(turns[0]), agent: len(turns[1])}, "words": total, "windows": 2}
    return text(words) + data(vectors) + jsonb(spoken) + jsonb(json.dumps(lengths))


def _packed(vectors: Floats) -> list[bytes]:
    whole, size = vectors.astype(">f4").tobytes(), 4 * vectors.shape[1]
    return [vector(whole[n * size : (n + 1) * size]) for n in range(len(vectors))]


def _next(keys: dict[str, int], table: str) -> int:
    keys[table] += 1
    return keys[table] - 1


def _unit(vectors: NDArray[np.floating]) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)
