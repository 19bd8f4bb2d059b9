"""An Agent talks with any number of people: it opens their conversations and can learn from them in the background.

A thin public face over `ld_agent.running.resources`; what is said and learned in one conversation belongs to
`ld_agent.conversation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Protocol, Self
from weakref import WeakSet, WeakValueDictionary

from ld_agent.backbones.base import Backbone, Completion
from ld_agent.config import Config, load_config
from ld_agent.config.settings import IN_MEMORY
from ld_agent.conversation import Conversation
from ld_agent.errors import ConversationBusyError, InputError, StoreError
from ld_agent.learning import history, pending
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views.base import ViewContext
from ld_agent.memory.views.enabled import EnabledViews
from ld_agent.modules.base import Models
from ld_agent.relation import Relation
from ld_agent.running.background import Background
from ld_agent.running.resources import Resources
from ld_agent.running.stateless import without_memory
from ld_agent.running.turnstile import Turnstile
from ld_agent.steps import GaveWay, arun, run
from ld_agent.storage.rows import StoredConversation
from ld_agent.storage.served import Directory
from ld_agent.storage.store import Store
from ld_agent.types import PersonSummary, Recalled, ReplyOptions, checked_name, checked_text, name_key, zoned

__all__ = ["Agent", "Conversation"]

MOST_GIVEN_WAY = 20
"""How often in a row a piece of history is left for later because somebody waits; under load it would never be learned."""


class Unfinished(Protocol):
    """An answer that is still being heard."""

    def finish(self) -> None:
        """Store what was heard of it, now that the agent closes."""
        ...


class Agent:
    """Models, encoder and store, shared by any number of conversations and threads. A context manager.

    Args:
        config: see `ld_agent.config.Config`.
        backbone: a ready backbone for all modules instead of the configured ones.
        clock: gives the time of utterances that come without one.
        encoder: a loaded one, shared with another agent; None: the configured one, loaded when first needed.
        topics: likewise.
        background: learn from each turn in a background thread, right after its reply; otherwise the next turn does it.

    Attributes:
        unfinished: what is finished before the agent closes.

    Raises:
        ConfigError: not a config, an unknown view or an unknown scorer.
        StoreError: the memory file cannot be opened.
        EncoderMismatchError: its vectors were not made by the encoder given.
    """

    def __init__(
        self,
        config: Config,
        *,
        backbone: Backbone | None = None,
        clock: Callable[[], datetime] | None = None,
        encoder: SentenceEncoder | None = None,
        topics: TopicExtractor | None = None,
        background: bool = False,
    ) -> None:
        self.resources = Resources(config, backbone, clock, encoder, topics)
        self._background = Background() if background else None
        self._relations: WeakValueDictionary[str, Relation] = WeakValueDictionary()
        self._open: WeakValueDictionary[tuple[str, str], Conversation] = WeakValueDictionary()
        self._touched: dict[str, str] = {}
        self.unfinished: WeakSet[Unfinished] = WeakSet()

    @classmethod
    def from_config(
        cls,
        config: Config | str | None = None,
        *,
        backbone: Backbone | None = None,
        clock: Callable[[], datetime] | None = None,
        background: bool = False,
    ) -> Self:
        """Create an agent from a config, the path of a config file, or the name of a shipped config."""
        loaded = config if isinstance(config, Config) else load_config(config)
        return cls(loaded, backbone=backbone, clock=clock, background=background)

    @property
    def config(self) -> Config:
        return self.resources.config

    @property
    def clock(self) -> Callable[[], datetime]:
        return self.resources.clock

    @property
    def models(self) -> Models:
        return self.resources.models

    @property
    def store(self) -> Store:
        return self.resources.store

    @property
    def encoder(self) -> SentenceEncoder:
        """The text encoder, loaded when first needed and checked against the store."""
        return self.resources.encoder

    @property
    def topics(self) -> TopicExtractor:
        """The topic extractor, loaded when first needed."""
        return self.resources.topics

    def warm_up(self) -> None:
        """Load everything now rather than in the first turn."""
        self.resources.warm_up()

    def conversation(
        self,
        conversation_id: str,
        at: datetime | str | None = None,
        *,
        thread: str = "",
        agent_name: str | None = None,
        resume: bool = True,
    ) -> Conversation:
        """Open a conversation, new or stored, and finish what an earlier run left pending in it.

        Args:
            conversation_id: its id; everything stored belongs to exactly one conversation.
            at: the current time. An open session whose gap exceeds β by then is closed and summarized; any other
                continues. None: the next utterance decides.
            thread: one of several places where the same people talk at the same time, such as browser tabs. Each thread
                has its own running session; memory and personas are shared.
            agent_name: the agent's name in this conversation; None: ``agent.name``.
            resume: False leaves pending work to the next turn, so that opening neither asks a model nor waits for
                another caller.

        Raises:
            InputError: the id is empty, or the stored conversation has an agent of another name.
            StoreError: the store cannot be read or was encoded by another encoder.
        """
        if not isinstance(conversation_id, str) or not conversation_id.strip():
            raise InputError(f"the conversation id {conversation_id!r} is empty; give it a name, such as 'alice'")
        if not isinstance(thread, str):
            raise InputError(f"the thread {thread!r} is not text; give it a name, such as 'phone'")
        with self.resources.loading:
            relation = self._relation(conversation_id, agent_name)
            conversation = self._open.get((conversation_id, thread))
            if conversation is None or conversation.relation is not relation:
                later = None if self._background is None else self._learn_later
                conversation = Conversation(relation, thread, later)
                self._open[conversation_id, thread] = conversation
        if resume:
            conversation.resume(at)
        return conversation

    def people(self) -> list[PersonSummary]:
        """Everyone who is known: the id of each conversation in the store, and how much is remembered of it."""
        return Directory(self.store).everyone()

    async def answer(
        self,
        said: Sequence[Sequence[str]],
        options: ReplyOptions | None = None,
        *,
        bare: bool = False,
        on_text: Callable[[str], None] | None = None,
    ) -> Completion:
        """Answer the last of some lines from these lines alone; nothing is recalled or stored.

        Args:
            said: (role, text) pairs with the roles of chat APIs, ``user`` or ``assistant``, or with the speaker's name as a
                third; the last is a user's.
            bare: omit the agent's instructions and persona, for tasks such as finding a title.
        """
        return await arun(without_memory(self.resources, said, options, bare, on_text), self.resources.asking.acomplete)

    def _relation(self, conversation_id: str, agent_name: str | None) -> Relation:
        relation = self._relations.get(conversation_id)
        if relation is not None and not self.store.is_stored(relation.key):
            relation = None  # deleted, here or by another process
        if relation is None:
            name = checked_name(self.config.agent.name if agent_name is None else agent_name, "agent name")
            relation = Relation(self.resources, conversation_id, name)
            self._relations[conversation_id] = relation
            self._touched[conversation_id] = name
        elif agent_name is not None and name_key(agent_name) != name_key(relation.agent_name):
            raise InputError(
                f"conversation {conversation_id!r} has the agent {relation.agent_name!r}, not {agent_name!r}; "
                "choose another conversation id"
            )
        return relation

    def _learn_later(self, relation: Relation, gave_way: int = 0) -> None:
        """Do the pending work of a conversation in the background, then learn from its history, piece by piece.

        Args:
            gave_way: how often in a row a piece of history was left for later, because somebody waited.
        """

        def wanted() -> bool:
            return relation.turnstile.wanted

        def learn() -> None:
            heeding = self.resources.asking.giving_way(wanted), wanted
            goes_on, times = True, gave_way + 1
            with relation.turnstile.entered(waits=True), relation.up_to_date():
                run(pending(relation), relation.complete)
            with relation.turnstile.entered(waits=True), relation.up_to_date(), suppress(GaveWay):
                goes_on = run(history(relation), *(heeding if gave_way < MOST_GIVEN_WAY else (relation.complete,)))
                times = 0
            if goes_on:
                self._learn_later(relation, times)

        if self._background is not None:
            self._background.put(relation.id, learn)

    def expire(self, stored: StoredConversation) -> None:
        """Remove what has expired in a stored conversation, unless it is in use or cannot be written; talking does it too."""
        relation, name = self._relations.get(stored.id), f"conversation {stored.id!r}"
        turnstile = relation.turnstile if relation else Turnstile(name, False, self.store.turn_lock(stored.key))
        with suppress(ConversationBusyError, StoreError), turnstile.entered(waits=False):
            if relation:
                relation.expire()
            elif self.store.expire(stored.key):
                self.resources.indexes.drop(stored.key)

    def recall(self, stored: StoredConversation, text: str, at: datetime | str | None = None) -> list[Recalled]:
        """Recall from a stored conversation without opening it; pending work stays pending.

        No language model is loaded unless the recall of a view asks one.

        Raises:
            InputError: the text is empty, or ``stored`` does not come from `Store.conversations`.
        """
        if not isinstance(stored, StoredConversation):
            raise InputError(
                f"{stored!r} is not a stored conversation; give agent.store.find_conversation(id), or use "
                "agent.conversation(id).recall(text)"
            )
        self.expire(stored)
        views = EnabledViews(self.config.memory.views, self.view_context(stored.key, stored.agent))
        query = self.resources.query(checked_text(text), self.clock() if at is None else zoned(at))
        recalled = run(views.recall(query, within_budget=False), self.resources.asking.complete).recalled
        lapsed = self.store.lapsed(stored.key)
        return [one for one in recalled if one.record.id not in lapsed]

    def view_context(self, key: int, agent_name: str) -> ViewContext:
        """Return what the views of one conversation are made from."""
        return self.resources.view_context(key, agent_name)

    def close(self, end_sessions: bool | None = None) -> None:
        """Release everything, after ending the running sessions of conversations opened here if ``memory.close_on_exit`` and the
        store outlives the agent."""
        try:
            for answer in list(self.unfinished):
                answer.finish()
            if self._background is not None:
                self._background.close()
            stays = self.config.store.path != IN_MEMORY
            if stays and (self.config.memory.close_on_exit if end_sessions is None else end_sessions):
                for conversation_id, agent_name in self._touched.items():
                    self._end_sessions(conversation_id, agent_name)
        finally:
            self._touched = {}
            self.resources.close()

    def _end_sessions(self, conversation_id: str, agent_name: str) -> None:
        """End the running sessions of a conversation; do not reopen one that has none."""
        stored = self.store.find_conversation(conversation_id)
        if stored is None:
            return
        for thread in self.store.open_threads(stored.key):
            self.conversation(conversation_id, thread=thread, agent_name=agent_name).end_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(end_sessions=False if kind else None)
