"""An Agent holds what is heavy and shared: models, encoder, topics, store. A Conversation is one thread of talk with it.

Read `Conversation.turn` first: it is one turn of the paper, top-down (DESIGN: hear, close, recall, reply, learn). What
needs the language model yields its requests (`ld_agent.steps`), so that one turn and a thousand batched ones are the
same code. Nothing here knows SQL, prompts or tensors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from ld_agent.backbones.base import Backbone, Completion
from ld_agent.config import Config, load_config
from ld_agent.errors import BackboneError, ConversationBusyError, InputError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.persona_bank import PersonaBank
from ld_agent.memory.scoring import scorer
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import Parts, Query, View, build_views, check_views
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.generator import Generator, Situation, reply_text
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import Steps, metered, run
from ld_agent.storage.sqlite import EPOCH, Store, StoredConversation
from ld_agent.types import Recalled, Record, Reply, Tokens, Trait, Utterance, utc

SPEECHLESS = "Sorry, I lost my thread. What were you saying?"
LONGEST_NAME = 100


class Agent:
    """Models, encoder and store, shared by any number of conversations and threads. A context manager.

    Args:
        config: see `ld_agent.config.Config`.
        backbone: a ready backbone for all modules instead of the configured ones.
        clock: gives the time of utterances that come without one.

    Raises:
        ConfigError: an unknown view or scorer.
        StoreError: the memory file cannot be opened.
    """

    def __init__(
        self, config: Config, *, backbone: Backbone | None = None, clock: Callable[[], datetime] | None = None
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

    @classmethod
    def from_config(cls, config: Config | str | None = None, *, backbone: Backbone | None = None) -> Self:
        """Make an agent from a configuration, a config file's path or a shipped config's name."""
        return cls(config if isinstance(config, Config) else load_config(config), backbone=backbone)

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The text encoder, loaded when first needed and checked against the store."""
        with self._loading:
            if "encoder" not in self.__dict__:
                settings = self.config.encoder
                encoder = SentenceEncoder(settings.model, settings.device, settings.sha256)
                self.store.check_encoder(encoder.name, encoder.dimension)
                self.__dict__["encoder"] = encoder
            return self.__dict__["encoder"]  # type: ignore[no-any-return]

    @cached_property
    def topics(self) -> TopicExtractor:
        """The topic extractor, loaded when first needed."""
        with self._loading:
            if "topics" not in self.__dict__:
                self.__dict__["topics"] = TopicExtractor(self.config.topics.model, self.config.topics.pos)
            return self.__dict__["topics"]  # type: ignore[no-any-return]

    def warm_up(self) -> None:
        """Load everything now rather than in the first turn."""
        for module in ("generator", "extractor", "summarizer"):
            self.models.backbone(module)
        self.encoder.encode(["warm"])
        self.topics.extract(["warm"])

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
        """
        if not conversation_id.strip():
            raise InputError("the conversation id is empty; give it a name, such as 'alice'")
        with self._loading:
            conversation = self._live.get(conversation_id)
            if conversation is None:
                conversation = Conversation(self, conversation_id, agent_name or self.config.agent.name)
                self._live[conversation_id] = conversation
                self._touched[conversation_id] = conversation.agent_name
        conversation.resume(at)
        return conversation

    def recall(self, stored: StoredConversation, text: str, at: datetime | str | None = None) -> list[Recalled]:
        """Recall from a stored conversation without opening it: nothing pending is finished, no model is loaded."""
        views = build_views(self.config.memory.views, self.parts(stored.key))
        query = self.query(_checked_text(text), self.clock() if at is None else utc(at))
        return run(recall_steps(views, query), self.models.complete)

    def parts(self, key: int) -> Parts:
        """What the views of one conversation are made from."""
        return Parts(
            self.store, key, self.encoder, self.topics, Summarizer(self.models, self.encoder), self.config.memory
        )

    def query(self, text: str, at: datetime) -> Query:
        """A text as something to recall by: its vector and topics."""
        [topics] = self.topics.extract([text])
        return Query(text, self.encoder.encode([text])[0], topics, at)

    def close(self, end_sessions: bool | None = None) -> None:
        """End the running sessions of the conversations opened here (``memory.close_on_exit``) and release everything."""
        if end_sessions if end_sessions is not None else self.config.memory.close_on_exit:
            for conversation_id, agent_name in self._touched.items():
                if self.store.find_conversation(conversation_id):
                    self.conversation(conversation_id, agent_name=agent_name).end_session()
        self.models.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(end_sessions=False if kind else None)


class Conversation:
    """One thread of talk between the agent and one or more named people, over any number of sessions.

    Made by `Agent.conversation`. It has one caller at a time: a second one gets a `ConversationBusyError`.
    """

    def __init__(self, agent: Agent, conversation_id: str, agent_name: str) -> None:
        self.agent, self.id, self.agent_name = agent, conversation_id, agent_name
        config, self._store = agent.config, agent.store
        self._key = self._store.open_conversation(conversation_id, agent_name).key
        self._extractor = Extractor(agent.models, config.modules.extractor.prompting)
        self._generator = Generator(agent.models)
        self._cache = ShortTermCache(self._store, self._key, config.memory.beta, agent.clock)
        self._bank = PersonaBank(self._store, self._key, agent.encoder, config.personas)
        self._bank.seed(self.agent_name, config.agent.persona, EPOCH)
        self._views = build_views(config.memory.views, agent.parts(self._key))
        self._seen = self._store.data_version
        self._caller = threading.Lock()
        self.last_reply: Reply | None = None

    # ---- what callers do

    def respond(
        self,
        text: str,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        recorded: str | None = None,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
    ) -> Reply:
        """Hear an utterance and reply to it.

        Args:
            text: what was said.
            speaker: who said it; None: ``agent.user``.
            at: when; None: now.
            recorded: enters the memory in place of the generated reply (teacher forcing).
            on_text: called with each piece of the reply as it is generated.
            interruptible: a KeyboardInterrupt ends the reply, and what was generated so far is kept as the reply;
                otherwise it passes through.

        Raises:
            InputError: empty text, a naive time, or one before the last utterance.
            BackboneError: no reply could be generated; what was said is stored, and `reply` tries again.
            StoreError: the utterance could not be stored.
        """
        return run(
            self.turn(text, speaker, at, recorded=recorded, on_text=on_text, interruptible=interruptible),
            self.agent.models.complete,
        )

    def reply(self, at: datetime | str | None = None) -> Reply:
        """Reply to what was said last, for instance after `observe` or when a reply failed.

        Raises:
            InputError: nothing was said in this session, or the agent itself spoke last.
        """
        return run(self.turn(None, at=at), self.agent.models.complete)

    def observe(self, text: str, speaker: str | None = None, at: datetime | str | None = None) -> Utterance:
        """Store an utterance without replying to it: what others say among themselves, or what the agent once said.

        Raises: as `respond`.
        """
        with self._entered():
            return self._hear(text, speaker, at)

    def recall(self, text: str, at: datetime | str | None = None) -> list[Recalled]:
        """What is remembered about a text at a time, best first, with the numbers of equations (1)–(3).

        An empty list is the paper's "no relevant memory". Nothing younger than ``at`` is recalled.
        """
        with self._entered():
            query = self.agent.query(_checked_text(text), self.agent.clock() if at is None else utc(at))
            return run(recall_steps(self._views, query), self.agent.models.complete)

    def persona(self, speaker: str, *, history: bool = False) -> list[Trait]:
        """What is known about a speaker; with ``history`` also what was superseded.

        Raises:
            InputError: nobody of that name takes part.
        """
        with self._entered():
            self._bank.require(speaker, [self.agent_name, self.agent.config.agent.user, *self.speakers])
            return self._bank.traits(speaker, history=history)

    @property
    def speakers(self) -> list[str]:
        """Everyone who has spoken, in order."""
        return self._store.speakers(self._key)

    @property
    def running(self) -> tuple[Utterance, ...]:
        """The running session, oldest first; () between sessions."""
        return self._cache.utterances

    @property
    def utterances(self) -> list[Utterance]:
        """Everything that was said, oldest first."""
        return self._store.utterances(self._key)

    @property
    def records(self) -> list[Record]:
        """Everything that is remembered, oldest first."""
        return self._store.records(self._key)

    def end_session(self, at: datetime | str | None = None) -> list[Record]:
        """End the running session and return what is remembered of it; nothing is running: nothing happens.

        Args:
            at: when it ended; must not lie before its last utterance.
        """
        return run(self.ending(at), self.agent.models.complete)

    def resume(self, at: datetime | str | None = None) -> None:
        """Finish what is pending: close a session whose gap has passed by ``at``, summarise, extract."""
        with self._entered():
            if at is not None and self._cache.exceeded(utc(at)):
                self._cache.end()
            run(self._digest(), self.agent.models.complete)
            if not self._cache.utterances or self._cache.utterances[-1].speaker == self.agent_name:
                run(self._learn(), self.agent.models.complete)

    def delete(self) -> None:
        """Remove every trace of this conversation from the store. The object is of no further use."""
        with self._entered():
            self.agent._touched.pop(self.id, None)
            self.agent._live.pop(self.id, None)
            self._store.delete_conversation(self._key)

    # ---- one turn

    def turn(
        self,
        text: str | None,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        recorded: str | None = None,
        reply_at: datetime | str | None = None,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
    ) -> Steps[Reply]:
        """One turn as steps, for callers who run many conversations side by side (`steps.run_many`); see `respond`.

        Args:
            text: None: reply to what was said last.
            reply_at: when the reply is said; None: when the utterance was.
        """
        with self._entered():
            watch, seen = Stopwatch(), list[Completion]()
            heard = self._hear(text, speaker, at) if text is not None else self._unanswered()
            watch.lap("store")
            notes = yield from metered(self._digest(), seen)
            watch.lap("summarize")

            query = self.agent.query(heard.text, heard.at)
            watch.lap("encode")
            recalled = yield from metered(recall_steps(self._views, query), seen)
            watch.lap("recall")
            everyone = dict.fromkeys([self.agent_name, *(u.speaker for u in self._cache.utterances)])
            traits = self._bank.select(tuple(everyone), query.vector, heard.at)
            people = tuple(name for name in everyone if name != self.agent_name)
            context = tuple(u for u in self._cache.utterances if u.id != heard.id)
            prompted = self._generator.prompt_for(
                Situation(self.agent_name, heard, context, tuple(recalled), traits, people=people)
            )
            notes += prompted.notes
            watch.lap("prompt")

            pieces: list[str] = []

            def collect(piece: str) -> None:
                pieces.append(piece)
                if on_text is not None:
                    on_text(piece)

            streaming = on_text is not None or interruptible
            try:
                [completion] = yield [self._generator.request(prompted.messages, collect if streaming else None)]
                answer = completion.text
                seen.append(completion)
            except KeyboardInterrupt:
                if not interruptible:
                    raise
                answer, notes = "".join(pieces), [*notes, "the reply was interrupted"]
            said = reply_text(answer, self.agent_name, people)
            if not said and "the reply was interrupted" not in notes:
                said, notes = SPEECHLESS, [*notes, "the model gave an empty reply; a stock phrase stands in its place"]
            watch.lap("generate")

            kept = None
            if said or recorded is not None:
                when = heard.at if reply_at is None and (at is not None or text is None) else reply_at
                kept = self._cache.append(
                    self.agent_name,
                    _checked_text(recorded if recorded is not None else said),
                    utc(when) if when else None,
                )
            watch.lap("store")
            try:
                notes += yield from metered(self._learn(), seen)
            except KeyboardInterrupt:
                if not interruptible:
                    raise
            watch.lap("extract")
            tokens = Tokens(sum(c.prompt_tokens for c in seen), sum(c.completion_tokens for c in seen))
            self.last_reply = Reply(
                said, kept, heard, tuple(recalled), traits, tuple(notes), watch.milliseconds, tokens
            )
            return self.last_reply

    def ending(self, at: datetime | str | None = None) -> Steps[list[Record]]:
        """`end_session` as steps."""
        with self._entered():
            running = self._cache.utterances
            if not running:
                return []
            if at is not None and utc(at) < running[-1].at:
                raise InputError(
                    f"at={at} lies before the session's last utterance ({running[-1].at.isoformat()}); give a later time"
                )
            yield from self._learn()
            self._cache.end()
            yield from self._digest()
            return [r for r in self._store.records(self._key) if r.session == running[-1].session]

    # ---- the parts of a turn

    def _hear(self, text: str, speaker: str | None, at: datetime | str | None) -> Utterance:
        name = self.agent.config.agent.user if speaker is None else _checked_name(speaker)
        return self._cache.append(name, _checked_text(text), None if at is None else utc(at))

    def _unanswered(self) -> Utterance:
        running = self._cache.utterances
        if not running or running[-1].speaker == self.agent_name:
            raise InputError(f"conversation {self.id!r} has no utterance that waits for a reply; use respond(text)")
        return running[-1]

    def _digest(self) -> Steps[list[str]]:
        """Let every view take in the closed sessions it has not seen; returns notes on what could not be done."""
        notes: list[str] = []
        for view in self._views:
            sessions = self._store.undigested(self._key, view.name)
            if sessions:
                try:
                    yield from view.digest(sessions)
                except BackboneError as exc:
                    notes.append(f"a finished session waits to be summarised: {exc}")
        return notes

    def _learn(self) -> Steps[list[str]]:
        """Extract the traits of every utterance not read yet and merge them into the banks; returns notes as `_digest`."""
        waiting = self._store.unextracted(self._key)
        if not waiting:
            return []
        try:
            found = yield from self._extractor.steps([u.text for u in waiting])
        except BackboneError as exc:
            return [f"{len(waiting)} utterances wait for their traits: {exc}"]
        self._bank.merge([(u, traits) for u, traits in zip(waiting, found, strict=True)])
        return []

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """One caller at a time, who sees what other processes have stored."""
        if not self._caller.acquire(blocking=False):
            raise ConversationBusyError(
                f"conversation {self.id!r} is in use by another caller; wait for its turn to end, or use another conversation"
            )
        try:
            version = self._store.data_version
            if version != self._seen:
                self._cache.reload()
                self._bank.reload()
                self._seen = version
            yield
        finally:
            self._caller.release()


def recall_steps(views: Sequence[View], query: Query) -> Steps[list[Recalled]]:
    """What all views recall, best first."""
    found: list[Recalled] = []
    for view in views:
        found += yield from view.recall(query)
    return sorted(found, key=lambda recalled: -recalled.score)


class Stopwatch:
    """Milliseconds by step; laps of one name add up."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.milliseconds[name] = round(self.milliseconds.get(name, 0.0) + 1000 * (now - self._last), 3)
        self._last = now


def _checked_text(text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InputError("the utterance is empty; give it some text")
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be stored


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > LONGEST_NAME or any(ord(c) < 32 for c in name):
        raise InputError(f"speaker {name[:120]!r} is no name; give 1 to {LONGEST_NAME} characters on one line")
    return name
