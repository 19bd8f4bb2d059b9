"""The memory mechanisms by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ld_agent.errors import ConfigError
from ld_agent.memory.views.base import Explaining, Guidance, Guiding, Noting, Observing, Parts, Query, View
from ld_agent.memory.views.combine import Merged, merged, side_by_side
from ld_agent.memory.views.conditional import ConditionalView
from ld_agent.memory.views.events import EventView
from ld_agent.memory.views.full import FullView
from ld_agent.memory.views.history import HistoryView
from ld_agent.memory.views.memochat import MemoChatView
from ld_agent.memory.views.memorybank import MemoryBankView
from ld_agent.memory.views.none import NoneView
from ld_agent.memory.views.recursive import RecursiveView
from ld_agent.memory.views.summary import SummaryView
from ld_agent.memory.views.utterances import Bm25View, DenseView

__all__ = [
    "ALONE",
    "MODEL_FREE",
    "VIEWS",
    "Explaining",
    "Guidance",
    "Guiding",
    "Merged",
    "Noting",
    "Observing",
    "Parts",
    "Query",
    "View",
    "build_views",
    "check_views",
    "merged",
    "side_by_side",
]

VIEWS: dict[str, Callable[[Parts], View]] = {
    "events": EventView,
    "recursive": RecursiveView,
    "conditional": ConditionalView,
    "history": HistoryView,
    "summary": SummaryView,
    "bm25": Bm25View,
    "dense": DenseView,
    "full": FullView,
    "none": NoneView,
    "memorybank": MemoryBankView,
    "memochat": MemoChatView,
}


ALONE = {"none": "recalls nothing", "full": "recalls everything that was said"}
"""Views that make no sense beside others, and why."""
MODEL_FREE = frozenset(("history", "bm25", "dense", "full", "none"))
"""Views that take sessions in without asking a model, so that any number of them is caught up with at once."""


def check_views(names: Sequence[str]) -> None:
    """Check names before anything heavy is loaded.

    Raises:
        ConfigError: an unknown name, which lists the known ones, or a combination that makes no sense.
    """
    for name in names:
        if name not in VIEWS:
            raise ConfigError(f"memory.views names {name!r}, which is unknown; known views: {', '.join(VIEWS)}")
    for name, reason in ALONE.items():
        if name in names and len(names) > 1:
            others = ", ".join(other for other in names if other != name)
            raise ConfigError(
                f"memory.views combines {name!r}, which {reason}, with {others}; leave out {name!r} or the others"
            )


def build_views(names: Sequence[str], parts: Parts) -> list[View]:
    """Make the named views of one conversation, in order."""
    check_views(names)
    return [VIEWS[name](parts) for name in names]
