"""LD-Agent's event memory M_L: one record a session, found by equations (1)–(3) or another named scorer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from ld_agent.config import MemorySection
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.long_term import LongTermIndex
from ld_agent.memory.passages import NO_PASSAGES, PackedVectors, Passages, passages_of
from ld_agent.memory.scoring import FORMULAS, LOOKS_AT_PASSAGES, topic_overlap
from ld_agent.memory.views.base import Query, View, ViewContext
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import Steps
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Session

BATCH = 1000  # as many as the store streams at once
PASSAGES_AT_ONCE = 32  # records; what is made is kept, however soon the work is broken off


class EventView(View):
    """The long-term memory bank of one conversation.

    A session becomes one event: its summary o, the time t of its last utterance, φ(o) and the topic set V of session and
    summary together.
    """

    name = "events"

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._looks_at_passages = context.settings.scorer in LOOKS_AT_PASSAGES
        self._index = LongTermIndex(context.encoder.dimension, self._vectors)
        self._index.reserve(self._shelf.count())

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        tau = "no decay" if settings.tau is None else f"τ = {settings.tau:g} s"
        return f"overall = {FORMULAS[settings.scorer]}, s_sem > γ = {settings.gamma:g}, {tau}, k = {settings.k}"

    @property
    def context(self) -> ViewContext:
        """What this view was made from."""
        return self._context

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        summaries = yield from self._context.summarizer.steps(sessions)
        self.take_in(sessions, summaries)

    def take_in(self, sessions: Sequence[Session], summaries: Sequence[Summary]) -> None:
        """Store each session as one event, known by the summary given; of one number, several parts are several events."""
        context = self._context
        texts = ["\n".join([*(u.text for u in s.utterances), o.text]) for s, o in zip(sessions, summaries, strict=True)]
        topics = context.topics.extract(texts)
        vectors = context.encoder.encode([summary.text for summary in summaries])
        events: dict[int, list[Draft]] = {}
        for session, summary, topic_set, vector in zip(sessions, summaries, topics, vectors, strict=True):
            events.setdefault(session.number, []).append(_event(session, summary, topic_set, vector))
        for number, drafts in events.items():
            self._shelf.digest(number, drafts)

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._catch_up()
        settings = self._context.settings
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
        records = self._shelf.records([hit.key for hit in hits]) if hits else []
        shared = [tuple(sorted(set(query.topics) & set(record.topics))) for record in records]
        sizes = np.array([len(record.topics) for record in records], np.int32)
        s_top = topic_overlap(np.array(list(map(len, shared)), np.int32), len(query.topics), sizes).tolist()
        return [
            Recalled(record, hit.s_sem, overlap, hit.decay, hit.score, topics, hit.more)
            for record, hit, overlap, topics in zip(records, hits, s_top, shared, strict=True)
        ]

    def _catch_up(self) -> None:
        """Take in what was stored since the last look, by this process or another; encode what has no vector yet."""
        context, index = self._context, self._index
        while batch := list(islice(self._shelf.rows_after(index.last_key), BATCH)):
            bare = [row for row in batch if row.vector is None]
            fresh = dict(zip((r.key for r in bare), context.encoder.encode([r.text for r in bare]), strict=True))
            if fresh:
                self._shelf.set_vectors(fresh)
            passages = self._passages([row.key for row in batch]) if self._looks_at_passages else None
            for row in batch:
                vector = fresh[row.key] if row.vector is None else row.vector
                own = None if passages is None else passages.get(row.key, NO_PASSAGES)
                index.add(row.key, vector, row.at, row.topics, own)

    def _vectors(self, keys: Sequence[int]) -> dict[int, PackedVectors]:
        context = self._context
        stored = self._shelf.passage_vectors(keys)
        return {key: PackedVectors.from_stored(blob, context.encoder.dimension) for key, blob in stored.items()}

    def _passages(self, keys: Sequence[int]) -> dict[int, Passages]:
        """The passages of records; made of what was said and stored, where a record has none yet."""
        context = self._context
        found = {key: Passages.from_words(text) for key, text in self._shelf.passage_words(keys).items()}
        missing = [key for key in keys if key not in found]
        for start in range(0, len(missing), PASSAGES_AT_ONCE):
            bare = self._shelf.with_sources(missing[start : start + PASSAGES_AT_ONCE])
            made = passages_of([(text, said) for _, text, said in bare], context.encoder)
            fresh = {key: own for (key, _, _), own in zip(bare, made, strict=True)}
            self._shelf.set_passages({key: (own.words_text, own.vectors.stored) for key, own in fresh.items()})
            found |= fresh
        return found


def _event(session: Session, summary: Summary, topics: tuple[str, ...], vector: Vectors) -> Draft:
    return Draft(
        text=summary.text,
        at=session.utterances[-1].at,
        session=session.number,
        vector=vector,
        topics=topics,
        sources=tuple(u.id for u in session.utterances),
        fallback=summary.fallback,
    )
