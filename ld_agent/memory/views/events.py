"""LD-Agent's event memory M_L: one record a session, found by equations (1)–(3) or another named scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from ld_agent.errors import StoreError
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.long_term import LongTermIndex
from ld_agent.memory.passages import NO_PASSAGES, PackedVectors, Passages, passages_of
from ld_agent.memory.scoring import LOOKS_AT_PASSAGES, topic_overlap
from ld_agent.memory.views.base import Parts, Query
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import Steps
from ld_agent.storage.passages import store_passages, stored_vectors, stored_words, texts_and_sources
from ld_agent.types import Recalled, Record, Session

BATCH = 1000  # as many as the store streams at once
PASSAGES_AT_ONCE = 32  # records; what is made is kept, however soon the work is broken off


class EventView:
    """The long-term memory bank of one conversation.

    A session becomes one event: its summary o, the time t of its last utterance, φ(o) and the topic set V of session and
    summary together.
    """

    name = "events"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._looks_at_passages = parts.settings.scorer in LOOKS_AT_PASSAGES
        self._index = LongTermIndex(parts.encoder.dimension, self._vectors)
        self._index.reserve(parts.store.count_records(parts.key, self.name))

    @property
    def parts(self) -> Parts:
        """What this view was made from."""
        return self._parts

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        summaries = yield from self._parts.summarizer.steps(sessions)
        self.take_in(sessions, summaries)

    def take_in(self, sessions: Sequence[Session], summaries: Sequence[Summary]) -> None:
        """Store each session as one event, known by the summary given; of one number, several parts are several events."""
        parts = self._parts
        texts = ["\n".join([*(u.text for u in s.utterances), o.text]) for s, o in zip(sessions, summaries, strict=True)]
        topics = parts.topics.extract(texts)
        vectors = parts.encoder.encode([summary.text for summary in summaries])
        events: dict[int, list[tuple[Callable[[str], Record], Vectors]]] = {}
        for session, summary, own, vector in zip(sessions, summaries, topics, vectors, strict=True):
            events.setdefault(session.number, []).append((_event(session, summary, own), vector))
        for number, made in events.items():
            parts.store.digest(parts.key, self.name, number, made)

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._catch_up()
        settings = self._parts.settings
        hits = self._index.search(
            query.vector,
            query.topics,
            query.at.timestamp(),
            k=settings.k,
            gamma=settings.gamma,
            tau=settings.tau,
            scorer_name=settings.scorer,
            text=query.text,
        )
        records = self._parts.store.records(self._parts.key, [hit.key for hit in hits]) if hits else []
        if len(records) < len(hits):
            raise StoreError(f"{self._parts.store.path}: the conversation was deleted meanwhile; open it anew")
        shared = [tuple(sorted(set(query.topics) & set(record.topics))) for record in records]
        sizes = np.array([len(record.topics) for record in records], np.int32)
        s_top = topic_overlap(np.array(list(map(len, shared)), np.int32), len(query.topics), sizes).tolist()
        return [
            Recalled(record, hit.s_sem, overlap, hit.decay, hit.score, topics, hit.more)
            for record, hit, overlap, topics in zip(records, hits, s_top, shared, strict=True)
        ]

    def _catch_up(self) -> None:
        """Take in what was stored since the last look, by this process or another; encode what has no vector yet."""
        parts, index = self._parts, self._index
        while batch := list(islice(parts.store.index_rows(parts.key, self.name, index.last_key), BATCH)):
            bare = [row for row in batch if row.vector is None]
            fresh = dict(zip((r.key for r in bare), parts.encoder.encode([r.text for r in bare]), strict=True))
            if fresh:
                with parts.store.db.transaction():
                    for key, vector in fresh.items():
                        parts.store.set_vector("record", key, vector)
            passages = self._passages([row.key for row in batch]) if self._looks_at_passages else None
            for row in batch:
                vector = fresh[row.key] if row.vector is None else row.vector
                own = None if passages is None else passages.get(row.key, NO_PASSAGES)
                index.add(row.key, vector, row.at, row.topics, own)

    def _vectors(self, keys: Sequence[int]) -> dict[int, PackedVectors]:
        parts = self._parts
        stored = stored_vectors(parts.store, keys)
        return {key: PackedVectors.from_stored(blob, parts.encoder.dimension) for key, blob in stored.items()}

    def _passages(self, keys: Sequence[int]) -> dict[int, Passages]:
        """The passages of records; made of what was said and stored, where a record has none yet."""
        parts = self._parts
        found = {key: Passages.from_words(text) for key, text in stored_words(parts.store, keys).items()}
        missing = [key for key in keys if key not in found]
        for start in range(0, len(missing), PASSAGES_AT_ONCE):
            bare = texts_and_sources(parts.store, parts.key, missing[start : start + PASSAGES_AT_ONCE])
            made = passages_of([(text, said) for _, text, said in bare], parts.encoder)
            fresh = {key: own for (key, _, _), own in zip(bare, made, strict=True)}
            store_passages(parts.store, {key: (own.words_text, own.vectors.stored) for key, own in fresh.items()})
            found |= fresh
        return found


def _event(session: Session, summary: Summary, topics: tuple[str, ...]) -> Callable[[str], Record]:
    def make(record_id: str) -> Record:
        return Record(
            id=record_id,
            view=EventView.name,
            text=summary.text,
            at=session.utterances[-1].at,
            session=session.number,
            topics=topics,
            sources=tuple(u.id for u in session.utterances),
            fallback=summary.fallback,
        )

    return make
