"""Tasks about what an agent remembers of whole conversations: each is played into its memory, then measured, or asked about.

To add one, subclass `PlayedTask` and say what is measured, or `AskedTask` and ask. Knows no files of predictions and no metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets import Episode
from ld_agent.evaluation.fallbacks import MEMORY, REPLY, of_memory, of_reply
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.evaluation.tasks.question_data import Question, Questioned
from ld_agent.running.replay import annotate, play
from ld_agent.steps import Steps, run_many
from ld_agent.storage.exchange import copy_conversation
from ld_agent.types import Reply

Answered = tuple[Reply, Mapping[str, Any]]
"""A reply, and the details of its prediction."""

WIDTH = 16
"""Conversations played, or questions asked, concurrently; their pending requests form one batch of the backbone."""


class PlayedTask(Task):
    """Play the conversations of a file, one item each.

    Args:
        episodes: by id.
        references: of each item, by id.
    """

    def __init__(self, episodes: Mapping[str, Episode], references: Mapping[str, tuple[str, ...]]) -> None:
        self._episodes = episodes
        self.items = [Item(e.id, e.id, e.turns[-1].session or 1, references[e.id]) for e in episodes.values()]

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        todo: dict[str, list[Item]] = {}
        for item in items:
            todo.setdefault(item.episode, []).append(item)
        with in_memory(config) as agent:
            work = ((name, self.lived(agent, self._episodes[name], todo[name])) for name in todo)
            for name, _ in run_many(work, agent.models.complete, WIDTH):
                conversation = agent.conversation(name, agent_name=self._episodes[name].agent)
                memory = {MEMORY: of_memory(agent.store, conversation.key)}
                yield from self.predicted(agent, conversation, todo[name], memory)
                conversation.delete()

    def lived(self, agent: Agent, episode: Episode, items: Sequence[Item]) -> Steps[None]:
        """Play a conversation for the predictions to make."""
        return live(agent, episode)

    def predicted(
        self, agent: Agent, conversation: Conversation, items: Sequence[Item], details: Mapping[str, Any]
    ) -> Iterator[Prediction]:
        """Yield the predictions for a conversation that was played; ``details`` are of all."""
        for item in items:
            text, measured = self.measured(agent, conversation, self._episodes[item.episode])
            yield item.predicted(text, {**measured, **details})

    def measured(self, agent: Agent, conversation: Conversation, episode: Episode) -> tuple[str, dict[str, Any]]:
        """Return the prediction for a conversation that was played, and its details."""
        raise NotImplementedError


class AskedTask(PlayedTask):
    """Ask the questions about the conversations of a file, one item each, in copies of the conversations: no question is
    remembered when the next is asked.

    Args:
        options: of the task, which affect its predictions.
    """

    def __init__(self, asked: Sequence[Questioned], options: Mapping[str, Any]) -> None:
        self._episodes = {one.episode.id: one.episode for one in asked}
        self._questions = {question.key: question for one in asked for question in one.questions}
        self.items = [self.item(one.episode, question) for one in asked for question in one.questions]
        self.options = options

    def item(self, episode: Episode, question: Question) -> Item:
        """Return the item of a question, under the question's key."""
        raise NotImplementedError

    def predicted(
        self, agent: Agent, conversation: Conversation, items: Sequence[Item], details: Mapping[str, Any]
    ) -> Iterator[Prediction]:
        copies = {f"{conversation.id}?{number}": item for number, item in enumerate(items)}
        copy_conversation(agent.resources.store, conversation.id, list(copies))
        opened = partial(agent.conversation, agent_name=conversation.agent_name)
        work = ((name, self.answered(agent, opened(name), self._questions[item.key])) for name, item in copies.items())
        for name, (reply, further) in run_many(work, agent.models.complete, WIDTH):
            yield copies[name].predicted(reply.text, {**further, REPLY: of_reply(reply), **details})
            opened(name).delete()

    def answered(self, agent: Agent, conversation: Conversation, question: Question) -> Steps[Answered]:
        """Ask a question in a copy of its conversation."""
        raise NotImplementedError


def in_memory(config: Config) -> Agent:
    """Create an agent whose store is not kept."""
    return Agent(config.changed(store={"path": ":memory:"}))


def live(agent: Agent, episode: Episode) -> Steps[None]:
    """Store a recorded conversation in an agent's memory and end all its sessions.

    The agent generates replies only if a mechanism decides what to remember while replying.
    """
    settings = agent.config.memory.conditional
    with_reply = settings.selection and settings.decision == "with_reply"
    if "conditional" in agent.config.memory.views and with_reply:
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
