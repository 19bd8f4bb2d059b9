"""Reports what the agent does to watchers: replies, and memory searched, created, updated and deleted.

There are no watchers until `watched_by` is called. Knows no tracing library; `ld_agent.server.traces` turns operations
into spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

Text = tuple[str, str]
"""An id and its text."""


@dataclass(slots=True)
class Operation:
    """One operation; its details are filled in until it ends.

    Attributes:
        name: ``search_memory``, ``create_memory``, ``update_memory``, ``delete_memory`` or ``invoke_agent``.
        conversation: its id.
        store: the view whose records it concerns, or ``personas``; "": none, or all.
        records: the records found or changed; None: it does not concern records.
        count: how many; None: as many as ``records``.
        query: the text searched for.
        model, agent: who replies.
        provider: the kind of backbone that generates the reply.
        tokens: of prompts and of completions.
        said: the utterance and the reply.
    """

    name: str
    conversation: str
    store: str = ""
    records: tuple[Text, ...] | None = None
    count: int | None = None
    query: str = ""
    model: str = ""
    agent: str = ""
    provider: str = ""
    tokens: tuple[int, int] | None = None
    said: tuple[str, str] | None = None


Watcher = Callable[[Operation], AbstractContextManager[None]]
"""Entered when an operation begins, and left when it ends, perhaps in another thread."""
_watchers: list[Watcher] = []


def watched_by(watcher: Watcher) -> Callable[[], None]:
    """Report every operation of this process to a watcher; return a function that stops it."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


@contextmanager
def operation(name: str, conversation: str | Callable[[], str], store: str = "") -> Iterator[Operation]:
    """Treat the block as an operation.

    Args:
        conversation: its id, or a function that looks it up, called only if there is a watcher.
    """
    if not _watchers:
        yield Operation(name, "", store)
        return
    begun = Operation(name, conversation if isinstance(conversation, str) else conversation(), store)
    with _notified(list(_watchers), begun):
        yield begun


@contextmanager
def _notified(watchers: list[Watcher], begun: Operation) -> Iterator[None]:
    if not watchers:
        yield
        return
    with watchers[0](begun), _notified(watchers[1:], begun):
        yield
