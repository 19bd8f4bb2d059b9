"""An Agent holds what is heavy and shared: models, encoder, topics, store. What it says and learns in one thread of talk is
the business of `ld_agent.conversation`; nothing here knows SQL, prompts or tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from ld_agent.backbones.base import Backbone
from ld_agent.config import Config, load_config
from ld_agent.conversation import Conversation
from ld_agent.errors import InputError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.scoring import scorer
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import Parts, Query, check_views
from ld_agent.memory.views.together import Together
from ld_agent.modules.base import MODULES, Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import run
from ld_agent.storage.rows import StoredConversation
from ld_agent.storage.sqlite import Store
from ld_agent.types import Recalled, checked_name, checked_text, utc

__all__ = ["Agent", "Conversation"]


class Agent:
    """Models, encoder and store, shared by any number of conversations and threads. A context manager.

    Args:
        config: see `ld_agent.config.Config`.
        backbone: a ready backbone for all modules instead of the configured ones.
        clock: gives the time of utterances that come without one.
        encoder, topics: loaded ones, shared with another agent; None: the configured ones, loaded when first needed.

    Raises:
        ConfigError: an unknown view or scorer.
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
    ) -> None:
        check_views(config.memory.views)
        scorer(config.memory.scorer)
        self.config = config
        self.clock = clock or (lambda: datetime.now(UTC))
        self.models = Models(config, backbone)
        self.store = Store(config.store.path)
        self._loading = threading.RLock()
        self._live: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._touched: dict[str, str] = {}
        if encoder is not None:
            try:
                self.store.check_encoder(encoder.name, encoder.dimension)
            except BaseException:
                self.store.close()
                raise
            self.__dict__["encoder"] = encoder
        if topics is not None:
            self.__dict__["topics"] = topics

    @classmethod
    def from_config(
        cls,
        config: Config | str | None = None,
        *,
        backbone: Backbone | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Make an agent from a configuration, a config file's path or a shipped config's name."""
        return cls(config if isinstance(config, Config) else load_config(config), backbone=backbone, clock=clock)

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The text encoder, loaded when first needed and checked against the store."""
        with self._loading:
            if "encoder" not in self.__dict__:
                settings = self.config.encoder
                encoder = SentenceEncoder(settings.model, settings.device, settings.sha256)
                self.store.check_encoder(encoder.name, encoder.dimension)
                self.__dict__["encoder"] = encoder
            loaded: SentenceEncoder = self.__dict__["encoder"]
            return loaded

    @cached_property
    def topics(self) -> TopicExtractor:
        """The topic extractor, loaded when first needed."""
        with self._loading:
            if "topics" not in self.__dict__:
                self.__dict__["topics"] = TopicExtractor(self.config.topics.model, self.config.topics.pos)
            loaded: TopicExtractor = self.__dict__["topics"]
            return loaded

    def warm_up(self) -> None:
        """Load everything now rather than in the first turn, the spaCy pipeline beside the rest."""
        import torch  # noqa: F401 - both sides import it; whole before they part

        with ThreadPoolExecutor(1) as beside:
            topics = beside.submit(lambda: self.topics.extract(["warm"]))
            for module in MODULES:
                self.models.backbone(module)
            self.encoder.encode(["warm"])
            topics.result()

    def conversation(
        self, conversation_id: str, at: datetime | str | None = None, *, agent_name: str | None = None
    ) -> Conversation:
        """Open a conversation, new or stored, and finish what an earlier run left pending in it.

        Args:
            conversation_id: everything stored belongs to exactly one.
            at: the time now; an unfinished session whose gap exceeds β by then is closed and summarised, another goes
                on. None: the next utterance decides.
            agent_name: the agent's name in this conversation; None: ``agent.name``.

        Raises:
            InputError: an empty id, or one whose stored agent has another name.
            StoreError: the store cannot be read or was encoded by another encoder.
            ConversationBusyError: another thread is inside it.
        """
        if not isinstance(conversation_id, str) or not conversation_id.strip():
            raise InputError(f"the conversation id {conversation_id!r} is empty; give it a name, such as 'alice'")
        with self._loading:
            conversation = self._live.get(conversation_id)
            if conversation is not None and not self.store.is_stored(conversation.key):
                conversation = None  # deleted, here or by another process
            if conversation is None:
                name = checked_name(self.config.agent.name if agent_name is None else agent_name, "agent name")
                conversation = Conversation(self, conversation_id, name)
                self._live[conversation_id] = conversation
                self._touched[conversation_id] = conversation.agent_name
            elif agent_name not in (None, conversation.agent_name):
                raise InputError(
                    f"conversation {conversation_id!r} is held with agent {conversation.agent_name!r}, not {agent_name!r}; "
                    "choose another conversation id"
                )
        conversation.resume(at)
        return conversation

    def recall(self, stored: StoredConversation, text: str, at: datetime | str | None = None) -> list[Recalled]:
        """Recall from a stored conversation without opening it: nothing pending is finished.

        No model is loaded, unless the recall of a view asks one.
        """
        memory = Together(self.config.memory.views, self.parts(stored.key, stored.agent))
        query = self.query(checked_text(text), self.clock() if at is None else utc(at))
        return list(run(memory.recall(query, within_budget=False), self.models.complete).recalled)

    def parts(self, key: int, agent_name: str) -> Parts:
        """What the views of one conversation are made from."""
        summarizer = Summarizer(self.models, self.encoder)
        settings = self.config.memory
        return Parts(self.store, key, self.encoder, self.topics, summarizer, settings, self.models, agent_name)

    def query(self, text: str, at: datetime) -> Query:
        """A text as something to recall by: its vector and topics."""
        [topics] = self.topics.extract([text])
        return Query(text, self.encoder.encode([text])[0], topics, at)

    def close(self, end_sessions: bool | None = None) -> None:
        """End the running sessions of the conversations opened here (``memory.close_on_exit``) and release everything."""
        try:
            if end_sessions if end_sessions is not None else self.config.memory.close_on_exit:
                for conversation_id, agent_name in self._touched.items():
                    if self.store.find_conversation(conversation_id):
                        self.conversation(conversation_id, agent_name=agent_name).end_session()
        finally:
            self._touched = {}
            self.models.close()
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(end_sessions=False if kind else None)
