"""``/v1/responses``, OpenAI's newer protocol: the server stores the chat, and the client names what it continues."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ld_agent.server.errors import ERRORS, ApiError, as_api_error
from ld_agent.server.identity import HEADERS, MEMORY_HEADER, Caller, ChatCaller, addressed, checked_id
from ld_agent.server.openai.asked import CUT_OFF, Answered, Asked
from ld_agent.server.openai.chat import SEED, IdempotencyKey, check_model
from ld_agent.server.openai.handing_out import handed_out
from ld_agent.server.openai.reading import Content, Text, ToolRequest, read_chat
from ld_agent.server.openai.turns import RunningTurn, explained, fingerprint, new_id, options
from ld_agent.server.service import Service
from ld_agent.types import ReplyOptions

STATUS = {"length": "incomplete", CUT_OFF: "cancelled"}
ResponseId = Annotated[str, Field(min_length=1, max_length=200)]


class InputItem(BaseModel):
    """A message, or an item of another type: a call of a tool, its result."""

    model_config = ConfigDict(extra="allow")
    type: str = "message"
    role: Literal["system", "developer", "user", "assistant", "tool"] | None = None
    content: Content | None = None
    name: Annotated[str | None, Field(description="Who says this, where several people talk.")] = None


class ConversationRef(BaseModel):
    id: ResponseId


class ResponseRequest(ToolRequest):
    """The fields of OpenAI's protocol that are used here; others are ignored."""

    model: str
    input: Text | Annotated[list[InputItem], Field(min_length=1)]
    instructions: Text | None = None
    previous_response_id: ResponseId | None = None
    conversation: ResponseId | ConversationRef | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    seed: Annotated[int | None, SEED] = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None


