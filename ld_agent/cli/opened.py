"""What commands on a store share: an agent on it, the conversations that are meant, and the user's consent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import typer

from ld_agent.config import Config, load_config
from ld_agent.errors import InputError
from ld_agent.storage.exchange import found_conversation
from ld_agent.storage.opening import existing_store

if TYPE_CHECKING:
    from ld_agent.agent import Agent
    from ld_agent.storage.rows import StoredConversation
    from ld_agent.storage.store import Store


def agent_on(store: str, config: str | None, overrides: list[str] | None) -> AbstractContextManager[Agent]:
    """`agent_of` a config on an existing store."""
    existing_store(store).close()
    return agent_of(load_config(config, overrides or []).changed(store={"path": store}))


@contextmanager
def agent_of(config: Config, *, background: bool = False) -> Iterator[Agent]:
    """An agent; leaving it ends no session."""
    from ld_agent.agent import Agent

    agent = Agent(config, background=background)
    try:
        yield agent
    finally:
        agent.close(end_sessions=False)


def chosen(store: Store, conversation: str | None) -> Sequence[StoredConversation]:
    """The named conversation, or all of a store."""
    return [found_conversation(store, conversation)] if conversation else store.conversations()


def the_only(store: Store, conversation: str | None) -> StoredConversation:
    """The named conversation, or the only one of a store; otherwise an error lists them."""
    known = chosen(store, conversation)
    if len(known) != 1:
        names = ", ".join(one.id for one in known[:9]) or "none"
        raise InputError(f"the store has {len(known)} conversations ({names}); name one with --conversation")
    return known[0]


def confirmed(yes: bool, question: str, otherwise: str) -> None:
    """Go on only if the user agrees; otherwise an error says what happened instead."""
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        raise InputError(f"{otherwise}, because there is no terminal to ask on; give --yes to go on without asking")
    if not yes and not typer.confirm(question, err=True):
        raise InputError(otherwise)
