"""A Conversation is one thread of talk between the agent and the people it knows, over any number of sessions.

Read `Conversation.turn` first: it is one turn of the paper, top-down (hear, close, recall, reply, learn). What needs the
language model yields its requests (`ld_agent.steps`), so that one turn and a thousand batched ones are the same code.
Nothing here knows SQL, prompts or tensors, or how a model is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ld_agent.backbones.base import Completion, Message
from ld_agent.errors import BackboneError, ConversationBusyError, InputError, StoreError
from ld_agent.memory.persona_bank import PersonaBank
from ld_agent.memory.quotes import in_time_order, quotes, sources_of
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.memory.views.combine import side_by_side
from ld_agent.memory.views.together import Remembered, Together
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.generator import Generator, ReplyStream, Situation, decision, reply_text
from ld_agent.modules.summarizer import whole_sentences
from ld_agent.steps import Steps, metered, run
from ld_agent.stopwatch import Stopwatch
from ld_agent.storage.columns import EPOCH
from ld_agent.storage.passages import utterances_by_id
from ld_agent.types import (
    Recalled,
    Record,
    Reply,
    Session,
    Tokens,
    Trait,
    Utterance,
    checked_name,
    checked_text,
    iso,
    utc,
)

if TYPE_CHECKING:
    from ld_agent.agent import Agent

SPEECHLESS = "Sorry, I lost my thread. What were you saying?"
INTERRUPTED = "the reply was interrupted"


class Conversation:
    """One thread of talk between the agent and one or more named people, over any number of sessions.

    Made by `Agent.conversation`. It has one caller at a time: a second one gets a `ConversationBusyError`.

    What it keeps in memory (the running session, the persona bank, the index) mirrors the store, and is read again
    whenever another process has written there.
    """

    def __init__(self, agent: Agent, conversation_id: str, agent_name: str) -> None:
        self.agent, self.id, self.agent_name = agent, conversation_id, agent_name
        config, self._store = agent.config, agent.store
        self.key = self._store.open_conversation(conversation_id, agent_name).key
        self._seen: int | None = self._store.data_version  # before anything is read: what comes later is noticed
        self._extractor = Extractor(agent.models, config.modules.extractor.prompting, config.modules.extractor.grounded)
        self._generator = Generator(agent.models)
        self._cache = ShortTermCache(self._store, self.key, config.memory.beta, agent.clock)
        encoder = agent.encoder
        with self._store.db.transaction():  # two processes that open it at one time give it one seed
            self._bank = PersonaBank(self._store, self.key, encoder, config.personas)
            self._bank.seed(self.agent_name, config.agent.persona, EPOCH)
        self._memory = Together(config.memory.views, agent.parts(self.key, self.agent_name))
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
            on_text: called with each piece of the reply as it is generated; joined they are the reply's beginning.
            interruptible: a KeyboardInterrupt ends the reply, and what was generated so far is kept as the reply;
                otherwise it passes through.

        Raises:
            InputError: empty text, a naive time or one before the last utterance, a bad name or the agent's own.
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

        Args:
            at: when the reply is said; None: when the utterance was.
        """
        return run(self.turn(None, reply_at=at), self.agent.models.complete)

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
            query = self.agent.query(checked_text(text), self.agent.clock() if at is None else utc(at))
            return list(run(self._memory.recall(query), self.agent.models.complete).recalled)

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
        return self._store.speakers(self.key)

    @property
    def running(self) -> tuple[Utterance, ...]:
        """The running session, oldest first; () between sessions."""
        return self._cache.utterances

    @property
    def utterances(self) -> list[Utterance]:
        """Everything that was said, oldest first."""
        return self._store.utterances(self.key)

    @property
    def records(self) -> list[Record]:
        """Everything that is remembered, oldest first."""
        return self._store.records(self.key)

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
            run(self._memory.digest(), self.agent.models.complete)
            run(self._learn(but=self._waiting()), self.agent.models.complete)

    def delete(self) -> None:
        """Remove every trace of this conversation from the store. The object is of no further use."""
        with self._entered():
            self._store.delete_conversation(self.key)

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
            reply_at: when the reply is said; None: when the utterance was, if that was given.
        """
        with self._entered():
            watch, seen = Stopwatch(), list[Completion]()
            recorded = None if recorded is None else checked_text(recorded)
            waiting = self._unanswered() if text is None else None
            reply_time = self._reply_time(waiting.at if waiting else None if at is None else utc(at), reply_at)
            heard = waiting or self._hear(text or "", self._other(speaker), at)
            self._refresh()
            watch.lap("store")

            everyone = dict.fromkeys([self.agent_name, *(u.speaker for u in self._cache.utterances)])
            people = tuple(name for name in everyone if name != self.agent_name)
            notes, unread, pieces, interrupted = self._memory.ignored(), list[str](), list[str](), False
            quoted: tuple[Utterance, ...] = ()
            found, traits, verdicts = Remembered(), dict[str, tuple[str, ...]](), dict[str, bool]()
            decides = self._memory.decides

            stream = ReplyStream(self.agent_name, people, on_text, decides=decides) if on_text is not None else None

            def collect(piece: str) -> None:
                pieces.append(piece)
                if stream is not None:
                    stream(piece)

            try:
                notes += yield from metered(self._memory.digest(), seen)
                watch.lap("summarize")
                unread = yield from metered(self._learn(but=heard), seen)
                watch.lap("extract")
                recent = self._cache.utterances[-self.agent.config.memory.query_turns :]
                query = self.agent.query("\n".join(u.text for u in recent), heard.at)
                watch.lap("encode")
                found = yield from metered(self._memory.recall(query), seen)
                notes += found.notes
                watch.lap("recall")
                traits = dict(self._bank.select(tuple(everyone), query.vector, heard.at))
                context = tuple(u for u in self._cache.utterances if u.id != heard.id)
                guidance = self._memory.guidance(found.recalled)
                quoted = self._quotes(heard, found.recalled)
                situation = Situation(self.agent_name, heard, context, found.recalled, traits, people, quotes=quoted)
                situation = replace(situation, steps=guidance.steps, examples=guidance.examples, decides=decides)
                prompted = self._generator.prompt_for(replace(situation, labelled=self._memory.combined))
                notes += prompted.notes
                watch.lap("prompt")
                shown = collect if on_text is not None or interruptible else None
                [completion] = yield [self._generator.request(prompted.messages, shown, decides=decides)]
                answer = completion.text if completion.finish == "stop" else whole_sentences(completion.text)
                seen.append(completion)
                if decides and (verdict := decision(completion.text)) is not None:
                    verdicts[heard.id] = verdict
            except KeyboardInterrupt:
                if not interruptible:
                    raise
                answer, interrupted = "".join(pieces), True
                notes.append(INTERRUPTED)
            said = reply_text(answer, self.agent_name, people, decides=decides)
            if not said and not interrupted:
                said = SPEECHLESS
                notes.append("the model gave an empty reply; a stock phrase stands in its place")
            watch.lap("generate")

            kept = self._say(said if recorded is None else recorded, reply_time) if said or recorded else None
            watch.lap("store")
            learning = [] if unread else [self._learn()]  # what the extractor just failed at waits for the next turn
            if self._memory.observes and not interrupted:
                running = Session(heard.session, self._cache.utterances)
                learning.append(self._memory.observe(running, verdicts))
            try:
                for left in (yield from metered(side_by_side(learning), seen)):
                    unread += left
            except KeyboardInterrupt:
                if not interruptible:
                    raise
            watch.lap("extract")
            tokens = Tokens(sum(c.prompt_tokens for c in seen), sum(c.completion_tokens for c in seen))
            reply = Reply(said, kept, heard, found.recalled, traits, (*notes, *unread), watch.milliseconds, tokens)
            self.last_reply = replace(reply, explanations=found.explanations, quotes=quoted)
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
            with self._store.db.transaction():
                self._refresh()
                if self._cache.utterances and self._cache.utterances[-1].session == running[-1].session:
                    self._cache.end()
            yield from self._memory.digest()
            return [r for r in self._store.records(self.key) if r.session == running[-1].session]

    # ---- the parts of a turn

    def _hear(self, text: str, speaker: str | None, at: datetime | str | None) -> Utterance:
        name = self.agent.config.agent.user if speaker is None else checked_name(speaker)
        return self._cache.append(name, checked_text(text), None if at is None else utc(at))

    def _other(self, speaker: str | None) -> str:
        """The name of someone whom the agent can answer."""
        name = self.agent.config.agent.user if speaker is None else speaker
        if name == self.agent_name:
            raise InputError(
                f"speaker {name!r} is the agent itself, which does not answer itself; give another name, or use observe"
            )
        return name

    def _say(self, text: str, at: datetime | None) -> Utterance:
        """Store what the agent says, after all that was said while it thought."""
        with self._store.db.transaction():
            last = self._store.last_utterance(self.key)
            return self._cache.append(
                self.agent_name, checked_text(text), max(at, last.at) if at is not None and last is not None else at
            )

    def _reply_time(self, heard_at: datetime | None, reply_at: datetime | str | None) -> datetime | None:
        if reply_at is None:
            return heard_at
        at = utc(reply_at, "reply_at")
        if heard_at is not None and at < heard_at:
            raise InputError(f"reply_at={iso(at)} lies before the utterance ({iso(heard_at)}); give a later time")
        return at

    def _quotes(self, heard: Utterance, recalled: Sequence[Recalled]) -> tuple[Utterance, ...]:
        """What was said in recalled sessions and bears on what was heard."""
        room, models = self.agent.config.memory.quotes, self.agent.models
        ids = sources_of(recalled) if room else []
        if not ids:
            return ()
        said = in_time_order(ids, utterances_by_id(self._store, self.key, ids))

        frame = models.count_tokens("generator", [Message("user", "")])

        def length(text: str) -> int:
            return models.count_tokens("generator", [Message("user", text)]) - frame

        return quotes(heard, self.agent_name, said, self.agent.encoder.encode, length, room)

    def _waiting(self) -> Utterance | None:
        """The utterance that waits for a reply: the last one, unless it is the agent's."""
        running = self._cache.utterances
        return running[-1] if running and running[-1].speaker != self.agent_name else None

    def _unanswered(self) -> Utterance:
        waiting = self._waiting()
        if waiting is None:
            raise InputError(f"conversation {self.id!r} has no utterance that waits for a reply; use respond(text)")
        return waiting

    def _learn(self, but: Utterance | None = None) -> Steps[list[str]]:
        """Extract the traits of every utterance not read yet and merge them into the banks; returns notes as `Together.digest`.

        Args:
            but: the utterance to be answered, which is read together with the reply: a prompt knows the traits of what
                was said before its utterance, and of no more, whether or not the work was broken off in between.
        """
        waiting = [u for u in self._store.unextracted(self.key) if but is None or u.id != but.id]
        if not waiting:
            return []
        try:
            answered = [self._store.answered(self.key, u) for u in waiting]
            found = yield from self._extractor.steps([u.text for u in waiting], answered)
        except BackboneError as exc:
            return [f"{len(waiting)} utterances wait for their traits: {exc}"]
        with self._store.db.transaction():
            self._refresh()  # what another process has learnt meanwhile is counted, not overwritten
            self._bank.merge([(u, traits) for u, traits in zip(waiting, found, strict=True)])
        return []

    def _refresh(self) -> None:
        """Read again what another process has changed."""
        version = self._store.data_version
        if version != self._seen:
            self._store.check_encoder(self.agent.encoder.name, self.agent.encoder.dimension)
            self._cache.reload()
            self._bank.reload()
            self._seen = version

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """One caller at a time, who sees what other processes have stored."""
        if not self._caller.acquire(blocking=False):
            raise ConversationBusyError(
                f"conversation {self.id!r} is in use by another caller; wait for its turn to end, or use another conversation"
            )
        try:
            if not self._store.is_stored(self.key):
                raise StoreError(f"conversation {self.id!r} was deleted; open it anew with Agent.conversation")
            self._refresh()
            yield
        except BaseException:
            self._seen = None  # what was broken off may have left the mirrors behind the store
            raise
        finally:
            self._caller.release()
