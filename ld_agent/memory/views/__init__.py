"""The memory mechanisms by name. One of the project is a file and its class here; anybody's own is ``package.module:Class``."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.config.named import named
from ld_agent.config.sections import MemorySection
from ld_agent.errors import ConfigError
from ld_agent.memory.views.base import Guidance, Query, View, ViewContext
from ld_agent.memory.views.conditional import ConditionalView
from ld_agent.memory.views.events import EventView
from ld_agent.memory.views.full import FullView, NoneView
from ld_agent.memory.views.golden import GoldenView
from ld_agent.memory.views.memochat import MemoChatView
from ld_agent.memory.views.memorybank import MemoryBankView
from ld_agent.memory.views.recursive import RecursiveView
from ld_agent.memory.views.summary import SummaryView
from ld_agent.memory.views.utterances import Bm25View, DenseView, HistoryView

__all__ = [
    "VIEWS",
    "Guidance",
    "Query",
    "View",
    "ViewContext",
    "build_views",
    "check_memory",
    "check_views",
    "view_class",
]

_CLASSES: tuple[type[View], ...] = (
    EventView,
    RecursiveView,
    ConditionalView,
    HistoryView,
    SummaryView,
    Bm25View,
    DenseView,
    FullView,
    NoneView,
    MemoryBankView,
    MemoChatView,
    GoldenView,
)
VIEWS: dict[str, type[View]] = {view.name: view for view in _CLASSES}


def view_class(name: str) -> type[View]:
    """The mechanism that ``memory.views`` names. From then on, `VIEWS` has it by the name of its records.

    Raises:
        ConfigError: there is none, or its records have the name of another mechanism's.
    """
    key, wanted = "memory.views", "a subclass of ld_agent.memory.views.View with a name"
    view = named(VIEWS, name, key=key, kinds="views", wanted=wanted, fits=_is_view)
    if VIEWS.setdefault(view.name, view) is not view:
        raise ConfigError(f"{key}={name!r} has the name of another view, {view.name!r}; give the class another `name`")
    return view


def _is_view(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, View) and isinstance(getattr(thing, "name", None), str)


def check_views(names: Sequence[str]) -> None:
    """Check names before anything heavy is loaded.

    Raises:
        ConfigError: a name is unknown, or the combination makes no sense.
    """
    for name, view in [(name, view_class(name)) for name in names]:
        if view.alone and len(names) > 1:
            others = ", ".join(other for other in names if other != name)
            raise ConfigError(
                f"memory.views combines {name!r}, which {view.alone}, with {others}; leave out {name!r} or the others"
            )


def check_memory(settings: MemorySection) -> None:
    """Check names as `check_views` does, and that each enabled view can recall anything.

    Raises:
        ConfigError: the bound of a view is 0, or as `check_views`.
    """
    check_views(settings.views)
    for view in map(view_class, settings.views):
        if view.most(settings) == 0:
            raise ConfigError(
                f"memory.{view.bound}=0 recalls nothing, but memory.views has {view.name}; set it to 1 or more, "
                "or memory.views=[none]"
            )


def build_views(names: Sequence[str], context: ViewContext) -> list[View]:
    """Make the named views of one conversation, in order."""
    check_views(names)
    return [view_class(name)(context) for name in names]
