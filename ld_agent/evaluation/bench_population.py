"""``ld-agent bench population``: a made-up population in PostgreSQL, and what recall, a turn and a session's end cost in it.

People differ in how much they have said, with a heavy tail: half have fewer than 40 events, one in a hundred more than 1,000,
one 20,000. An event is a session of one question and one reply. Vectors are sums of directions shared by all, by a topic and
by a person, and of noise, weighed so that their cosines are distributed as those of real summaries; topics follow Zipf's law.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import ConfigError
from ld_agent.evaluation.bench import machine
from ld_agent.memory.scoring import SCORERS
from ld_agent.storage.address import is_address, open_store, shown
from ld_agent.storage.columns import json_text, microseconds
from ld_agent.terminal import progress

if TYPE_CHECKING:
    from ld_agent.storage.postgres_loading import Loader

MEDIAN, HUNDREDTH, LONGEST = 40, 1_000, 20_000
TAIL = np.log(HUNDREDTH / MEDIAN) / 2.3263
"""σ of the logarithm of a person's events: the 99th percentile lies 2.3263 of it above the median."""
NOUNS, TOPICS_AN_EVENT, DIRECTIONS = 5_000, 6, 300
SHARED, OF_TOPIC, OF_PERSON = 0.25, 0.45, 0.25
"""Weights of the directions in a vector; noise has the rest."""
EVENTS_A_TRAIT, MOST_TRAITS = 20, 100
AT_ONCE = 200
"""People loaded in one transaction."""
START, APART = datetime(2020, 1, 1, tzinfo=UTC), timedelta(hours=7)
QUESTION = "Do you remember what we said about the garden and the new job?"


