"""Backfills views that were switched on later, or fell behind: stored sessions are taken in as if they had just ended.

Each batch of sessions is stored when it is done, so that a rebuild that is broken off goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ld_agent.agent import Agent
from ld_agent.errors import BackboneError
from ld_agent.memory.views import build_views
from ld_agent.steps import run
from ld_agent.storage.rows import StoredConversation

BATCH = 8  # sessions taken in at once: enough to batch the model's work, few enough to lose little


def missing(agent: Agent, conversation: StoredConversation) -> dict[str, int]:
    """How many finished sessions each enabled view has not taken in, by its name."""
    views = agent.config.memory.views
    return {name: len(agent.store.undigested(conversation.key, name)) for name in views}


def rebuild(agent: Agent, conversation: StoredConversation, taken: Callable[[str, int], None]) -> list[str]:
    """Let every enabled view take in the finished sessions of a conversation that it lacks, oldest first.

    Args:
        taken: called after each batch with the view's name and how many sessions it took in.

    Returns:
        what could not be done, in words; the sessions behind it wait.
    """
    problems: list[str] = []
    parts = replace(agent.parts(conversation.key, conversation.agent), waits=False)
    for view in build_views(agent.config.memory.views, parts):
        waiting = agent.store.undigested(conversation.key, view.name)
        left = len(waiting)
        for start in range(0, len(waiting), BATCH):
            try:
                run(view.digest(waiting[start : start + BATCH]), agent.models.complete)
            except BackboneError as exc:
                problems.append(f"conversation {conversation.id!r}, view {view.name!r}: {exc}")
            before, left = left, len(agent.store.undigested(conversation.key, view.name))
            taken(view.name, before - left)
            if left > max(len(waiting) - start - BATCH, 0):
                break  # what comes later may build on it
    return problems
