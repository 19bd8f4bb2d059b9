"""What the agent does, told to whoever watches: replies, and what is searched, created, updated and deleted in memory.

Nobody watches unless `watched_by` was called. Knows no tracing library; `ld_agent.server.traces` makes spans of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

Text = tuple[str, str]
"""An id, and what is written there."""


@dataclass(slots=True)
class Operation:
    """One operation; what it turns out to be is filled in until it ends.

    Attributes:
        name: ``search_memory``, ``create_memory``, ``update_memory``, ``delete_memory`` or ``invoke_agent``.
        conversation: its id.
        store: the view whose records it is about, or ``personas``; "": none, or all.
        records: what was found or changed; None: it is not about records.
        count: how many; None: as many as ``records``.
        query: what was searched for.
        model, agent: who replies.
        tokens: of prompts and of completions.
        said: what was heard and replied.
    """

    name: str
    conversation: str
    store: str = ""
    records: tuple[Text, ...] | None = None
    count: int | None = None
    query: str = ""
    model: str = ""
    agent: str = ""
    tokens: tuple[int, int] | None = None
    said: tuple[str, str] | None = None


Watcher = Callable[[Operation], AbstractContextManager[None]]
"""Entered when an operation begins, and left when it ends, perhaps in another thread."""
_watchers: list[Watcher] = []


def watched_by(watcher: Watcher) -> Callable[[], None]:
    """Tell a watcher of every operation of this process; returns what ends that."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


@contextmanager
def operation(name: str, conversation: str | Callable[[], str], store: str = "") -> Iterator[Operation]:
    """What is done inside is an operation.

    Args:
        conversation: its id, or what looks it up, which is asked only if somebody watches.
    """
    if not _watchers:
        yield Operation(name, "", store)
        return
    begun = Operation(name, conversation if isinstance(conversation, str) else conversation(), store)
    with _told(list(_watchers), begun):
        yield begun


@contextmanager
def _told(watchers: list[Watcher], begun: Operation) -> Iterator[None]:
    if not watchers:
        yield
        return
    with watchers[0](begun), _told(watchers[1:], begun):
        yield
