"""One turn for a chat request, whatever its protocol: compare it with the store, answer it, keep the answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from ld_agent.conversation import Conversation
from ld_agent.errors import BackboneError, ModelError, ReplyStopped
from ld_agent.passed import Aside, Passed
from ld_agent.revising.forgetting import FORGOTTEN
from ld_agent.server.errors import ApiError, model_error
from ld_agent.server.history import Comparison, Line, compare, same
from ld_agent.server.service import Service
from ld_agent.server.shapes import RecalledShape
from ld_agent.storage.served import BEGUN, Answer
from ld_agent.turn import INTERRUPTED
from ld_agent.types import Reply, ReplyOptions, Utterance, name_key

CLOSED_SESSION = "the request changes turns of a finished session; its memory is not changed"
CUT_OFF = "interrupted"
"""The finish of a reply whose client left; the same request, repeated, gets a complete one."""
CALLED = "tool_calls"
"""The finish of an answer that called the client's tools; its text is not stored, so a repeated request gets another."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks, whatever its protocol.

    Attributes:
        conversation: its id in the store; None: nothing is remembered.
        thread: None: none was named, and the request is not compared with what is stored.
        lines: the chat as the client sent it; the last is a person's, to be answered; none: the thread's last line is.
        model: which of the agents answers.
        whole: the client always sends the whole chat.
        name: what a new person is called in prompts.
        key: the Idempotency-Key.
        fingerprint: of the request's body and thread.
        task: a job of the client's own, answered without the agent's instructions.
        kept: the answer is kept for `Answers.find`, with this id.
    """

    conversation: str | None
    thread: str | None
    lines: tuple[Line, ...]
    options: ReplyOptions
    model: str
    id: str
    whole: bool = False
    name: str | None = None
    key: str | None = None
    fingerprint: str = ""
    task: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request was answered with.

    Attributes:
        finish: "stop", "length", or `CUT_OFF`.
        reply: None where nothing is remembered, and for a repeated request.
        calls: of the client's tools.
    """

    id: str
    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    reply: Reply | None = None
    notes: tuple[str, ...] = ()
    repeated: bool = False
    calls: tuple[Mapping[str, Any], ...] = ()

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """`finish` in the words of OpenAI's protocol."""
        if self.calls:
            return "tool_calls"
        return "length" if self.finish == "length" else "stop"

    @property
    def explained(self) -> dict[str, Any]:
        """The explanation of an answer: its ``ld_agent`` block."""
        reply = self.reply
        if reply is None:
            return {"repeated": True} if self.repeated else {"notes": list(self.notes)}
        return {
            "recalled": [RecalledShape.of(r).model_dump(mode="json") for r in reply.recalled],
            "traits": {name: list(traits) for name, traits in reply.traits.items()},
            "notes": list(self.notes),
            "timings_ms": {name: round(value, 1) for name, value in reply.timings_ms.items()},
            "tokens": {"prompt": reply.tokens.prompt, "completion": reply.tokens.completion},
            "heard": reply.heard.id,
            "reply": reply.utterance.id if reply.utterance else None,
        }


def new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex}"


async def answer(service: Service, asked: Asked, hear: Callable[[str], None] | None = None) -> Answered:
    """Answer a request. Raises as `Conversation.arespond`, and ApiError."""
    if asked.conversation is None:
        return await _without_memory(service, asked, hear)
    async with service.lock(asked.conversation):
        conversation = await service.open(asked.conversation, asked.thread or "", asked.model)
        agent = name_key(conversation.agent_name)  # which no person can have
        kept = service.agent.store.redaction.kept  # as the lines are stored, which they are compared with
        lines = tuple(
            replace(line, text=kept(line.text), name="" if name_key(line.name) == agent else line.name)
            for line in asked.lines
        )
        named = asked.thread is not None  # otherwise nothing is compared, and the last line is appended
        asked = replace(asked, lines=lines if named else lines[-1:], whole=named and asked.whole)
        async with conversation.relation.turnstile.aheld():
            return await _Turn(service, conversation, asked).answered(hear)


