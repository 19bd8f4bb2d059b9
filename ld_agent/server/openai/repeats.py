"""Repeated requests: each ``Idempotency-Key`` stores one turn, whatever failed in between."""

from __future__ import annotations

from dataclasses import replace

from ld_agent.conversation import Conversation
from ld_agent.server.errors import ApiError
from ld_agent.server.history import Line, same
from ld_agent.server.openai.asked import CUT_OFF, Answered, Asked
from ld_agent.server.service import Service
from ld_agent.storage.served import BEGUN, Answer
from ld_agent.types import Utterance

CALLED = "tool_calls"
"""The finish of an answer that called the client's tools; its text is not stored, so a repeated request gets another."""


def begun(service: Service, conversation: Conversation, asked: Asked) -> Answered | None:
    """Record that a keyed request is being answered, or return its earlier answer.

    Raises:
        ApiError: the key was used for another request.
    """
    answer = service.answers.of_request(conversation.key, asked.key or "")
    if answer is not None and answer.fingerprint != asked.fingerprint:
        raise ApiError(
            409,
            f"the Idempotency-Key {asked.key!r} was used for another request; give each request its own",
            "idempotency_key_reused",
        )
    if answer is not None and (settled := _settled(service, conversation, asked, answer)):
        text = service.answers.text(conversation.key, settled)
        tokens = settled.prompt_tokens, settled.completion_tokens
        return Answered(settled.id, text, settled.finish, *tokens, repeated=True)
    if answer is None or answer.finish != BEGUN:
        last = service.agent.store.last_utterance(conversation.key)
        service.answers.keep(conversation.key, _answer(service, asked, "" if last is None else last.id, BEGUN))
    return None


def keep(service: Service, conversation: Conversation, asked: Asked, answered: Answered) -> None:
    """Store the answer to a request, for repeated requests and for lookups by id."""
    reply = answered.reply
    if reply is not None and (reply.utterance is not None or answered.calls) and (asked.kept or asked.key):
        said = "" if reply.utterance is None else reply.utterance.id
        kept = _answer(service, asked, said, CALLED if answered.calls else answered.finish)
        kept = replace(kept, prompt_tokens=answered.prompt_tokens, completion_tokens=answered.completion_tokens)
        service.answers.keep(conversation.key, kept)


def _answer(service: Service, asked: Asked, reply: str, finish: str) -> Answer:
    return Answer(
        asked.id, asked.thread or "", asked.key, asked.fingerprint, reply, finish, 0, 0, service.agent.clock()
    )


def _settled(service: Service, conversation: Conversation, asked: Asked, answer: Answer) -> Answer | None:
    """The answer to hand out again; None: the reply is still to be made.

    A reply that was cut off is taken out of the thread, unless more was said since. If the server was killed while it
    answered, the reply may be there all the same.
    """
    running = service.agent.store.open_utterances(conversation.key, asked.thread or "")
    if answer.finish == BEGUN:
        reply = _replied(conversation, asked, running, answer.reply)
        return None if reply is None else replace(answer, reply=reply, finish="stop")
    if answer.finish == CALLED:
        return None
    if answer.finish != CUT_OFF or not running or running[-1].id != answer.reply:
        return answer
    conversation.replace([answer.reply])
    service.unexplain(conversation.id)
    return None


def _replied(conversation: Conversation, asked: Asked, running: list[Utterance], before: str) -> str | None:
    """The id of the reply to a request that began after another utterance; None: there is none."""
    if (
        not asked.lines
        or len(running) < 2
        or running[-1].speaker != conversation.agent_name
        or _number(running[-1].id) <= _number(before)
    ):
        return None
    heard = Line(running[-2].speaker == conversation.agent_name, running[-2].text)
    return running[-1].id if same(heard, asked.lines[-1]) else None


def _number(utterance_id: str) -> int:
    return int(utterance_id[1:] or 0)
