"""The enabled views of one conversation as one memory: all of them receive sessions and utterances, and their recalls
are merged.

Views run concurrently, so that their model requests form one batch. What they digest is pending work that may fail: no
failure prevents a conversation from opening or a turn from being answered. Knows no single mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.errors import BackboneError, LDAgentError, StoreError
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import PackedVectors, Passages
from ld_agent.memory.views import VIEWS, build_views
from ld_agent.memory.views.base import Guidance, Query, View, ViewContext
from ld_agent.modules.replies import is_stock_phrase
from ld_agent.steps import Steps, answered, side_by_side
from ld_agent.storage.rows import PATIENCE
from ld_agent.storage.store import Store
from ld_agent.text import words_of
from ld_agent.types import Recalled, Session, Utterance

BATCH = 8
"""Maximum number of sessions digested at once by a view that asks a model."""
FEW = 1
"""Number of imported sessions digested at once."""
FEWEST_SOURCES = 2
"""Maximum number of sources of a record that duplicates one made from a single one of them; more are a whole
session."""
NEAR = 0.8
"""Share of common words, in [0, 1], at which two texts count as duplicates."""


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

    Attributes:
        decides: the call that replies also decides if the utterance is worth remembering.

    Raises:
        ConfigError: an unknown view, or views that make no sense together.
    """

    def __init__(self, names: Sequence[str], context: ViewContext) -> None:
        self._context = context
        self.views: list[View] = build_views(names, context)
        self.decides = any(view.decides for view in self.views)
        self._history: dict[str, list[int]] = {}  # imported sessions that are still to be digested, by view

    def enable(self) -> list[str]:
        """Record that these views are enabled; return notes on sessions they lack and on unused records."""
        store, key = self._context.store, self._context.key
        notes = []
        for view in self.views:
            view.shelf.enable()
            if missing := view.shelf.backlog():
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

    def guidance(self, recalled: Sequence[Recalled], *, decides: bool) -> Guidance:
        """What the views add to the reply's prompt besides the recalled records; not for a decision if the reply has none."""
        each = [view.guidance(recalled) for view in self.views if decides or not view.decides]
        steps = "\n".join(guidance.steps for guidance in each if guidance.steps)
        return Guidance(steps, tuple(example for guidance in each for example in guidance.examples))

    def note_verdict(self, utterance: Utterance, worth: bool) -> None:
        """Store the decision of the generator's call about an utterance, for the views that asked for it."""
        for view in self.views:
            if view.decides:
                view.shelf.note_verdict(utterance.id, worth)

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
            numbers = self._history.get(view.name) or view.shelf.history()
            now, self._history[view.name] = numbers[:FEW], numbers[FEW:]
            if now:
                sessions = [Session(n, tuple(context.store.session_utterances(context.key, n))) for n in now]
                pieces.append(self._next_of_history(view, sessions))
        return pieces

    def _next_of_history(self, view: View, sessions: Sequence[Session]) -> Steps[list[str]]:
        try:
            return (yield from self._attempted(view, sessions))
        except BaseException:  # ended before its time: these sessions are still the next
            self._history.pop(view.name, None)
            raise

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
        notes: list[str] = []
        while not notes and (sessions := view.shelf.undigested(BATCH if view.asks_model else None)):
            notes = yield from self._attempted(view, sessions)
        return notes

    def _attempted(self, view: View, sessions: Sequence[Session]) -> Steps[list[str]]:
        context, shelf = self._context, view.shelf
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
        waiting = view.shelf.unobserved(session, context.agent)
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
            view.shelf.digest(session.number, [])
    if worth := [session for session in told if session.utterances]:
        yield from view.digest(worth)


def _as_told(session: Session, context: ViewContext) -> Session:
    """A session without stock phrases."""
    said = (u for u in session.utterances if not is_stock_phrase(u, context.agent, context.models.language))
    return replace(session, utterances=tuple(said))


