"""One turn for a chat request: compare it with the store, answer it, keep the answer.

Knows no protocol. A turn runs independently of its connection, so that a disconnect ends the reply and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ld_agent.conversation import Conversation
from ld_agent.errors import BackboneError, ModelError, ReplyStopped
from ld_agent.passed import Passed
from ld_agent.revising.forgetting import FORGOTTEN
from ld_agent.server.errors import ApiError
from ld_agent.server.history import Comparison, Line, compare, same
from ld_agent.server.openai.asked import CUT_OFF, Answered, Asked
from ld_agent.server.openai.repeats import begun, keep
from ld_agent.server.service import Service
from ld_agent.server.shapes import RecalledShape, rounded
from ld_agent.turn import INTERRUPTED
from ld_agent.types import ReplyOptions, Utterance, name_key

PING = 15.0
"""Seconds of silence after which a stream sends a comment, to keep the connection open."""
CLOSED_SESSION = "the request changes turns of a finished session; its memory is not changed"


@dataclass(slots=True)
class RunningTurn:
    """A running turn: its pieces as they arrive, then its answer."""

    work: asyncio.Task[Answered]
    _pieces: asyncio.Queue[str | None]
    _listening: list[bool] = field(default_factory=lambda: [True])
    _coming: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def begin(cls, service: Service, asked: Asked) -> RunningTurn:
        loop, queue, listening = asyncio.get_running_loop(), asyncio.Queue[str | None](), [True]
        coming = asyncio.Event()

        def deliver(piece: str) -> None:
            queue.put_nowait(piece)
            coming.set()

        def hear(piece: str) -> None:
            if not listening[0] or service.ending:
                raise ReplyStopped
            loop.call_soon_threadsafe(deliver, piece)

        async def turn() -> Answered:
            try:
                return await answer(service, asked, hear)
            finally:
                queue.put_nowait(None)

        work = service.start(turn())
        work.add_done_callback(lambda work: coming.set())
        return cls(work, queue, listening, coming)

    async def begun(self) -> None:
        """Wait for the first piece or the answer, but no longer than `PING` seconds.

        Raises:
            ApiError, LDAgentError: the turn has failed before its first piece.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self._coming.wait(), PING)
        if self.work.done() and self._pieces.qsize() <= 1:
            self.work.result()

    async def pieces(self) -> AsyncIterator[str | None]:
        """Yield the pieces of the reply, and None after `PING` seconds without one."""
        while True:
            try:
                piece = await asyncio.wait_for(self._pieces.get(), PING)
            except TimeoutError:
                yield None
                continue
            if piece is None:
                return
            yield piece

    def leave(self) -> None:
        """End the reply because the client left; what was generated so far is kept."""
        self._listening[0] = False
        self.work.add_done_callback(lambda work: work.cancelled() or work.exception())


def fingerprint(body: Any) -> str:
    """A fingerprint that distinguishes requests with the same Idempotency-Key."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def explained(answered: Answered) -> dict[str, Any]:
    """The explanation of an answer: its ``ld_agent`` block."""
    reply = answered.reply
    if reply is None:
        return {"repeated": True} if answered.repeated else {"notes": list(answered.notes)}
    return {
        "recalled": [RecalledShape.of(r).model_dump(mode="json") for r in reply.recalled],
        "traits": {name: list(traits) for name, traits in reply.traits.items()},
        "notes": list(answered.notes),
        "timings_ms": rounded(reply.timings_ms),
        "tokens": {"prompt": reply.tokens.prompt, "completion": reply.tokens.completion},
        "heard": reply.heard.id,
        "reply": reply.utterance.id if reply.utterance else None,
    }


async def answer(service: Service, asked: Asked, hear: Callable[[str], None] | None = None) -> Answered:
    """Answer a request.

    Raises:
        ApiError: the Idempotency-Key was used for another request.
        LDAgentError: as `Conversation.arespond`.
    """
    if asked.conversation is None:
        said = [("assistant" if line.by_agent else "user", line.text, line.name) for line in asked.lines]
        try:
            done = await service.agents[asked.model or service.model].answer(
                said, asked.options, bare=asked.task, on_text=hear
            )
        except ReplyStopped:
            raise ApiError(499, "the client left", "client_left") from None
        except (BackboneError, ModelError) as exc:
            raise ApiError(502, f"the model failed: {exc}; nothing was stored", "model_failed") from exc
        text, why = done.text, done.why_none("generator")
        if not text.strip() and not asked.task and not done.calls and not asked.options.passed.begun:
            text = service.agents[asked.model or service.model].resources.models.language.words.speechless
        notes = (*done.notes, *((why,) if why else ()))
        tokens = done.prompt_tokens, done.completion_tokens
        return Answered(asked.id, text, done.finish, *tokens, notes=notes, calls=done.calls)
    async with service.lock(asked.conversation):
        conversation = await service.open(asked.conversation, asked.thread or "", asked.model)
        async with conversation.relation.turnstile.aheld():
            return await _answered(service, conversation, asked, hear)


async def _answered(
    service: Service, conversation: Conversation, asked: Asked, hear: Callable[[str], None] | None
) -> Answered:
    asked = replace(asked, lines=tuple(_known_as(line, conversation) for line in asked.lines))
    if asked.key is not None:
        earlier = await service.briefly_inside(conversation, lambda: begun(service, conversation, asked))
        if earlier is not None:
            return earlier
    speaker, compared, notes = await service.briefly_inside(
        conversation, lambda: _prepared(service, conversation, asked)
    )
    listening: dict[str, Any] = {"on_text": hear, "options": asked.options}
    if compared.answer_again or not asked.lines:
        reply = await conversation.areply(await asyncio.to_thread(_now, service, conversation), **listening)
    else:
        said = asked.lines[-1]
        reply = await conversation.arespond(said.text, said.name or speaker, **listening)
    finish = CUT_OFF if INTERRUPTED in reply.notes else reply.finish
    answered = Answered(
        asked.id,
        reply.text,
        finish,
        reply.tokens.prompt,
        reply.tokens.completion,
        reply,
        (*notes, *reply.notes),
        calls=reply.calls,
    )
    await service.brief(lambda: keep(service, conversation, asked, answered))
    if FORGOTTEN in reply.notes:
        service.unexplain(conversation.id)
    else:
        service.explain(conversation.id, reply)
    service.count_tokens(reply.tokens.prompt, reply.tokens.completion)
    return answered


def _now(service: Service, conversation: Conversation) -> datetime:
    """The current time, or that of the last utterance if another server's clock was ahead."""
    last = service.agent.store.last_utterance(conversation.key, conversation.thread)
    now = service.agent.clock()
    return now if last is None else max(now, last.at)


