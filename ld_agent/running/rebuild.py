"""Backfills views that were enabled later, fell behind or failed: stored sessions are digested as if they had just
ended.

Each batch of sessions is stored when complete, so that an interrupted rebuild resumes where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from ld_agent.agent import Agent
from ld_agent.errors import BackboneError
from ld_agent.learning import history
from ld_agent.memory.views import build_views
from ld_agent.memory.views.enabled import digested
from ld_agent.relation import Relation
from ld_agent.steps import answered, run
from ld_agent.storage.rows import TRAITS, StoredConversation

BATCH = 8  # sessions digested at once: enough to batch the model's work, few enough to lose little


def missing(agent: Agent, conversation: StoredConversation) -> dict[str, int]:
    """The number of finished sessions that each enabled view has not digested, by name."""
    views = agent.config.memory.views
    return {name: agent.store.shelf(conversation.key, name).lacking() for name in views}


def learn_history(agent: Agent, conversation: StoredConversation, learned: Callable[[int], None]) -> None:
    """Learn from imported history, oldest first, a small piece at a time; an interruption loses the current piece at most.

    Args:
        learned: called after each piece with the number of messages that are still to be learned from.
    """
    relation = _opened(agent, conversation)
    goes_on = True
    while goes_on:
        goes_on = _learn_piece(relation)
        learned(agent.store.to_learn(conversation.key))


def time_to_learn(agent: Agent, conversation: StoredConversation) -> timedelta:
    """About how long it takes to learn from imported history, as measured with its first piece, which is learned.

    Raises:
        LDAgentError: a model is missing or failed.
    """
    agent.warm_up()
    waiting, begun = agent.store.to_learn(conversation.key), time.monotonic()
    if not _learn_piece(_opened(agent, conversation)):
        raise BackboneError(next((f.error for f in agent.store.failures(conversation.key)), "nothing is left to learn"))
    seconds, left = time.monotonic() - begun, agent.store.to_learn(conversation.key)
    pieces = max(left / max(waiting - left, 1), *missing(agent, conversation).values())
    return timedelta(seconds=round(seconds * pieces))


def _opened(agent: Agent, conversation: StoredConversation) -> Relation:
    return agent.conversation(conversation.id, agent_name=conversation.agent, resume=False).relation


def _learn_piece(relation: Relation) -> bool:
    """Learn from a piece of imported history; see `ld_agent.learning.history`."""
    with relation.turnstile.entered(waits=True), relation.up_to_date():
        return run(history(relation), relation.complete)


def rebuild(
    agent: Agent,
    conversation: StoredConversation,
    taken: Callable[[str, int], None],
    learned: Callable[[int], None] = lambda left: None,
) -> list[str]:
    """Let every enabled view digest the finished sessions it lacks, oldest first.

    Work set aside after failures is retried.

    Args:
        taken: called after each batch with the view's name and how many sessions it digested.
        learned: see `learn_history`, which comes first.

    Returns:
        notes on what failed; later sessions stay pending.
    """
    problems: list[str] = []
    agent.store.retry(conversation.key)
    learn_history(agent, conversation, learned)
    context = replace(_opened(agent, conversation).context(), waits=False)
    for view in build_views(agent.config.memory.views, context):
        shelf = agent.store.shelf(conversation.key, view.name)
        waiting = shelf.undigested(backlog=True)
        left = len(waiting)
        for start in range(0, len(waiting), BATCH):
            try:
                run(answered(digested(view, waiting[start : start + BATCH], context)), agent.models.complete)
            except BackboneError as exc:
                problems.append(f"conversation {conversation.id!r}, view {view.name!r}: {exc}")
            before, left = left, shelf.lacking()
            taken(view.name, before - left)
            if left > max(len(waiting) - start - BATCH, 0):
                break  # later sessions may build on it
    agent.conversation(conversation.id, agent_name=conversation.agent)  # extract the traits that were set aside
    failures = agent.store.failures(conversation.key)
    return problems + [
        f"conversation {conversation.id!r}, {f.work} of {f.item}: {f.error}" for f in failures if f.work == TRAITS
    ]