async def _without_memory(service: Service, asked: Asked, hear: Callable[[str], None] | None) -> Answered:
    agent = service.agents[asked.model]
    said = [("assistant" if line.by_agent else "user", line.text, line.name) for line in asked.lines]
    try:
        done = await agent.answer(said, asked.options, bare=asked.task, on_text=hear)
    except ReplyStopped:
        raise ApiError(499, "the client left", "client_left") from None
    except (BackboneError, ModelError) as exc:
        raise model_error(exc, "nothing was stored") from exc
    text, why = done.text, done.why_none("generator")
    if not (text.strip() or asked.task or done.calls or asked.options.passed.begun):
        text = agent.resources.models.language.words.speechless
    notes, tokens = (*done.notes, *filter(None, [why])), (done.prompt_tokens, done.completion_tokens)
    return Answered(asked.id, text, done.finish, *tokens, notes=notes, calls=done.calls)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn in an open conversation."""

    service: Service
    conversation: Conversation
    asked: Asked

    async def answered(self, hear: Callable[[str], None] | None) -> Answered:
        service, conversation, asked = self.service, self.conversation, self.asked
        if asked.key is not None and (earlier := await service.briefly_inside(conversation, self.earlier)):
            return earlier
        speaker, compared, notes = await service.briefly_inside(conversation, self.prepared)
        passed = await service.brief(self.passed)
        listening: dict[str, Any] = {"on_text": hear, "options": replace(asked.options, passed=passed)}
        if compared.answer_again or not asked.lines:
            reply = await conversation.areply(await service.brief(self.now), **listening)
        else:
            said = asked.lines[-1]
            reply = await conversation.arespond(said.text, said.name or speaker, **listening)
        finish = CUT_OFF if INTERRUPTED in reply.notes else reply.finish
        tokens = reply.tokens.prompt, reply.tokens.completion
        notes = (*notes, *reply.notes)
        answered = Answered(asked.id, reply.text, finish, *tokens, reply, notes, calls=reply.calls)
        await service.brief(lambda: self.keep(answered, reply))
        wire = {"role": "assistant", "content": reply.text or None, "tool_calls": [*reply.calls]}
        exchange = (*(a for a in passed.asides if a.after == reply.heard.text), Aside(reply.heard.text, "", "", wire))
        service.keep_exchange(conversation.id, asked.thread or "", exchange if reply.calls else ())
        if FORGOTTEN in reply.notes:
            service.unexplain(conversation.id)
        else:
            service.explain(conversation.id, reply)
        service.count_tokens(*tokens)
        return answered

    def passed(self) -> Passed:
        """What the request has besides text; tools' results alone follow the line and the calls that they answer."""
        passed = self.asked.options.passed
        if self.asked.lines:
            return passed
        called = {str(call.get("id")) for aside in passed.asides for call in aside.wire.get("tool_calls", ())}
        whole = all(aside.wire.get("tool_call_id", "") in called for aside in passed.asides if aside.text)
        kept = () if whole else self.service.exchanges.get((self.conversation.id, self.asked.thread or ""), ())
        heard = self.running()[-1].text
        return replace(passed, asides=(*kept, *(replace(aside, after=heard) for aside in passed.asides)))

    def now(self) -> datetime:
        """The current time, or that of the last utterance if another server's clock was ahead."""
        last = self.service.agent.store.last_utterance(self.conversation.key, self.conversation.thread)
        now = self.service.agent.clock()
        return now if last is None else max(now, last.at)

    def prepared(self) -> tuple[str | None, Comparison, tuple[str, ...]]:
        """Synchronise the thread with the client's lines; return the speaker, the comparison and notes."""
        conversation, asked, speaker = self.conversation, self.asked, self.speaker()
        stored, agent = self.stored(), name_key(conversation.agent_name)
        lines = [Line(name_key(u.speaker) == agent, u.text, u.speaker) for u in stored]
        if not asked.lines:
            if not lines or lines[-1].by_agent:
                raise ApiError(400, "the thread has no message of the user to answer", "invalid_messages", "messages")
            return speaker, Comparison(len(lines), 0, answer_again=True), ()
        compared = self.continuing(lines) or compare(lines, asked.lines, asked.whole)
        running = {u.id for u in self.running()}
        left_out = stored[compared.recognised :] if compared.replaced else []
        replaced = [u for u in left_out if u.text or u.id in running]  # a line without a text may have been forgotten
        if compared.answer_again and (not stored or stored[compared.recognised - 1].id not in running):
            compared = replace(compared, answer_again=False)
        if any(u.id not in running for u in replaced):
            return speaker, Comparison(len(lines), 0), (CLOSED_SESSION,)
        if replaced:
            conversation.replace([u.id for u in replaced])
            self.service.unexplain(conversation.id)
        for line in compared.missing:
            conversation.observe(line.text, conversation.agent_name if line.by_agent else line.name or speaker)
        return speaker, compared, ()

    def continuing(self, stored: list[Line]) -> Comparison | None:
        """The comparison if the reply that has begun is stored, or another in its place: it is replaced by the longer one."""
        if not self.asked.options.passed.begun or len(stored) < 2 or not stored[-1].by_agent:
            return None
        return Comparison(len(stored) - 1, 1, answer_again=True) if same(stored[-2], self.asked.lines[-1]) else None

    def running(self) -> list[Utterance]:
        return self.service.agent.store.open_utterances(self.conversation.key, self.asked.thread or "")

    def stored(self) -> list[Utterance]:
        """The stored lines of the thread: all of them if the client sent a history, else the running session."""
        if not self.asked.whole and len(self.asked.lines) <= 1:
            return self.running()
        return self.service.agent.store.thread_utterances(self.conversation.key, self.asked.thread or "")

    def speaker(self) -> str | None:
        """The person's name, as in the first utterance, so that traits stay together if the display name changes."""
        agent, name = self.conversation.agent_name, self.asked.name
        known = self.service.agent.store.first_speaker(self.conversation.key, agent)
        return known or (name if name is None or name_key(name) != name_key(agent) else None)

    # ---- repeated requests: each Idempotency-Key stores one turn, whatever failed in between

    def earlier(self) -> Answered | None:
        """Record that a keyed request is being answered, or return its earlier answer; a key is for one request."""
        answers, key, asked = self.service.answers, self.conversation.key, self.asked
        answer = answers.of_request(key, asked.key or "")
        if answer is not None and answer.fingerprint != asked.fingerprint:
            text = f"the Idempotency-Key {asked.key!r} was used for another request; give each request its own"
            raise ApiError(409, text, "idempotency_key_reused")
        if answer is not None and (settled := self.settled(answer)):
            tokens = settled.prompt_tokens, settled.completion_tokens
            return Answered(settled.id, answers.text(key, settled), settled.finish, *tokens, repeated=True)
        if answer is None or answer.finish != BEGUN:
            last = self.service.agent.store.last_utterance(key)
            answers.keep(key, self.answer("" if last is None else last.id, BEGUN))
        return None

    def keep(self, answered: Answered, reply: Reply) -> None:
        """Store the answer to a request, for repeated requests and for lookups by id."""
        if (reply.utterance is not None or answered.calls) and (self.asked.kept or self.asked.key):
            said, finish = reply.utterance.id if reply.utterance else "", CALLED if answered.calls else answered.finish
            kept = self.answer(said, finish, answered.prompt_tokens, answered.completion_tokens)
            self.service.answers.keep(self.conversation.key, kept)

    def answer(self, reply: str, finish: str, prompt_tokens: int = 0, completion_tokens: int = 0) -> Answer:
        asked, now = self.asked, self.service.agent.clock()
        identity = asked.id, asked.thread or "", asked.key, asked.fingerprint
        return Answer(*identity, reply, finish, prompt_tokens, completion_tokens, now)

    def settled(self, answer: Answer) -> Answer | None:
        """The answer to hand out again; None: the reply is still to be made.

        A reply that was cut off is taken out of the thread, unless more was said since. If the server was killed while it
        answered, the reply may be there all the same.
        """
        running = self.running()
        if answer.finish == BEGUN:
            return replace(answer, reply=running[-1].id, finish="stop") if self.replied(running, answer.reply) else None
        if answer.finish == CALLED:
            return None
        if answer.finish != CUT_OFF or not running or running[-1].id != answer.reply:
            return answer
        self.conversation.replace([answer.reply])
        self.service.unexplain(self.conversation.id)
        return None

    def replied(self, running: list[Utterance], before: str) -> bool:
        """Whether what was said last is the reply to a request that began after another utterance."""
        agent = self.conversation.agent_name
        if not self.asked.lines or len(running) < 2 or running[-1].speaker != agent:
            return False
        heard = Line(running[-2].speaker == agent, running[-2].text)
        return _number(running[-1].id) > _number(before) and same(heard, self.asked.lines[-1])


def _number(utterance_id: str) -> int:
    return int(utterance_id[1:] or 0)
