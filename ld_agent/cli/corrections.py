"""``ld-agent memory edit``, ``forget`` and ``pin``: correct what an agent believes, everywhere it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ld_agent.cli.opened import agent_on, the_only
from ld_agent.cli.options import MaybeConversation, OneConfig, Overrides, Store
from ld_agent.cli.show import say
from ld_agent.conversation import Conversation

Target = Annotated[
    str, typer.Argument(metavar="ID", help="Of a record (m3), a trait (t5) or an utterance (u7), as in `memory list`.")
]


def edit(
    target: Target,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is right.")],
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
) -> None:
    """Correct a record, trait or utterance, and everything else that says it.

    Example:

      ld-agent memory edit t3 "I live in Bath." --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.edit(target, text)
    say(f"corrected {target}, and everything else that said it")


def forget(
    target: Target,
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
) -> None:
    """Forget a record, trait or utterance, and everything else that says it, for good.

    Example:

      ld-agent memory forget t3 --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.forget(target)
    say(f"forgot {target}, and everything else that said it")


def pin(
    target: Target,
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    off: Annotated[bool, typer.Option("--off", help="Unpin it.")] = False,
    config: OneConfig = None,
) -> None:
    """Put a record or trait into every prompt; nothing supersedes a pinned trait.

    Example:

      ld-agent memory pin t3 --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.pin(target, not off)
    say(f"{'unpinned' if off else 'pinned'} {target}")


@contextmanager
def _opened(
    store: str, conversation: str | None, config: str | None, overrides: list[str] | None
) -> Iterator[Conversation]:
    """A conversation, or the only one of the store."""
    with agent_on(store, config, overrides) as agent:
        known = the_only(agent.resources.store, conversation)
        yield agent.conversation(known.id, agent_name=known.agent, resume=False)