class ResponseBody(BaseModel):
    """A response in OpenAI's format."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Literal["completed", "incomplete", "in_progress", "cancelled"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None
    previous_response_id: str | None
    conversation: ConversationRef | None
    instructions: str | None
    metadata: dict[str, str]
    error: None = None
    incomplete_details: dict[str, str] | None = None
    parallel_tool_calls: bool = False
    tool_choice: str | dict[str, Any] = "none"
    tools: list[dict[str, Any]] = []
    temperature: float | None = None
    top_p: float | None = None
    ld_agent: dict[str, Any] | None = None


router = APIRouter(prefix="/v1/responses", tags=["chat"], responses=ERRORS)


@router.post(
    "",
    response_model=ResponseBody,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "headers": MEMORY_HEADER}},
    openapi_extra={"parameters": HEADERS},
)
async def respond(
    request: Request, body: ResponseRequest, caller: ChatCaller, idempotency_key: IdempotencyKey = None
) -> Any:
    """Talk with the agent; `conversation` or `previous_response_id` names the thread. Persons are named as in chat completions.

    Without either a new thread begins, which the id of the answer continues. Without a person nothing is remembered.
    """
    service: Service = request.app.state.service
    check_model(service, body.model)
    asked = await _asked(request, service, body, caller, idempotency_key)

    def events(turn: RunningTurn) -> AsyncIterator[str]:
        return _events(turn, body, asked)

    return await handed_out(
        request, service, asked, lambda answered: _body(body, asked, answered), events if body.stream else None
    )


@router.get("/{response_id}")
async def retrieve(request: Request, caller: ChatCaller, response_id: str) -> ResponseBody:
    """Return an answer of the last month by its id."""
    service: Service = request.app.state.service
    conversation, answer = await _owned_answer(service, caller, response_id)
    stored = await service.stored(conversation)
    text = await asyncio.to_thread(service.answers.text, stored.key, answer)
    answered = Answered(answer.id, text, answer.finish, answer.prompt_tokens, answer.completion_tokens, repeated=True)
    asked = Asked(conversation, answer.thread, (), ReplyOptions(), id=answer.id)
    body = ResponseRequest(model=service.model, input="")
    return ResponseBody.model_validate(_body(body, asked, answered) | {"created_at": int(answer.at.timestamp())})


async def _asked(
    request: Request, service: Service, body: ResponseRequest, caller: Caller, idempotency_key: str | None
) -> Asked:
    whom = addressed(request, body.user or body.safety_identifier, body.metadata)
    conversation = None if whom.person is None else caller.conversation_id(whom.person)
    answer_id = new_id("resp_")
    thread = whom.thread
    if body.conversation is not None and body.previous_response_id is not None:
        raise ApiError(400, "give conversation or previous_response_id, not both", "invalid_value", "conversation")
    if body.conversation is not None:
        ref = body.conversation
        thread = checked_id(ref if isinstance(ref, str) else ref.id, "thread")
    elif body.previous_response_id is not None:
        of_answer, answer = await _owned_answer(service, caller, body.previous_response_id)
        if conversation not in (None, of_answer):
            raise ApiError(404, f"no response {body.previous_response_id!r} of this person", "response_not_found")
        conversation, thread = of_answer, answer.thread
    messages = [InputItem(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    given = [m.model_dump(exclude_unset=True) for m in messages]
    chat = read_chat(given, body.of_tools, "input", continues=conversation is not None)
    instructions = "\n\n".join(text for text in (body.instructions or "", chat.instructions) if text.strip())
    return Asked(
        conversation,
        answer_id if thread is None else thread,
        chat.lines,
        options(body.max_output_tokens, body.temperature, body.top_p, body.seed, instructions, chat.passed),
        False,
        whom.name,
        idempotency_key,
        fingerprint(body.model_dump()),
        False,
        answer_id,
        conversation is not None,
        body.model,
    )


async def _owned_answer(service: Service, caller: Caller, response_id: str) -> tuple[str, Any]:
    """The conversation and answer with an id, if they belong to the caller."""
    stored = await asyncio.to_thread(service.answers.find, response_id)
    if stored is not None:
        conversation, answer = stored
        if caller.owns(conversation):
            return conversation, answer
    raise ApiError(404, f"no response {response_id[:60]!r}", "response_not_found", "previous_response_id")


def _message(answered_id: str, text: str, status: str = "completed") -> dict[str, Any]:
    content = [] if status == "in_progress" else [_part(text)]
    identity = "msg_" + answered_id.removeprefix("resp_")
    return {"id": identity, "type": "message", "role": "assistant", "status": status, "content": content}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _calls(answered: Answered) -> list[dict[str, Any]]:
    """The calls of an answer as items of responses."""
    return [
        {
            "id": f"fc_{call['id']}",
            "type": "function_call",
            "status": "completed",
            "call_id": call["id"],
            **call["function"],
        }
        for call in answered.calls
    ]


def _output(answered: Answered) -> list[dict[str, Any]]:
    said = [_message(answered.id, answered.text)] if answered.text or not answered.calls else []
    return [*said, *_calls(answered)]


def _body(body: ResponseRequest, asked: Asked, answered: Answered | None) -> dict[str, Any]:
    """The response; None: it has just begun."""
    cut = answered is not None and answered.finish == "length"
    status: Any = "in_progress" if answered is None else STATUS.get(answered.finish, "completed")
    usage = answered and {
        "input_tokens": answered.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answered.prompt_tokens + answered.completion_tokens,
    }
    return ResponseBody(
        id=answered.id if answered else asked.id,
        created_at=int(time.time()),
        status=status,
        model=body.model,
        output=_output(answered) if answered else [],
        usage=usage,
        previous_response_id=body.previous_response_id,
        conversation=ConversationRef(id=asked.thread) if body.conversation is not None and asked.thread else None,
        instructions=body.instructions,
        metadata=body.metadata or {},
        parallel_tool_calls=bool(body.parallel_tool_calls),
        tool_choice=body.tool_choice or ("auto" if body.tools else "none"),
        tools=body.tools or [],
        incomplete_details={"reason": "max_output_tokens"} if cut else None,
        temperature=body.temperature,
        top_p=body.top_p,
        ld_agent=None if answered is None else explained(answered),
    ).model_dump()


class _Events:
    """The named and numbered server-sent events of one response."""

    def __init__(self, asked: Asked) -> None:
        self._id, self._number, self._said, self._begun = asked.id, -1, "", False
        item = _message(asked.id, "")["id"]
        self._place: dict[str, Any] = {"item_id": item, "output_index": 0, "content_index": 0}

    def event(self, kind: str, **values: Any) -> str:
        self._number += 1
        data = {"type": kind, "sequence_number": self._number} | values
        return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    def piece(self, text: str) -> Iterator[str]:
        """The next piece of the message, which begins with its first."""
        if not self._begun:
            self._begun = True
            yield self.event("response.output_item.added", output_index=0, item=_message(self._id, "", "in_progress"))
            yield self.event("response.content_part.added", **self._place, part=_part(""))
        if text:
            self._said += text
            yield self.event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def items(self, answered: Answered) -> Iterator[str]:
        """What is left of the answer: the end of its message, then calls."""
        text = answered.text
        if text or not answered.calls:
            yield from self.piece(text[len(self._said) :] if text.startswith(self._said) else "")
        if self._begun:
            yield self.event("response.output_text.done", **self._place, text=text, logprobs=[])
            yield self.event("response.content_part.done", **self._place, part=_part(text))
            yield self.event("response.output_item.done", output_index=0, item=_message(self._id, text))
        for index, call in enumerate(_calls(answered), int(self._begun)):
            place = {"item_id": call["id"], "output_index": index}
            begun = call | {"arguments": "", "status": "in_progress"}
            yield self.event("response.output_item.added", output_index=index, item=begun)
            yield self.event("response.function_call_arguments.delta", **place, delta=call["arguments"])
            yield self.event(
                "response.function_call_arguments.done", **place, name=call["name"], arguments=call["arguments"]
            )
            yield self.event("response.output_item.done", output_index=index, item=call)


async def _events(turn: RunningTurn, body: ResponseRequest, asked: Asked) -> AsyncIterator[str]:
    """The response while it is generated."""
    events, begun = _Events(asked), _body(body, asked, None)
    try:
        yield events.event("response.created", response=begun)
        yield events.event("response.in_progress", response=begun)
        async for piece in turn.pieces():
            if piece is None:
                yield ": waiting\n\n"
            for event in events.piece(piece) if piece else ():
                yield event
        answered = await turn.work
        for event in events.items(answered):
            yield event
        done = _body(body, asked, answered)
        yield events.event(
            "response.incomplete" if done["status"] == "incomplete" else "response.completed", response=done
        )
    except Exception as exc:
        error = as_api_error(exc)
        yield events.event("error", message=error.message, code=error.code, param=error.param)
    finally:
        turn.leave()
