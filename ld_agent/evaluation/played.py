"""Tasks about what an agent remembers of whole conversations: each is played into its memory, then measured.

To add one, subclass `PlayedTask` and say what is measured. Knows no files of predictions and no metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets import Episode, load_episodes
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MEMORY, of_memory
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.running.replay import annotate, play
from ld_agent.steps import Steps, run_many

WIDTH = 4
"""Conversations played concurrently."""


class PlayedTask(Task):
    """Play the conversations of a file, one item each.

    Args:
        episodes: by id.
        references: of each item, by id.
        options: of the task, which affect its predictions.
    """

    def __init__(
        self, episodes: Mapping[str, Episode], references: Mapping[str, tuple[str, ...]], options: Mapping[str, Any]
    ) -> None:
        self._episodes, self.options = episodes, options
        self.items = [Item(e.id, e.id, e.turns[-1].session or 1, references[e.id]) for e in episodes.values()]

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        with in_memory(config) as agent:
            work = ((item, self.lived(agent, self._episodes[item.episode])) for item in items)
            for item, _ in run_many(work, agent.models.complete, WIDTH):
                episode = self._episodes[item.episode]
                conversation = agent.conversation(episode.id, agent_name=episode.agent)
                text, details = self.measured(agent, conversation, episode)
                yield item.predicted(text, details | {MEMORY: of_memory(agent.store, conversation.key)})

    def lived(self, agent: Agent, episode: Episode) -> Steps[None]:
        """Play a conversation."""
        return live(agent, episode)

    def measured(self, agent: Agent, conversation: Conversation, episode: Episode) -> tuple[str, dict[str, Any]]:
        """Return the prediction for a conversation that was played, and its details."""
        raise NotImplementedError


def spoken_episodes(data: Path, limit: int | None) -> dict[str, Episode]:
    """Return the conversations of a file in which somebody speaks, by id; at least one.

    Raises:
        InputError, DataFileError: the file is missing, a record is malformed, or nobody speaks.
    """
    episodes = {e.id: e for e in load_episodes(data, limit=limit) if e.turns}
    if not episodes:
        raise InputError(f"{data} has no conversation; give one that ld-agent run can play")
    return episodes


def in_memory(config: Config) -> Agent:
    """Create an agent whose store is not kept, and whose sessions stay open when it is closed."""
    return Agent(config.changed(memory={"close_on_exit": False}, store={"path": ":memory:"}))


def live(agent: Agent, episode: Episode) -> Steps[None]:
    """Store a recorded conversation in an agent's memory and end all its sessions.

    The agent generates replies only if a mechanism decides what to remember while replying.
    """
    if _decided_with_replies(agent.config):
        yield from play(agent, episode, lambda turn: None, teacher_forced=True)
        return
    conversation = agent.conversation(episode.id, agent_name=episode.agent)
    annotate(agent, conversation, episode)
    session = episode.turns[0].session
    for turn in episode.turns:
        if turn.session != session:
            yield from conversation.ending()
            session = turn.session
        conversation.observe(turn.text, turn.speaker, turn.at)
    yield from conversation.ending()


def _decided_with_replies(config: Config) -> bool:
    settings = config.memory.conditional
    return "conditional" in config.memory.views and settings.selection and settings.decision == "with_reply"
