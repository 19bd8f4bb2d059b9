"""The memory mechanisms by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ld_agent.errors import ConfigError
from ld_agent.memory.views.base import Parts, Query, View
from ld_agent.memory.views.events import EventView

__all__ = ["VIEWS", "Parts", "Query", "View", "build_views"]

VIEWS: dict[str, Callable[[Parts], View]] = {"events": EventView}


def check_views(names: Sequence[str]) -> None:
    """Check names before anything heavy is loaded.

    Raises:
        ConfigError: an unknown name; lists the known ones.
    """
    for name in names:
        if name not in VIEWS:
            raise ConfigError(f"memory.views names {name!r}, which is unknown; known views: {', '.join(VIEWS)}")


def build_views(names: Sequence[str], parts: Parts) -> list[View]:
    """Make the named views of one conversation, in order."""
    check_views(names)
    return [VIEWS[name](parts) for name in names]
