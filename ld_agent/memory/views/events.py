"""LD-Agent's event memory M_L: one record a session, found by equations (1)–(3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from ld_agent.errors import StoreError
from ld_agent.memory.long_term import LongTermIndex
from ld_agent.memory.views.base import Parts, Query
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Record, Session

BATCH = 1000  # as many as the store streams at once


class EventView:
    """The long-term memory bank of one conversation.

    A session becomes one event: its summary o, the time t of its last utterance, φ(o) and the topic set V of session and
    summary together.
    """

    name = "events"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._index = LongTermIndex(parts.encoder.dimension)
        self._index.reserve(parts.store.count_records(parts.key, self.name))

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        parts = self._parts
        summaries = yield from parts.summarizer.steps(sessions)
        texts = ["\n".join([*(u.text for u in s.utterances), o.text]) for s, o in zip(sessions, summaries, strict=True)]
        topics = parts.topics.extract(texts)
        vectors = parts.encoder.encode([summary.text for summary in summaries])
        for session, summary, own, vector in zip(sessions, summaries, topics, vectors, strict=True):
            parts.store.digest(parts.key, self.name, session.number, [(_event(session, summary, own), vector)])

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
        )
        records = self._parts.store.records(self._parts.key, [hit.key for hit in hits]) if hits else []
        if len(records) < len(hits):
            raise StoreError(f"{self._parts.store.path}: the conversation was deleted meanwhile; open it anew")
        return [
            Recalled(r, h.s_sem, h.s_top, h.decay, h.score, tuple(sorted(set(query.topics) & set(r.topics))))
            for r, h in zip(records, hits, strict=True)
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
            for row in batch:
                index.add(row.key, fresh[row.key] if row.vector is None else row.vector, row.at, row.topics)


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