def attempted(
    store: Store, key: int, work: str, items: Sequence[str], do: Callable[[Sequence[str]], Steps[None]], waiting: str
) -> Steps[list[str]]:
    """Do one kind of pending work on some items, oldest first.

    Items form one batch, except that an item that failed before is tried alone, so that a bad item does not delay the
    rest for long. A failure is counted against the oldest item of its batch; later items are left for another time.

    Args:
        items: utterance ids or session numbers, oldest first.
        do: the work, on some of the items.
        waiting: what the failed items are waiting for, in words ("to be summarized").

    Returns:
        notes on what failed; none if all went well.
    """
    failed_before = {failure.item for failure in store.failures(key) if failure.work == work} if items else set()
    start = 0
    while start < len(items):
        stop = start + 1
        while items[start] not in failed_before and stop < len(items) and items[stop] not in failed_before:
            stop += 1
        try:
            yield from answered(do(items[start:stop]))
        except Exception as exc:
            reason = str(exc) if isinstance(exc, LDAgentError) else f"{type(exc).__name__}: {exc}"
            with suppress(StoreError):  # whatever writes next reports a store that cannot be written
                if store.failed(key, work, items[start : start + 1], reason):
                    aside = f"{work}: {items[start]} failed {PATIENCE} times and was set aside"
                    return [f"{aside} ({reason}); `ld-agent memory rebuild` retries"]
            return [f"{work}: {len(items) - start} waiting {waiting}: {reason}"]
        start = stop
    return []


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged recall of several views, best first, and what did not fit."""

    recalled: tuple[Recalled, ...]
    over_budget: int = 0


def merged(by_view: Mapping[str, Sequence[Recalled]], budget: int | None, count: Callable[[str], int]) -> Merged:
    """Merge the recalls of several views into one list.

    Scores of different mechanisms are not comparable (a cosine, a BM25 sum, an overall score), so each is taken
    relative to the best of its view; ties follow the order of the views. Of two records of different views with the
    same source, or nearly the same text, the first is kept. Records beyond the budget are dropped from the end.

    Args:
        found: by view, best first. A single view is returned unchanged.
        budget: tokens of all texts together; None: no limit. The best record is always kept.
        count: tokens of a text.
    """
    if len(by_view) < 2:
        return Merged(tuple(recalled for recalls in by_view.values() for recalled in recalls))
    ranked = [
        (-relative, place, rank, recalled)
        for place, recalls in enumerate(by_view.values())
        for rank, (relative, recalled) in enumerate(zip(_relative(recalls), recalls, strict=True))
    ]
    ranked.sort(key=lambda entry: entry[:3])
    kept: list[Recalled] = []
    for *_, recalled in ranked:
        if not any(other.record.view != recalled.record.view and overlap(other, recalled) for other in kept):
            kept.append(recalled)
    if budget is None:
        return Merged(tuple(kept))
    used = 0
    for number, recalled in enumerate(kept):
        used += count(recalled.record.text)
        if used > budget and number > 0:
            return Merged(tuple(kept[:number]), len(kept) - number)
    return Merged(tuple(kept))


def overlap(one: Recalled, other: Recalled) -> bool:
    """Whether two records come from the same utterance or say nearly the same."""
    first, second = one.record, other.record
    fewer, more = sorted((len(first.sources), len(second.sources)))
    if fewer == 1 and more <= FEWEST_SOURCES and set(first.sources) & set(second.sources):
        return True
    words, others = set(words_of(first.text)), set(words_of(second.text))
    return bool(words and others) and len(words & others) >= NEAR * len(words | others)


def _relative(recalls: Sequence[Recalled]) -> list[float]:
    """Scores relative to the view's best, in its order: 1 for the first, non-increasing."""
    best = recalls[0].score if recalls else 0.0
    shares: list[float] = []
    for recalled in recalls:
        share = recalled.score / best if best > 0 else 1.0
        shares.append(min([share, *shares[-1:], 1.0]))
    return shares
