"""Memories of any size for the benches: random unit vectors, words by Zipf's law, always the same ones.

Sessions repeat after a while, each time with new vectors. Knows nothing of time being measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import PackedVectors, Passages
from ld_agent.storage.rows import Draft
from ld_agent.storage.store import Store

VOCABULARY = 20_000
WORDS_A_TURN = 10
DIFFERENT = 400
SESSIONS_A_TRAIT = 2
START = datetime(2000, 1, 1, tzinfo=UTC)
GAP = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Session:
    """What was said in a session, the topics of its event, and the event's passages."""

    texts: tuple[str, ...]
    topics: tuple[str, ...]
    passages: Passages


class RandomMemory:
    """A conversation of Ann and an agent.

    Args:
        dimension: of the encoder.
        turns, sentences: of a session and of its summary.
    """

    def __init__(self, dimension: int, agent: str = "Sam", turns: int = 10, sentences: int = 2) -> None:
        self._dimension, self._rng = dimension, np.random.default_rng(0)
        self._shape, self._speakers = (turns, sentences), ("Ann", agent) * (turns // 2)
        self._sessions = [self._session() for _ in range(DIFFERENT)]

    def vectors(self, count: int) -> Vectors:
        """(count, dimension) new random unit vectors."""
        vectors = self._rng.standard_normal((count, self._dimension)).astype(np.float32)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def session(self, number: int) -> Session:
        return self._sessions[number % DIFFERENT]

    def fill(self, store: Store, key: int, number: int, beta: float) -> datetime:
        """Store a session with its event and, now and then, a trait; return the time of its last utterance."""
        session, at = self.session(number), START + number * GAP
        shelf, personas = store.shelf(key, "events"), store.personas(key)
        sources = []
        for place, (speaker, text) in enumerate(zip(session.passages.speakers, session.texts, strict=True)):
            said = store.append(key, speaker, text, at + timedelta(minutes=place), beta, lambda: at)
            personas.mark_extracted(said.id)
            sources.append(said.id)
        store.close_session(key)
        text, vector = f"{session.texts[0]} {session.texts[1]}", self.vectors(1)[0]
        draft = Draft(text, said.at, said.session, vector, session.topics, sources=tuple(sources))
        [record] = shelf.digest(said.session, [draft])
        shelf.set_passages({int(record.id[1:]): (session.passages.words_text, session.passages.vectors.stored)})
        if number % SESSIONS_A_TRAIT == 0:
            trait = f"I like {session.texts[0]} number {number}."
            personas.add("Ann", trait, said.at, said.id, self.vectors(1)[0])
        return said.at

    def _session(self) -> Session:
        turns, sentences = self._shape
        said = tuple(self._words() for _ in range(turns))
        vectors = PackedVectors.of(self.vectors(turns + sentences))
        passages = Passages(self._speakers, said, said[:sentences], vectors)
        return Session(tuple(" ".join(turn) for turn in said), tuple(sorted(set(said[0]))), passages)

    def _words(self) -> tuple[str, ...]:
        return tuple(f"word{min(int(w), VOCABULARY)}" for w in self._rng.zipf(1.3, WORDS_A_TURN))
