"""The enabled views of one conversation as one memory: sessions and utterances go to all of them, their recalls become one.

Views work side by side, so that what they ask a model at one time is one batch. Knows no single mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.errors import BackboneError
from ld_agent.memory.views import MODEL_FREE, VIEWS, build_views
from ld_agent.memory.views.base import Explaining, Guidance, Guiding, Noting, Observing, Parts, Query, View
from ld_agent.memory.views.combine import merged, side_by_side
from ld_agent.steps import Steps
from ld_agent.storage.observed import digested_views, record_counts
from ld_agent.types import Recalled, Session

CATCH_UP = 3
"""Most sessions from before a view was switched on that a turn takes in by itself; more are `ld-agent memory rebuild`'s."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the enabled views recalled.

    Attributes:
        recalled: best first.
        notes: what was left out or failed, in words.
        explanations: by view, what it has to tell beyond the numbers.
    """

    recalled: tuple[Recalled, ...] = ()
    notes: tuple[str, ...] = ()
    explanations: Mapping[str, Any] = field(default_factory=dict)


class Together:
    """The enabled views of one conversation.

    Raises:
        ConfigError: an unknown view, or views that make no sense together.
    """

    def __init__(self, names: Sequence[str], parts: Parts) -> None:
        self._parts = parts
        self.views: list[View] = build_views(names, parts)
        self._observing = [view for view in self.views if isinstance(view, Observing)]
        self._told: set[str] = set()

    @property
    def observes(self) -> bool:
        """Whether some view takes utterances in."""
        return bool(self._observing)

    @property
    def decides(self) -> bool:
        """Whether the reply's call shall also decide if the utterance is worth remembering."""
        return any(view.decides for view in self._observing)

    @property
    def combined(self) -> bool:
        return len(self.views) > 1

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """What the views want said in the reply's prompt beside what was recalled."""
        own = [view.guidance(recalled) for view in self.views if isinstance(view, Guiding)]
        steps = "\n".join(guidance.steps for guidance in own if guidance.steps)
        return Guidance(steps, tuple(example for guidance in own for example in guidance.examples))

    def digest(self) -> Steps[list[str]]:
        """Let every view take in the closed sessions it has not seen; returns notes on what could not be done."""
        parts = self._parts
        waiting = {view.name: parts.store.undigested(parts.key, view.name) for view in self.views}
        if not any(waiting.values()):
            return []
        digested = digested_views(parts.store, parts.key)
        notes: list[str] = []
        for name, sessions in waiting.items():
            others = set().union(*(numbers for other, numbers in digested.items() if other != name))
            missed = [session for session in sessions if session.number in others]
            if name not in MODEL_FREE and len(missed) > CATCH_UP:
                waiting[name] = [session for session in sessions if session.number not in others]
                notes += self._once(
                    f"view {name!r} lacks {len(missed)} sessions from before it was switched on; "
                    "`ld-agent memory rebuild` takes them in"
                )
        work = [self._digested(view, waiting[view.name]) for view in self.views if waiting[view.name]]
        failed = yield from side_by_side(work)
        return [*notes, *(note for note in failed if note)]

    def observe(self, session: Session, verdicts: Mapping[str, bool]) -> Steps[list[str]]:
        """Let the views that observe take in what was said in the running session; returns notes as `digest`."""
        notes = yield from side_by_side([self._observed(view, session, verdicts) for view in self._observing])
        return [note for note in notes if note]

    def recall(self, query: Query, *, within_budget: bool = True) -> Steps[Remembered]:
        """What all views recall, as one list; a view whose model fails recalls nothing, and that is noted."""
        parts = self._parts
        answers = yield from side_by_side([_recalled(view, query) for view in self.views])
        found = {view.name: own for view, (own, _) in zip(self.views, answers, strict=True)}
        notes = [problem for _, problem in answers if problem]
        for view in self.views:
            if isinstance(view, Noting):
                notes += view.notes
        budget = parts.settings.budget if within_budget else None
        together = merged(found, budget, lambda text: parts.models.count_tokens("generator", [Message("user", text)]))
        if together.over_budget:
            notes.append(f"{together.over_budget} memories did not fit memory.budget={budget}")
        explanations = {
            view.name: dict(view.explanation)
            for view in self.views
            if isinstance(view, Explaining) and view.explanation
        }
        return Remembered(together.recalled, tuple(notes), explanations)

    def ignored(self) -> list[str]:
        """A note on records of views that are not enabled; said once."""
        enabled = {view.name for view in self.views}
        counts = record_counts(self._parts.store, self._parts.key)
        unused = {name: count for name, count in counts.items() if name in VIEWS and name not in enabled}
        if not unused:
            return []
        listed = ", ".join(f"{count} of {name}" for name, count in unused.items())
        return self._once(f"records of views that memory.views does not name are kept and not used: {listed}")

    def _once(self, note: str) -> list[str]:
        if note in self._told:
            return []
        self._told.add(note)
        return [note]

    def _digested(self, view: View, sessions: Sequence[Session]) -> Steps[str]:
        try:
            yield from view.digest(sessions)
        except BackboneError as exc:
            return f"a finished session waits to be summarised: {exc}"
        return ""

    def _observed(self, view: Observing, session: Session, verdicts: Mapping[str, bool]) -> Steps[str]:
        try:
            yield from view.observe(session, verdicts)
        except BackboneError as exc:
            return f"what was said waits to be remembered: {exc}"
        return ""


def _recalled(view: View, query: Query) -> Steps[tuple[list[Recalled], str]]:
    try:
        found = yield from view.recall(query)
    except BackboneError as exc:
        return [], f"view {view.name!r} could not recall: {exc}"
    return found, ""
