"""LD-Agent's event memory M_L: one record a session, found by equations (1)–(3) or another named scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ld_agent.checks.changes import in_which_slips_are_right
from ld_agent.checks.kept import true_event
from ld_agent.config.sections import MemorySection
from ld_agent.memory.index.long_term import Search
from ld_agent.memory.index.records import RecordIndex, make_passages
from ld_agent.memory.scoring import scorer
from ld_agent.memory.views.base import Query, View, ViewContext
from ld_agent.memory.views.checks import dropped_in
from ld_agent.memory.views.stored import draft_of
from ld_agent.memory.when import dated
from ld_agent.modules.summarizer import Summary, noted
from ld_agent.steps import Steps
from ld_agent.storage.rows import Draft
from ld_agent.text import LONGEST_READ
from ld_agent.types import Recalled, Session, Utterance

MOST_READ = 2000
"""Utterances of a session whose nouns are looked for, evenly spread: a millisecond each, before the next reply."""


class EventView(View):
    """The long-term memory bank of one conversation.

    A session becomes one event: its summary o, the time t of its last utterance, φ(o) and the topic set V of session and
    summary together.
    """

    name = "events"
    bound = "k"

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._gamma = context.settings.least_cosine
        self._needs_passages = scorer(context.settings.scorer).needs_passages

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        ranked_by = scorer(settings.scorer)
        tau = "no decay" if settings.tau is None else f"τ = {settings.tau:g} s"
        rule = ranked_by.admission(settings.least_cosine, settings.gamma_talk)
        return f"overall = {ranked_by.formula}; recalled if {rule}; {tau}, k = {settings.k}"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Store what was true of each session: its summary, or people's own words where that says more than they did."""
        check, summarizer = self.context.check, self.context.summarizer
        quoted = [s.number for s in sessions if check is not None and check.verbatim and not noted(s)]
        written = yield from summarizer.steps([session for session in sessions if session.number not in quoted])
        summaries = iter(written)
        drafts = [Summary("") if session.number in quoted else next(summaries) for session in sessions]
        self.take_in(sessions, [self._true(draft, session) for draft, session in zip(drafts, sessions, strict=True)])

    def _true(self, summary: Summary, session: Session) -> Summary:
        context = self.context
        if context.check is None or noted(session):
            return summary
        check, reading = context.check, context.reading
        said = [(u.speaker, dated(u.text, u.local_at, reading)) for u in session.utterances]
        lines = in_which_slips_are_right(check, said, context.encoder.encode, reading)
        kept = true_event(check, lines, "" if summary.fallback else summary.text, context.agent, reading)
        return replace(summary, text=kept.text, dropped=kept.dropped)

    def take_in(self, sessions: Sequence[Session], summaries: Sequence[Summary]) -> None:
        """Store each session as one event with the given summary; several summaries of one session become several
        events."""
        context = self.context
        texts = [
            "\n".join([*(u.text[:LONGEST_READ] for u in _spread(s.utterances)), o.text])
            for s, o in zip(sessions, summaries, strict=True)
        ]
        topics = context.topics.extract(texts)
        vectors = context.encoder.encode([summary.text for summary in summaries])
        events: dict[int, list[Draft]] = {}
        for session, summary, topic_set, vector in zip(sessions, summaries, topics, vectors, strict=True):
            events.setdefault(session.number, []).append(
                draft_of(
                    session.utterances,
                    summary.text,
                    vector,
                    topics=topic_set,
                    fallback=summary.fallback,
                    details=dropped_in(summary.dropped),
                )
            )
        stored = [record for number, drafts in events.items() for record in self.shelf.digest(number, drafts)]
        if self._needs_passages:
            keys = self.shelf.without_passages(len(stored))
            make_passages(self.shelf, keys, context.encoder, context.reading)  # now, so that no reply waits for it

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        context, settings, passages = self.context, self.context.settings, self._needs_passages
        made_from = (self.shelf, context.encoder, context.reading)
        index = context.indexes.get(
            context.key,
            f"{self.name} with passages" if passages else self.name,
            lambda: RecordIndex(*made_from, passages=passages, progress=context.progress),
        )
        asked, rules = (query.text, query.vector, query.at), (query.topics, settings.tau, settings.scorer)
        return index.search(Search(*asked, settings.k, self._gamma, *rules, query.goes_on))


def _spread(utterances: Sequence[Utterance]) -> Sequence[Utterance]:
    """All utterances of a session or, of a very long one, evenly spread ones."""
    return utterances[:: (len(utterances) - 1) // MOST_READ + 1]
