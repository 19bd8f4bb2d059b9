"""``ld-agent memory rebuild`` and ``reindex``: backfill views, change the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from ld_agent.cli.memory import agent_on, chosen, existing
from ld_agent.cli.options import MaybeConversation, OneConfig, Overrides, Store

if TYPE_CHECKING:
    from ld_agent.agent import Agent
    from ld_agent.storage.base import StoredConversation


def register(app: typer.Typer) -> None:
    """Add the commands to ``ld-agent memory``."""
    app.command()(rebuild)
    app.command()(reindex)


def rebuild(
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
) -> None:
    """Backfill the configured views with the stored sessions they lack; interrupted rebuilds resume.

    Example:

      ld-agent memory rebuild --store me.db -c recursive
    """
    from ld_agent.cli.show import say
    from ld_agent.errors import BackboneError

    with agent_on(store, config, overrides) as agent:
        count, total, problems = _backfilled(agent, chosen(agent, conversation))
    for problem in problems:
        say(problem)
    say(f"backfilled {count} of {total} missing sessions for {', '.join(agent.config.memory.views)}")
    if problems:
        raise BackboneError(f"{total - count} sessions are still pending; run the same command again")


def _backfilled(agent: Agent, conversations: Sequence[StoredConversation]) -> tuple[int, int, list[str]]:
    """Backfill the views of conversations; how many sessions were taken in, of how many, and what failed."""
    from ld_agent.cli.show import say
    from ld_agent.running.rebuild import missing
    from ld_agent.running.rebuild import rebuild as rebuild_views
    from ld_agent.terminal import LongWork, bars

    lacking = {c.id: missing(agent, c) for c in conversations}
    total = sum(sum(views.values()) for views in lacking.values())
    count, problems = 0, list[str]()
    with bars() as progress:
        agent.resources.progress = LongWork(progress)
        task = progress.add_task("digesting sessions", total=total)

        def taken(view: str, sessions: int) -> None:
            nonlocal count
            count += sessions
            progress.update(task, completed=count, description=f"digesting sessions: {view}")

        try:
            for one in conversations:
                if sum(lacking[one.id].values()):
                    problems += rebuild_views(agent, one, taken)
        except KeyboardInterrupt:
            say(f"interrupted after {count} of {total} sessions; run the same command again to resume")
            raise
    return count, total, problems


def reindex(store: Store, overrides: Overrides = None, config: OneConfig = None) -> None:
    """Re-encode everything with the configured encoder.

    Example:

      ld-agent memory reindex --store me.db encoder.model=sentence-transformers/all-mpnet-base-v2
    """
    from ld_agent.cli.show import say
    from ld_agent.config import load_config
    from ld_agent.memory.encoder import configured
    from ld_agent.memory.reindex import reindex as reindex_store
    from ld_agent.terminal import bars

    opened = existing(store)
    settings = load_config(config, overrides or []).encoder
    encoder = configured(settings)
    with bars() as progress:
        task = progress.add_task("encoding", total=None)
        count = reindex_store(opened, encoder, lambda done, total: progress.update(task, completed=done, total=total))
    say(f"encoded {count} records and traits with {encoder.name}")
