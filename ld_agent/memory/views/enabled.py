"""The enabled views of one conversation as one memory: all of them receive sessions and utterances, and their recalls
are merged.

Views run concurrently, so that their model requests form one batch. Knows no single mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.errors import BackboneError
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import PackedVectors, Passages
from ld_agent.memory.views import VIEWS, build_views
from ld_agent.memory.views.base import Guidance, Query, View, ViewContext
from ld_agent.memory.views.combine import merged
from ld_agent.modules.replies import is_stock_phrase
from ld_agent.running.pending import attempted
from ld_agent.steps import Steps, answered, side_by_side
from ld_agent.types import Recalled, Session, Utterance

BATCH = 8
"""Maximum number of sessions digested at once by a view that asks a model."""
FEW = 1
"""Number of imported sessions digested before somebody who waits for a reply is let in."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """The merged recall of the enabled views.

    Attributes:
        recalled: best first.
        notes: messages about what was left out or failed.
        explanations: by view, what explains its recall beyond the numbers.
    """

    recalled: tuple[Recalled, ...] = ()
    notes: tuple[str, ...] = ()
    explanations: Mapping[str, Any] = field(default_factory=dict)


class EnabledViews:
    """The enabled views of one conversation.

    Raises:
        ConfigError: an unknown view, or views that make no sense together.
    """

    def __init__(self, names: Sequence[str], context: ViewContext) -> None:
        self._context = context
        self.views: list[View] = build_views(names, context)
        self._history: dict[str, list[int]] = {}  # imported sessions that are still to be digested, by view

    @property
    def decides(self) -> bool:
        """Whether the call that replies also decides if the utterance is worth remembering."""
        return any(view.decides for view in self.views)

    @property
    def combined(self) -> bool:
        return len(self.views) > 1

    def enable(self) -> list[str]:
        """Record that these views are enabled; return notes on sessions they lack and on unused records."""
        store, key = self._context.store, self._context.key
        notes = []
        for view in self.views:
            shelf = self._context.shelf(view.name)
            shelf.enable()
            if missing := shelf.backlog():
                notes.append(
                    f"view {view.name!r} lacks {missing} sessions from before it was enabled; "
                    "run `ld-agent memory rebuild` to backfill them"
                )
        enabled = {view.name for view in self.views}
        unused = {n: c for n, c in store.record_counts(key).items() if n in VIEWS and n not in enabled}
        if unused:
            listed = ", ".join(f"{count} of {name}" for name, count in unused.items())
            notes.append(f"records of views that memory.views does not name are kept and not used: {listed}")
        return notes

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """What the views add to the reply's prompt besides the recalled records."""
        each = [view.guidance(recalled) for view in self.views]
        steps = "\n".join(guidance.steps for guidance in each if guidance.steps)
        return Guidance(steps, tuple(example for guidance in each for example in guidance.examples))

    def note_verdict(self, utterance: Utterance, worth: bool) -> None:
        """Store the decision of the generator's call about an utterance, for the views that asked for it."""
        for view in self.views:
            if view.decides:
                self._context.shelf(view.name).note_verdict(utterance.id, worth)

    def pending(self, running: Sequence[int], unanswered: frozenset[str]) -> list[Steps[list[str]]]:
        """The views' pending work, as pieces that may run concurrently; each returns notes on failures.

        Closed sessions are digested oldest first.

        Args:
            running: numbers of the running sessions, for views that observe.
            unanswered: ids of utterances that must not be observed yet.
        """
        return [self._digested(view) for view in self.views] + [
            self._observed(view, session, unanswered) for view in self.views if view.observes for session in running
        ]

    def history(self) -> list[Steps[list[str]]]:
        """Pieces that digest the next imported sessions, in order of time; none for views that have digested all.

        A view whose records replace each other takes in none that is older than its last.
        """
        context, pieces = self._context, []
        for view in self.views:
            numbers = self._history.get(view.name) or context.shelf(view.name).history()
            now, self._history[view.name] = numbers[:FEW], numbers[FEW:]
            if now:
                sessions = [Session(n, tuple(context.store.session_utterances(context.key, n))) for n in now]
                pieces.append(self._attempted(view, sessions))
        return pieces

    def recall(self, query: Query, *, within_budget: bool = True) -> Steps[Remembered]:
        """What all views recall, as one list; a view whose model fails recalls nothing, and that is noted."""
        context = self._context
        answers = yield from side_by_side([self._recalled(view, query) for view in self.views])
        by_view = {view.name: recalled for view, (recalled, _) in zip(self.views, answers, strict=True)}
        notes = [problem for _, problem in answers if problem]
        notes += [note for view in self.views for note in view.notes]
        budget = context.settings.budget if within_budget else None
        all_views = merged(
            by_view, budget, lambda text: context.models.count_tokens("generator", [Message("user", text)])
        )
        if all_views.over_budget:
            notes.append(f"{all_views.over_budget} memories did not fit memory.budget={budget}")
        explanations = {view.name: dict(view.explanation) for view in self.views if view.explanation}
        return Remembered(all_views.recalled, tuple(notes), explanations)

    def said_vectors(self, recalled: Sequence[Recalled]) -> dict[str, Vectors]:
        """By id, the vectors of utterances behind recalled records, as far as they are stored among the records'
        passages."""
        context, vectors = self._context, dict[str, Vectors]()
        sources = {each.record.id: each.record.sources for each in recalled}
        for record, (words, blob) in context.store.passages_by_id(context.key, list(sources)).items():
            turns = len(Passages.from_words(words).speakers)
            packed = PackedVectors.from_stored(blob, context.encoder.dimension)
            if len(sources[record]) == turns <= len(packed):
                vectors |= dict(zip(sources[record], packed.unpacked, strict=False))
        return vectors

    def with_pinned(self, recalled: Sequence[Recalled], at: datetime) -> tuple[Recalled, ...]:
        """Pinned records of these views first, whatever the query, then what was recalled; nothing younger than ``at``."""
        known = {each.record.id for each in recalled}
        names = {view.name for view in self.views}
        pinned = [
            Recalled(record, 0.0, 0.0, 1.0, 0.0)
            for record in self._context.store.pinned(self._context.key)
            if record.id not in known and record.view in names and record.at <= at
        ]
        return (*pinned, *recalled)

    def _digested(self, view: View) -> Steps[list[str]]:
        """Digest what is due, a batch at a time, so that an interruption loses little; a failure leaves the rest for
        later."""
        shelf = self._context.shelf(view.name)
        notes: list[str] = []
        while not notes and (sessions := shelf.undigested(BATCH if view.asks_model else None)):
            notes = yield from self._attempted(view, sessions)
        return notes

    def _attempted(self, view: View, sessions: Sequence[Session]) -> Steps[list[str]]:
        context, shelf = self._context, self._context.shelf(view.name)
        by_number = {str(session.number): session for session in sessions}

        def digest(items: Sequence[str]) -> Steps[None]:
            latest = shelf.newest() if view.rewrites else None
            late = [by_number[i] for i in items if latest and _earlier(by_number[i], latest[0].at)]
            for session in late:
                shelf.digest(session.number, [])
            return digested(view, [by_number[item] for item in items if by_number[item] not in late], context)

        items = list(by_number)
        return attempted(context.store, context.key, view.name, items, digest, "to be summarized")

    def _observed(self, view: View, session: int, unanswered: frozenset[str]) -> Steps[list[str]]:
        context = self._context
        waiting = context.shelf(view.name).unobserved(session, context.agent)
        by_id = {u.id: u for u in waiting if u.id not in unanswered}

        def observe(items: Sequence[str]) -> Steps[None]:
            return view.observe(_as_told(Session(session, tuple(by_id[item] for item in items)), context))

        return (yield from attempted(context.store, context.key, view.name, list(by_id), observe, "to be remembered"))

    def _recalled(self, view: View, query: Query) -> Steps[tuple[list[Recalled], str]]:
        try:
            recalled = yield from answered(view.recall(query))
        except BackboneError as exc:
            return [], f"view {view.name!r} could not recall: {exc}"
        return recalled, ""


def _earlier(session: Session, at: datetime) -> bool:
    """Whether a session is imported, and ended before a time."""
    return bool(session.utterances) and session.utterances[-1].channel == "import" and session.utterances[-1].at < at


def digested(view: View, sessions: Sequence[Session], context: ViewContext) -> Steps[None]:
    """Let a view digest closed sessions as they were told; one in which nobody told anything leaves no record.

    Raises:
        BackboneError: the model failed; undigested sessions stay pending.
    """
    told = [_as_told(session, context) for session in sessions]
    for session in told:
        if not session.utterances:
            context.shelf(view.name).digest(session.number, [])
    if worth := [session for session in told if session.utterances]:
        yield from view.digest(worth)


def _as_told(session: Session, context: ViewContext) -> Session:
    """A session without stock phrases."""
    said = (u for u in session.utterances if not is_stock_phrase(u, context.agent, context.models.language))
    return replace(session, utterances=tuple(said))