def event_counts(people: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(people,) events of each person, at least 1; the first has the most."""
    counts = np.clip(np.exp(rng.normal(np.log(MEDIAN), TAIL, people)), 1, LONGEST).astype(np.int64)
    counts[0] = LONGEST
    return counts


def bench_population(
    config: Config, sizes: Sequence[int], asked: int = 200, *, longest: int | None = None
) -> dict[str, Any]:
    """Load people up to each size in turn, and measure at each.

    Args:
        config: its store is a PostgreSQL address; people that an earlier run has loaded are kept. Where its scorer needs
            passages, which are not made up here, ``paper`` takes its place.
        sizes: people, growing.
        asked: people of each measurement, drawn at random.
        longest: at most this many events of a person; None: `LONGEST`.

    Raises:
        ConfigError: the store is a file.
        StoreError: see `Loader`.
    """
    if not is_address(config.store.path):
        raise ConfigError(
            f"bench population measures PostgreSQL, but store.path={config.store.path}; give --store postgresql://…"
        )
    from ld_agent.storage.postgres_loading import Loader

    scorer = "paper" if SCORERS[config.memory.scorer].needs_passages else config.memory.scorer
    memory = config.memory.model_copy(update={"gamma": -1.0, "quotes": 0, "views": ("events",), "scorer": scorer})
    config = config.model_copy(update={"memory": memory})
    open_store(config.store.path).close()  # makes the tables
    loader = Loader(config.store.path)
    try:
        people = _People(config, max(sizes), longest or LONGEST)
        rows = []
        for size in sizes:
            seconds = people.load(loader, size)
            rows.append({"people": size, "events": int(people.counts[:size].sum())} | _measured(config, size, asked))
            rows[-1] |= {"load_s": round(seconds, 1), **_bytes(loader, size)}
    finally:
        loader.close()
    return {"store": shown(config.store.path), "scorer": memory.scorer, "population": rows, "machine": machine()}


class _People:
    """The rows of a population, the same for the same seed."""

    def __init__(self, config: Config, people: int, longest: int) -> None:
        self._agent = config.agent.name
        rng = np.random.default_rng(0)
        self.counts = np.minimum(event_counts(people, rng), longest)
        with Agent(config, backbone=ScriptedBackbone()) as agent:
            self._dimension = agent.encoder.dimension  # notes the encoder in the store
        self._shared = _unit(rng.standard_normal(self._dimension))
        self._directions = _unit(rng.standard_normal((DIRECTIONS, self._dimension)))
        self._nouns = np.array([f"noun{n}" for n in range(NOUNS)])
        self._keys: dict[str, int] = {}

    def load(self, loader: Loader, size: int) -> float:
        """Load the people that are missing; returns the seconds it took."""
        begun = time.perf_counter()
        stored = loader.people()
        self._keys = loader.next_keys()
        with progress(f"loading {size:,} people", max(size - stored, 0)) as step:
            for first in range(stored, size, AT_ONCE):
                last = min(first + AT_ONCE, size)
                loader.load(self._rows(range(first, last)))
                step(last - first)
        if size > stored:
            loader.finish()
        return time.perf_counter() - begun

    def _rows(self, numbers: range) -> dict[str, tuple[Sequence[str], list[Any]]]:
        tables: dict[str, tuple[Sequence[str], list[Any]]] = {
            name: (columns.split(), []) for name, columns in COLUMNS.items()
        }
        for number in numbers:
            for table, row in self._person(number):
                tables[table][1].append(row)
        return tables

    def _next(self, table: str) -> int:
        self._keys[table] += 1
        return self._keys[table] - 1

    def _person(self, number: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        rng = np.random.default_rng((1, number))
        count, key = int(self.counts[number]), self._next("conversation")
        tenant, name = "/", f"p{number:07}"
        traits = min(count // EVENTS_A_TRAIT, MOST_TRAITS)
        yield "conversation", (key, name, self._agent, 2 * count, count, traits)
        yield "enabled", (key, tenant, "events", 0, count)
        vectors = self._vectors(rng, count)
        topics = self._nouns[np.minimum(rng.zipf(1.3, (count, TOPICS_AN_EVENT)) - 1, NOUNS - 1)]
        for n in range(1, count + 1):
            at = microseconds(START + n * APART)
            of_event = sorted(set(topics[n - 1]))
            said = f"I have been thinking about {' and '.join(of_event[:3])} again."
            yield "session", (key, tenant, n, 1, "")
            yield "digested", (key, tenant, "events", n)
            for place, (speaker, text) in enumerate((("User", said), (self._agent, f"Tell me of {of_event[0]}."))):
                pk = self._next("utterance")
                if n == 1:
                    yield "speaker", (key, tenant, speaker, pk)
                yield "utterance", (pk, key, tenant, f"u{2 * n - 1 + place}", n, speaker, text, at, 1)
            summary = f"They talk about {', '.join(of_event)}."
            sources = json_text([f"u{2 * n - 1}", f"u{2 * n}"])
            record = (self._next("record"), key, tenant, f"m{n}", "events", n, summary, at)
            yield "record", (*record, json_text(of_event), sources, vectors[n - 1])
        for n, vector in enumerate(vectors[:traits], 1):
            trait = (self._next("trait"), key, tenant, f"t{n}", "User", f"I like noun{n}.")
            yield "trait", (*trait, microseconds(START), f"u{2 * n - 1}", microseconds(START), vector)

    def _vectors(self, rng: np.random.Generator, count: int) -> list[Any]:
        from ld_agent.storage.postgres_values import PackedVector

        noise = _unit(rng.standard_normal((count, self._dimension)))
        person = _unit(rng.standard_normal(self._dimension))
        weight = np.sqrt(1 - SHARED**2 - OF_TOPIC**2 - OF_PERSON**2)
        of_topic = self._directions[rng.integers(0, DIRECTIONS, count)]
        vectors = _unit(SHARED * self._shared + OF_TOPIC * of_topic + OF_PERSON * person + weight * noise)
        return [PackedVector(vector.astype("<f4").tobytes()) for vector in vectors]


COLUMNS = {
    "conversation": "pk id agent utterances records traits",
    "enabled": "conversation tenant view since through",
    "session": "conversation tenant number closed thread",
    "digested": "conversation tenant view session",
    "speaker": "conversation tenant name first",
    "utterance": "pk conversation tenant id session speaker text at extracted",
    "record": "pk conversation tenant id view session text at topics sources vector",
    "trait": "pk conversation tenant id speaker text at source last_at vector",
}


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def _measured(config: Config, people: int, asked: int) -> dict[str, Any]:
    """Milliseconds of recall, turns and session ends of people drawn at random; the models answer at once."""
    rng = np.random.default_rng(people)
    chosen = rng.choice(people, min(asked, people), replace=False)
    script = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "They talk about the garden."}
    times: dict[str, list[float]] = {"cold": [], "warm": [], "turn": [], "end": []}
    later = START + (LONGEST + 10) * APART
    with Agent(config, backbone=ScriptedBackbone(script), clock=lambda: later) as agent:
        agent.warm_up()
        for place, number in enumerate(chosen):
            stored = agent.store.find_conversation(f"p{number:07}")
            assert stored is not None
            question = f"{QUESTION} {place}"  # another text each time, so that it is encoded
            for kind in ("cold", "warm"):
                times[kind].append(_ms(lambda: agent.recall(stored, question, later)))  # noqa: B023
        for number in chosen[: max(1, len(chosen) // 4)]:
            conversation = agent.conversation(f"p{number:07}")
            at = later + APART
            times["turn"].append(_ms(lambda: conversation.respond(QUESTION, at=at)))  # noqa: B023
            times["end"].append(_ms(conversation.end_session))
        texts = [f"{QUESTION} {n} again" for n in range(20)]
        encode = [_ms(lambda: agent.resources.query(text, later)) for text in texts]  # noqa: B023
    return {
        **{f"{kind}_ms_p{q}": round(float(np.percentile(ms, q)), 1) for kind, ms in times.items() for q in (50, 95)},
        "encode_ms_p50": round(float(np.percentile(encode, 50)), 1),
    }


def _ms(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begun)


def _bytes(loader: Loader, people: int) -> dict[str, Any]:
    sizes = loader.size()
    return {"kb_a_person": round(sizes["database"] / people / 1000, 1), "mb": {k: v // 10**6 for k, v in sizes.items()}}