def _prepared(
    service: Service, conversation: Conversation, asked: Asked
) -> tuple[str | None, Comparison, tuple[str, ...]]:
    """Synchronise the thread with the client's lines; return the speaker, the comparison and notes."""
    speaker = _speaker(conversation, asked.name)
    stored = _stored(service, conversation, asked)
    agent = name_key(conversation.agent_name)
    lines = [Line(name_key(u.speaker) == agent, u.text, u.speaker) for u in stored]
    if not asked.lines:
        if not lines or lines[-1].by_agent:
            raise ApiError(400, "the thread has no message of the user to answer", "invalid_messages", "messages")
        return speaker, Comparison(len(lines), 0, answer_again=True), ()
    compared = _continuing(lines, asked) or _compared(lines, asked)
    running = {u.id for u in service.agent.store.open_utterances(conversation.key, asked.thread or "")}
    left_out = stored[compared.recognised :] if compared.replaced else []
    replaced = [u for u in left_out if u.text or u.id in running]  # a line without a text may have been forgotten
    if compared.answer_again and (not stored or stored[compared.recognised - 1].id not in running):
        compared = Comparison(compared.recognised, compared.replaced, compared.missing)
    if any(u.id not in running for u in replaced):
        return speaker, Comparison(len(lines), 0), (CLOSED_SESSION,)
    if replaced:
        conversation.replace([u.id for u in replaced])
        service.unexplain(conversation.id)
    for line in compared.missing:
        conversation.observe(line.text, conversation.agent_name if line.by_agent else line.name or speaker)
    return speaker, compared, ()


def _continuing(stored: list[Line], asked: Asked) -> Comparison | None:
    """The comparison if the reply that has begun is stored, or another in its place: it is replaced by the longer one."""
    if not asked.options.passed.begun or len(stored) < 2 or not stored[-1].by_agent:
        return None
    return Comparison(len(stored) - 1, 1, answer_again=True) if same(stored[-2], asked.lines[-1]) else None


def _known_as(line: Line, conversation: Conversation) -> Line:
    """A line without a name if that is the agent's, which no person can have."""
    return replace(line, name="") if name_key(line.name) == name_key(conversation.agent_name) else line


def _stored(service: Service, conversation: Conversation, asked: Asked) -> list[Utterance]:
    """The stored lines of the thread: all of them if the client sent a history, else the running session."""
    store, thread = service.agent.store, asked.thread or ""
    if asked.thread is not None and (asked.whole or len(asked.lines) > 1):
        return store.thread_utterances(conversation.key, thread)
    return store.open_utterances(conversation.key, thread)


def _compared(stored: list[Line], asked: Asked) -> Comparison:
    """The comparison with the thread; without a thread there is none, and the last line is appended."""
    if asked.thread is None:
        return compare(stored, asked.lines[-1:], whole=False)
    return compare(stored, asked.lines, asked.whole)


def _speaker(conversation: Conversation, name: str | None) -> str | None:
    """The person's name, as in the first utterance, so that traits stay together if the display name changes."""
    agent = name_key(conversation.agent_name)
    known = conversation.relation.resources.store.first_speaker(conversation.key, conversation.agent_name)
    return known or (name if name is None or name_key(name) != agent else None)


def options(
    most: int | None,
    temperature: float | None,
    top_p: float | None,
    seed: int | None,
    instructions: str,
    passed: Passed,
) -> ReplyOptions:
    """What a request wants of its reply. Without a seed each draws its own, so that a regenerated reply differs."""
    drawn = secrets.randbits(31) if seed is None else seed
    return ReplyOptions(most, temperature, top_p, drawn, instructions, passed)


def new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex}"
