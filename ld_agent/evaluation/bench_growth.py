"""``ld-agent bench turn --growth``: what a turn costs, apart from the model's forward passes, as one conversation grows.

One conversation is filled in realistic proportions: sessions of ten utterances a few hours apart, one event with its
passages per session, one trait per twenty utterances. At each size, some turns are played through the public API with a
scripted model, and the store is reopened. Store, encoder, topics and index are real; the contents of the memory are
random.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.evaluation.bench import VOCABULARY, machine
from ld_agent.memory.encoder import SentenceEncoder, Vectors, configured
from ld_agent.memory.index.passages import PackedVectors, Passages
from ld_agent.memory.topics import TopicExtractor
from ld_agent.storage.base import Draft
from ld_agent.terminal import progress

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SESSION = 10
"""Utterances of a session."""
UTTERANCES_A_TRAIT = 20
WORDS = 10
SENTENCES = 2
TURNS = 15
DIFFERENT = 400
"""Number of distinct sessions; they repeat, each time with new vectors."""
START = datetime(2000, 1, 1, tzinfo=UTC)
GAP = timedelta(hours=6)


def bench_growth(config: Config, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Measure turns and reopening at each size.

    Returns:
        ``growth``: a row for each size with ``utterances``, ``sessions``, ``traits``, ``turn_ms_median``, ``turn_ms_p95``,
        milliseconds by step (``steps_ms``), ``reopen_s`` (opening and the first turn, models loaded) and ``store_mb``.
    """
    encoder = configured(config.encoder)
    topics = TopicExtractor(config.topics.model, config.topics.pos)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "growth.db"
        grown = _Grown(config.changed(store={"path": str(path)}), encoder, topics)
        rows = [grown.measured(size) for size in sizes]
    return {"growth": rows, "machine": machine()}


def filled(agent: Agent, conversation_id: str, sessions: int) -> None:
    """Fill a conversation of an open agent with sessions like those of `bench_growth`, one event each."""
    grown = _Grown(agent.config, agent.resources.encoder, agent.resources.topics)
    store = agent.store
    key = store.open_conversation(conversation_id, agent.config.agent.name).key
    with progress(f"filling {sessions:,} events", sessions) as step:
        for start in range(0, sessions, 100):
            with store.writing(key):
                for number in range(start, min(start + 100, sessions)):
                    grown.fill_session(store, key, number)
            step(min(100, sessions - start))


class _Grown:
    """One growing conversation."""

    def __init__(self, config: Config, encoder: SentenceEncoder, topics: TopicExtractor) -> None:
        self._config = config.changed(
            memory={"gamma": -1.0}
        )  # random vectors are similar to nothing: recall them anyway
        self._encoder, self._topics = encoder, topics
        self._rng = np.random.default_rng(0)
        self._sessions = [self._session() for _ in range(DIFFERENT)]
        self._at, self._turns = START, 0

    def _session(self) -> tuple[list[str], Passages]:
        """The utterances of a session, words by Zipf's law, and its passages."""
        turns = [tuple(f"word{min(int(w), VOCABULARY)}" for w in self._rng.zipf(1.3, WORDS)) for _ in range(SESSION)]
        vectors = PackedVectors.of(self._vectors(SESSION + SENTENCES))
        speakers = ("Ann", self._config.agent.name) * (SESSION // 2)
        return [" ".join(turn) for turn in turns], Passages(speakers, tuple(turns), tuple(turns[:SENTENCES]), vectors)

    def _clock(self) -> datetime:
        return self._at

    def _vectors(self, count: int) -> Vectors:
        vectors = self._rng.standard_normal((count, self._encoder.dimension)).astype(np.float32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def measured(self, size: int) -> dict[str, Any]:
        """Fill up to a number of utterances, and measure."""
        self._fill(size)
        first = self._agent()
        with first as agent:
            conversation = agent.conversation("growth")
            for _ in range(3):
                self._turn(conversation)
            laps = [self._turn(conversation) for _ in range(TURNS)]
        start = time.perf_counter()
        with self._agent() as agent:
            self._turn(agent.conversation("growth"))
            reopen = time.perf_counter() - start
            counts = agent.store.counts(agent.conversation("growth").key)
        total = [sum(lap.values()) for lap in laps]
        return {
            "utterances": size,
            "sessions": counts["sessions"],
            "traits": counts["traits"],
            "turn_ms_median": round(statistics.median(total), 2),
            "turn_ms_p95": round(float(np.percentile(total, 95)), 2),
            "steps_ms": {name: round(statistics.median(lap[name] for lap in laps), 2) for name in laps[0]},
            "reopen_s": round(reopen, 3),
            "store_mb": round(Path(self._config.store.path).stat().st_size / 1e6),
        }

    def _agent(self) -> Agent:
        def trait(request: Request) -> str:
            return f"I like word{self._turns}." if self._turns % 4 == 0 else "NO_TRAIT"

        script: dict[str, Any] = {
            "generator": "That sounds good.",
            "extractor": trait,
            "summarizer": "They talk about words.",
        }
        return Agent(self._config, backbone=ScriptedBackbone(script), encoder=self._encoder, topics=self._topics)

    def _turn(self, conversation: Any) -> dict[str, float]:
        self._turns += 1
        words = " ".join(self._sessions[self._turns % DIFFERENT][0][:1])
        self._at += timedelta(minutes=1)
        text = f"What did I say about {words} and word{self._turns}?"
        return dict(conversation.respond(text, speaker="Ann", at=self._at).timings_ms)

    def _fill(self, size: int) -> None:
        with self._agent() as agent:
            store, key = agent.store, agent.conversation("growth").key
            stored = store.counts(key)["utterances"]
            sessions = range(stored // SESSION, size // SESSION)
            with progress(f"filling up to {size:,} utterances", len(sessions)) as step:
                for start in range(sessions.start, sessions.stop, 100):
                    with store.writing(key):
                        for number in range(start, min(start + 100, sessions.stop)):
                            self.fill_session(store, key, number)
                    step(min(100, sessions.stop - start))

    def fill_session(self, store: Any, key: int, number: int) -> None:
        self._at += GAP
        texts, passages = self._sessions[number % DIFFERENT]
        shelf, personas = store.shelf(key, "events"), store.personas(key)
        sources = []
        for place, text in enumerate(texts):
            at = self._at + timedelta(minutes=place)
            said = store.append(key, passages.speakers[place], text, at, self._config.memory.beta, self._clock)
            personas.mark_extracted(said.id)
            sources.append(said.id)
        self._at = said.at
        store.close_session(key)
        summary, topics = f"{texts[0]} {texts[1]}", tuple(sorted(set(passages.turns[0])))
        draft = Draft(summary, said.at, said.session, self._vectors(1)[0], topics, sources=tuple(sources))
        [record] = shelf.digest(said.session, [draft])
        shelf.set_passages({int(record.id[1:]): (passages.words_text, passages.vectors.stored)})
        if number % (UTTERANCES_A_TRAIT // SESSION) == 0:
            personas.add("Ann", f"I like {texts[0]} number {number}.", said.at, said.id, self._vectors(1)[0])
