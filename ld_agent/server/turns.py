"""One turn of a chat for a request: compare it with what is stored, answer it, keep what was answered. Knows no protocol.

A turn runs on its own, so that a client that leaves or a connection that breaks ends the reply and nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ld_agent.conversation import Conversation
from ld_agent.server.errors import ApiError
from ld_agent.server.history import Comparison, Line, compare
from ld_agent.server.service import Service
from ld_agent.server.shapes import RecalledShape, rounded
from ld_agent.storage.served import Answer
from ld_agent.turn import INTERRUPTED
from ld_agent.types import Reply, ReplyOptions, Utterance
from ld_agent.watch import operation

CLOSED_SESSION = "the request changes turns of a finished session; what is remembered of it stays as it was"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks, whatever its protocol.

    Attributes:
        conversation: its id in the store; None: nothing is remembered.
        thread: None: none was named, and the request is not compared with what is stored.
        lines: the chat as the client sent it; the last is the person's, to be answered.
        whole: the client always sends the whole chat.
        name: what a new person is called in prompts.
        key: the Idempotency-Key.
        fingerprint: of the request's body.
        task: a job of the client's own, answered without the agent's instructions.
        kept: the answer is kept for `Answers.find`, with this id.
        model: which of the agents answers; "": the first.
    """

    conversation: str | None
    thread: str | None
    lines: tuple[Line, ...]
    options: ReplyOptions
    whole: bool = False
    name: str | None = None
    key: str | None = None
    fingerprint: str = ""
    task: bool = False
    id: str = ""
    kept: bool = False
    model: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request was answered with. ``reply`` is None where nothing is remembered, and for a repeated request."""

    id: str
    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    reply: Reply | None = None
    notes: tuple[str, ...] = ()
    repeated: bool = False


@dataclass(slots=True)
class RunningTurn:
    """A turn under way: its pieces as they come, then its answer."""

    work: asyncio.Task[Answered]
    _pieces: asyncio.Queue[str | None]
    _listening: list[bool] = field(default_factory=lambda: [True])

    @classmethod
    def begin(cls, service: Service, asked: Asked) -> RunningTurn:
        loop, queue, listening = asyncio.get_running_loop(), asyncio.Queue[str | None](), [True]

        def hear(piece: str) -> None:
            if not listening[0]:
                raise KeyboardInterrupt  # ends an interruptible reply; what was generated so far is kept
            loop.call_soon_threadsafe(queue.put_nowait, piece)

        async def turn() -> Answered:
            try:
                return await answer(service, asked, hear)
            finally:
                queue.put_nowait(None)

        return cls(service.start(turn()), queue, listening)

    async def pieces(self, ping: float) -> AsyncIterator[str | None]:
        """The pieces of the reply; None whenever there was none for ``ping`` seconds."""
        while True:
            try:
                piece = await asyncio.wait_for(self._pieces.get(), ping)
            except TimeoutError:
                yield None
                continue
            if piece is None:
                return
            yield piece

    def leave(self) -> None:
        """Nobody listens any more: the reply ends here, and what was generated so far is kept."""
        self._listening[0] = False
        self.work.add_done_callback(lambda work: work.cancelled() or work.exception())


def fingerprint(body: Any) -> str:
    """What tells a request from another with the same Idempotency-Key."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def explained(answered: Answered) -> dict[str, Any]:
    """Why an answer came out as it did: the ``ld_agent`` block of an answer."""
    reply = answered.reply
    if reply is None:
        return {"repeated": True} if answered.repeated else {"notes": list(answered.notes)}
    return {
        "recalled": [RecalledShape.of_recalled(r).model_dump(mode="json") for r in reply.recalled],
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
    with operation("invoke_agent", asked.conversation or "") as watched:
        watched.model, watched.agent = asked.model or service.model, service.config.agent.name
        answered = await _answer(service, asked, hear)
        watched.tokens = answered.prompt_tokens, answered.completion_tokens
        watched.said = asked.lines[-1].text, answered.text
        return answered


async def _answer(service: Service, asked: Asked, hear: Callable[[str], None] | None) -> Answered:
    if asked.conversation is None:
        said = [("assistant" if line.by_agent else "user", line.text) for line in asked.lines]
        try:
            done = await service.agents[asked.model or service.model].answer(
                said, asked.options, bare=asked.task, on_text=hear
            )
        except KeyboardInterrupt:
            raise ApiError(499, "the client left", "client_left") from None
        return Answered(asked.id, done.text, done.finish, done.prompt_tokens, done.completion_tokens)
    async with service.lock(asked.conversation):
        conversation = await service.open(asked.conversation, asked.thread or "", asked.model)
        async with conversation.relation.turnstile.aheld():
            return await _answered(service, conversation, asked, hear)


async def _answered(
    service: Service, conversation: Conversation, asked: Asked, hear: Callable[[str], None] | None
) -> Answered:
    if asked.key is not None and (repeated := await _repeated(service, conversation, asked)):
        return repeated
    speaker, compared, notes = await service.waiting(lambda: _prepared(service, conversation, asked))
    listening: dict[str, Any] = {"on_text": hear, "interruptible": hear is not None, "options": asked.options}
    if compared.answer_again:
        reply = await conversation.areply(await asyncio.to_thread(_now, service, conversation), **listening)
    else:
        reply = await conversation.arespond(asked.lines[-1].text, speaker, **listening)
    finish = "stop" if INTERRUPTED in reply.notes else reply.finish
    answered = Answered(
        asked.id, reply.text, finish, reply.tokens.prompt, reply.tokens.completion, reply, (*notes, *reply.notes)
    )
    await _keep(service, conversation, asked, answered)
    service.explain(conversation.id, reply)
    service.count_tokens(reply.tokens.prompt, reply.tokens.completion)
    return answered


def _now(service: Service, conversation: Conversation) -> datetime:
    """The time, or that of what was said last where the clock of the server that heard it is ahead of this one's."""
    last = service.agent.store.last_utterance(conversation.key, conversation.thread)
    now = service.agent.clock()
    return now if last is None else max(now, last.at)


async def _repeated(service: Service, conversation: Conversation, asked: Asked) -> Answered | None:
    found = await asyncio.to_thread(service.answers.of_request, conversation.key, asked.key or "")
    if found is None:
        return None
    if found.fingerprint != asked.fingerprint:
        raise ApiError(
            409, f"the Idempotency-Key {asked.key!r} was used for another request; give each request its own",
            "idempotency_key_reused",
        )  # fmt: skip
    text = await asyncio.to_thread(service.answers.text, conversation.key, found)
    return Answered(found.id, text, found.finish, found.prompt_tokens, found.completion_tokens, repeated=True)


async def _keep(service: Service, conversation: Conversation, asked: Asked, answered: Answered) -> None:
    reply = answered.reply
    if reply is None or reply.utterance is None or not (asked.kept or asked.key):
        return
    kept = Answer(
        answered.id, asked.thread or "", asked.key, asked.fingerprint, reply.utterance.id, answered.finish,
        answered.prompt_tokens, answered.completion_tokens, service.agent.clock(),
    )  # fmt: skip
    await asyncio.to_thread(service.answers.keep, conversation.key, kept)


def _prepared(
    service: Service, conversation: Conversation, asked: Asked
) -> tuple[str | None, Comparison, tuple[str, ...]]:
    """Bring the thread in line with what the client sent; returns who speaks, the comparison, and notes."""
    speaker = _speaker(conversation, asked.name)
    stored = _stored(service, conversation, asked)
    lines = [Line(u.speaker == conversation.agent_name, u.text) for u in stored]
    compared = compare(lines, asked.lines, asked.whole) if asked.thread is not None else _said_next(lines, asked)
    replaced = stored[compared.recognised :] if compared.replaced else []
    running = {u.id for u in service.agent.store.open_utterances(conversation.key, asked.thread or "")}
    if compared.answer_again and (not stored or stored[compared.recognised - 1].id not in running):
        compared = Comparison(compared.recognised, compared.replaced, compared.missing)
    if any(u.id not in running for u in replaced):
        return speaker, Comparison(len(lines), 0), (CLOSED_SESSION,)
    if replaced:
        conversation.replace([u.id for u in replaced])
        service.unexplain(conversation.id)
    for line in compared.missing:
        conversation.observe(line.text, conversation.agent_name if line.by_agent else speaker)
    return speaker, compared, ()


def _stored(service: Service, conversation: Conversation, asked: Asked) -> list[Utterance]:
    """What the thread holds: all of it where the client sent a history, else just the running session."""
    store, thread = service.agent.store, asked.thread or ""
    if asked.thread is not None and (asked.whole or len(asked.lines) > 1):
        return store.thread_utterances(conversation.key, thread)
    return store.open_utterances(conversation.key, thread)


def _said_next(stored: list[Line], asked: Asked) -> Comparison:
    """Without a thread nothing is compared: the last line is said next."""
    return compare(stored, asked.lines[-1:], whole=False)


def _speaker(conversation: Conversation, name: str | None) -> str | None:
    """What the person is called: as in the first utterance, so that traits stay together when a display name changes."""
    known = next((s for s in conversation.speakers if s != conversation.agent_name), None)
    return known or (name if name != conversation.agent_name else None)


def new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex}"


def checked_lines(lines: list[Line], most: int) -> tuple[Line, ...]:
    """The lines of a request.

    Raises:
        ApiError: too many, none, the last is not the person's, or it is empty.
    """
    if len(lines) > most:
        raise ApiError(
            413, f"{len(lines)} messages; send at most {most}, the latest ones", "too_many_messages", "messages"
        )
    if not lines or lines[-1].by_agent:
        raise ApiError(400, "the last message must be the user's", "invalid_messages", "messages")
    if not lines[-1].text.strip():
        raise ApiError(400, "the last message is empty; give it some text", "empty_message", "messages")
    return tuple(line for line in lines if line.text.strip())
