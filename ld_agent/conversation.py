"""A Conversation is one thread of talk between the agent and the people it knows, over any number of sessions.

A thin public face: input is checked here, one caller at a time is let in, and `ld_agent.turn` does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from ld_agent.errors import InputError
from ld_agent.learning import pending, session_ended
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.relation import Relation
from ld_agent.revising.correcting import correct, follow, undo
from ld_agent.running.stream import AsyncReplyStream, SyncReplyStream
from ld_agent.steps import Steps, arun, run
from ld_agent.turn import Turn, checked_reply_time
from ld_agent.types import Prompt, Recalled, Record, Reply, ReplyOptions, Trait, Utterance, checked_text, utc, zoned

T = TypeVar("T")


class Conversation:
    """One thread of talk between the agent and one or more named people, over any number of sessions.

    Created by `Agent.conversation`. Threads of one conversation share its memory and personas; each has a running session of
    its own. One caller at a time is inside a conversation; others queue, or get a `ConversationBusyError` with
    ``agent.busy: refuse``.
    """

    def __init__(self, relation: Relation, thread: str, learn_later: Callable[[Relation], None] | None = None) -> None:
        self.relation, self.thread, self._learn_later = relation, thread, learn_later
        self._resources, self._store = relation.resources, relation.store
        config, kept = self._resources.config, (self._store, relation.key)
        beta, clock, names = config.memory.beta, self._resources.clock, (relation.agent_name, config.agent.user)
        self._cache = ShortTermCache(*kept, beta, clock, thread, *names)
        self._revision = relation.revision
        self.last_reply: Reply | None = None

    @property
    def id(self) -> str:
        return self.relation.id

    @property
    def key(self) -> int:
        """The conversation's key in the store."""
        return self.relation.key

    @property
    def agent_name(self) -> str:
        return self.relation.agent_name

    # ---- talking

    def respond(
        self,
        text: str,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        recorded: str | None = None,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
        options: ReplyOptions | None = None,
    ) -> Reply:
        """Reply to an utterance. Traits and memories are learned from both in the next turn, in the background, or by `resume`.

        Args:
            speaker: who said it; None: ``agent.user``.
            at: when; None: now.
            recorded: stored in memory in place of the generated reply (teacher forcing).
            on_text: called with each piece of the reply as it is generated; the joined pieces are its beginning. It may raise
                `ReplyStopped` to end the reply, which keeps what was generated so far.
            interruptible: Ctrl-C (KeyboardInterrupt) does the same; otherwise it propagates.
            options: override the config for this reply.

        Raises:
            InputError: empty text, a naive time or one before the last utterance, a bad name or the agent's own.
            BackboneError: no reply could be generated; the utterance is stored, and `reply` tries again.
            StoreError: the utterance could not be stored.
        """
        with self.relation.turnstile.entered():
            return self._run(self._turn(text, speaker, at, recorded, None, on_text, interruptible, options))

    async def arespond(
        self,
        text: str,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        recorded: str | None = None,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
        options: ReplyOptions | None = None,
    ) -> Reply:
        """`respond` for coroutines, whose model calls share batches."""
        async with self.relation.turnstile.aentered():
            steps = self._turn(text, speaker, at, recorded, None, on_text, interruptible, options)
            return await arun(steps, self.relation.acomplete)

    async def areply(
        self,
        at: datetime | str | None = None,
        *,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
        options: ReplyOptions | None = None,
    ) -> Reply:
        """`reply` for coroutines."""
        async with self.relation.turnstile.aentered():
            steps = self._turn(None, None, None, None, at, on_text, interruptible, options)
            return await arun(steps, self.relation.acomplete)

    def stream(
        self,
        text: str,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        options: ReplyOptions | None = None,
    ) -> SyncReplyStream:
        """`respond`, piece by piece: iterate over the text; ``.reply`` is the `Reply` once it has ended.

        Closing the stream early keeps what was generated so far as the reply.
        """
        return SyncReplyStream(lambda hear: self.respond(text, speaker, at, on_text=hear, options=options))

    def astream(
        self,
        text: str,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        options: ReplyOptions | None = None,
    ) -> AsyncReplyStream:
        """`stream` for coroutines: ``async for piece in conversation.astream(…)``."""
        return AsyncReplyStream(lambda hear: self.arespond(text, speaker, at, on_text=hear, options=options))

    def reply(
        self,
        at: datetime | str | None = None,
        *,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
        options: ReplyOptions | None = None,
    ) -> Reply:
        """Reply to the last utterance, as after `observe` or a failed reply, ``at`` its time or later; see `respond`.

        Raises:
            InputError: nothing was said in this session, or the agent itself spoke last.
        """
        with self.relation.turnstile.entered():
            return self._run(self._turn(None, None, None, None, at, on_text, interruptible, options))

    def observe(
        self, text: str, speaker: str | None = None, at: datetime | str | None = None, *, channel: str = "chat"
    ) -> Utterance:
        """Store an utterance without replying to it: what others say, or a reply from your own model (see `messages`).

        Args:
            channel: one of `ld_agent.types.CHANNELS`; prompts mark everything that was not said in the chat.

        Raises: as `respond`.
        """
        with self._inside():
            return self._cache.hear(text, speaker, at, channel)

    def messages(self, text: str, speaker: str | None = None, at: datetime | str | None = None) -> Prompt:
        """Store an utterance and return the prompt for its reply, for use with your own model.

        Your model is taken to follow instructions: the prompt of a tuned generator (``brief``) is replaced with ``direct``.
        Close the turn with ``observe(reply, speaker=conversation.agent_name)``.

        Raises: as `respond`.
        """
        with self._inside():
            turn = Turn(self.relation, self._cache, self._cache.hear(text, speaker, at, to_answer=True))
            prompting = self.relation.resources.config.modules.generator.prompting
            situation = run(turn.situation(answered_here=False), self.relation.complete)
            prompted = turn.prompted(situation, "direct" if prompting == "brief" else None)
            messages = [{"role": m.role, "content": m.content} for m in prompted.messages]
            return Prompt(messages, turn.heard, turn.remembered.recalled, turn.traits, tuple(turn.notes))

    def end_session(self, at: datetime | str | None = None) -> list[Record]:
        """End the running session, if any, ``at`` its last utterance or later; return the records made from it."""
        with self.relation.turnstile.entered():
            return self._run(self._ending(at))

    def resume(self, at: datetime | str | None = None, *, waits: bool | None = None) -> None:
        """Finish pending work: close a session whose gap has passed by ``at``, summarize it, extract traits; ``waits`` says
        whether to queue behind another caller, None: as configured."""
        with self._inside(waits):
            if at is not None and self._cache.exceeded(utc(at)):
                self._cache.end()
            run(pending(self.relation), self.relation.complete)

    def learn_later(self) -> None:
        """Finish pending work in the background if the agent learns there; otherwise the next turn does it."""
        if self._learn_later is not None:
            self._learn_later(self.relation)

    def delete(self) -> None:
        """Remove every trace of this conversation from the store. The object cannot be used afterwards."""
        with self._inside():
            self._store.delete_conversation(self.key)
            self._resources.indexes.drop(self.key)

    # ---- memory

    def recall(self, text: str, at: datetime | str | None = None, *, k: int | None = None) -> list[Recalled]:
        """Recall memories relevant to a text at a given time, best first, with the numbers of equations (1)–(3); before them
        what people said in running sessions, word for word.

        An empty list is the paper's "no relevant memory". Nothing younger than ``at`` is recalled, and at most ``k`` (None:
        ``memory.k``) of each ranking view and of lines.
        """
        with self._inside():
            query = self._resources.query(checked_text(text), self._resources.clock() if at is None else zoned(at))
            return [*self.relation.recalled_lines(query, k), *self._run(self.relation.recalled(query, k)).recalled]

    def persona(self, speaker: str, *, history: bool = False, as_of: datetime | str | None = None) -> list[Trait]:
        """Return the traits of a speaker, including those in pending utterances; with ``history``, past ones too; with
        ``as_of``, those that held at that time, whenever they were told.

        Raises:
            InputError: no participant has that name.
        """
        with self._learned():
            bank = self.relation.bank
            speaker = bank.require(speaker, [self.agent_name, *self.speakers, self._resources.config.agent.user])
            return bank.traits(speaker, history=history, as_of=None if as_of is None else utc(as_of, "as_of"))

    def traits(self, *, history: bool = False) -> list[Trait]:
        """Return the traits of everyone, including those in pending utterances; with ``history``, past ones too."""
        with self._learned():
            return self.relation.bank.traits(history=history)

    @property
    def speakers(self) -> list[str]:
        """Everyone who has spoken, in order."""
        return self._store.speakers(self.key)

    @property
    def running(self) -> tuple[Utterance, ...]:
        """The running session of this thread, oldest first; () between sessions."""
        return self._cache.utterances

    @property
    def utterances(self) -> list[Utterance]:
        """All utterances of all threads, in storage order."""
        return self._store.utterances(self.key)

    @property
    def records(self) -> list[Record]:
        """All memory records, oldest first, without pending work."""
        return self._store.records(self.key)

    def edit(self, target: str, text: str, *, edited: datetime | None = None) -> None:
        """Correct a record, trait or utterance by its id, and everything else that says it; logged with its date, and exported.

        Args:
            edited: when an imported message was edited where it comes from, which is no change by hand; one made here stays.

        Raises:
            InputError: no such record, trait or utterance, or an empty text.
        """
        with self._inside():
            if edited:
                follow(self.relation, target, checked_text(text), edited, self._resources.clock())
            else:
                correct(self.relation, target, checked_text(text), self._resources.clock())

    def forget(self, target: str) -> None:
        """Delete a record, trait or utterance by its id, with everything else that says it; only the fact that it was
        forgotten remains on record. An utterance takes with it only what was learned from it alone.

        Raises:
            InputError: no such record, trait or utterance.
        """
        with self._inside():
            correct(self.relation, target, "", self._resources.clock())

    def undo(self) -> None:
        """Take back the latest `edit` or `pin`, or raise `InputError`; called again, put it back. What was forgotten is gone."""
        with self._inside():
            undo(self.relation, self._resources.clock())

    def replace(self, utterance_ids: Sequence[str], *, finished: bool = False) -> None:
        """Remove utterances of the running session, for turns that a person edited or wants regenerated, together with what
        was learned only from them. The text stays in the store as history; no prompt, session or memory contains it. With
        ``finished``, also those of finished sessions; a memory with other sources too is kept.

        Raises:
            InputError: an utterance is not in this thread's running session.
        """
        with self._inside():
            running = {u.id for u in self._cache.utterances}
            if not finished and (unknown := [i for i in utterance_ids if i not in running]):
                raise InputError(f"{unknown[0]!r} is not in the running session; only what is in it can be replaced")
            self._store.replace(self.key, utterance_ids)
            self.relation.changed_by_hand()

    def pin(self, target: str, pinned: bool = True) -> None:
        """Pin or unpin a record or trait: pinned ones are in every prompt, and nothing supersedes a pinned trait.

        Raises:
            InputError: no such record or trait.
        """
        with self._inside():
            self._store.pin(self.key, target, pinned, self._resources.clock())
            self.relation.changed_by_hand()

    # ---- as steps, for callers who run many conversations in shared batches (`steps.run_many`)

    def turn(
        self,
        text: str | None,
        speaker: str | None = None,
        at: datetime | str | None = None,
        *,
        recorded: str | None = None,
        reply_at: datetime | str | None = None,
        options: ReplyOptions | None = None,
    ) -> Steps[Reply]:
        """`respond` as steps; a busy conversation refuses. Without ``text``, reply to what was said last; without ``reply_at``,
        the reply is said when the utterance was, if that was given."""
        with self.relation.turnstile.entered(waits=False):
            return (yield from self._turn(text, speaker, at, recorded, reply_at, options=options))

    def ending(self, at: datetime | str | None = None) -> Steps[list[Record]]:
        """`end_session` as steps; a busy conversation refuses."""
        with self.relation.turnstile.entered(waits=False):
            return (yield from self._ending(at))

    # ---- called inside the turnstile

    def _run(self, steps: Steps[T]) -> T:
        return run(steps, self.relation.complete)

    @contextmanager
    def _inside(self, waits: bool | None = None) -> Iterator[None]:
        with self.relation.turnstile.entered(waits), self._mirrors():
            yield

    @contextmanager
    def _learned(self) -> Iterator[None]:
        """Enter with nothing pending except work that failed."""
        with self._inside():
            self._run(pending(self.relation))
            yield

    @contextmanager
    def _mirrors(self) -> Iterator[None]:
        """The running session as currently stored, before and after."""
        try:
            with self.relation.up_to_date():
                self._reload()
                yield
                self._reload()
        except BaseException:
            self._revision = -1
            raise

    def _reload(self) -> None:  # if something else than this thread's talk has changed the running session
        if self._revision != self.relation.revision:
            self._cache.reload()
            self._revision = self.relation.revision

    def _turn(
        self,
        text: str | None,
        speaker: str | None,
        at: datetime | str | None,
        recorded: str | None = None,
        reply_at: datetime | str | None = None,
        on_text: Callable[[str], None] | None = None,
        interruptible: bool = False,
        options: ReplyOptions | None = None,
    ) -> Steps[Reply]:
        since = time.perf_counter()
        with self._mirrors():
            recorded = None if recorded is None else checked_text(recorded)
            waiting = self._cache.unanswered() if text is None else None
            reply_time = checked_reply_time(waiting.at if waiting else None if at is None else utc(at), reply_at)
            heard = waiting or self._cache.hear(text or "", speaker, at, to_answer=True)
            turn = Turn(self.relation, self._cache, heard, on_text, interruptible, options or ReplyOptions(), since)
            self.last_reply = yield from turn.reply(reply_time, recorded)
        self.learn_later()
        return self.last_reply

    def _ending(self, at: datetime | str | None) -> Steps[list[Record]]:
        with self._mirrors():
            return (yield from session_ended(self.relation, self._cache, at))
