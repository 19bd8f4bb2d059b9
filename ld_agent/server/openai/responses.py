"""``/v1/responses``, OpenAI's newer protocol: the server stores the chat, and the client names what it continues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ld_agent.server.errors import ERRORS, ApiError
from ld_agent.server.identity import HEADERS, MEMORY_HEADER, Caller, ChatCaller, checked_id
from ld_agent.server.openai.chat import check_model
from ld_agent.server.openai.reading import AgentRequest, Content, IdempotencyKey, Text, nested, read_chat
from ld_agent.server.openai.sending import event, sent
from ld_agent.server.openai.turns import CUT_OFF, Answered, Asked, new_id
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


class TextOptions(BaseModel):
    format: dict[str, Any] | None = None


class ResponseRequest(AgentRequest):
    """The fields of OpenAI's protocol that are used here; others are ignored."""

    input: Text | Annotated[list[InputItem], Field(min_length=1)]
    instructions: Text | None = None
    previous_response_id: ResponseId | None = None
    conversation: ResponseId | ConversationRef | None = None
    max_output_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    text: TextOptions | None = None

    @property
    def format(self) -> dict[str, Any] | None:
        form = self.text.format if self.text else None
        return nested(form, ("json_schema",)) if form else None


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
    check_model(request, body.model)
    asked = await _asked(request, body, caller, idempotency_key)
    events = ResponseEvents(body, asked) if body.stream else None
    return await sent(request, asked, lambda answered: _body(body, asked, answered), events)


@router.get("/{response_id}")
async def retrieve(request: Request, caller: ChatCaller, response_id: str) -> ResponseBody:
    """Return an answer of the last month by its id."""
    service: Service = request.app.state.service
    conversation, answer = await _owned_answer(service, caller, response_id)
    stored = await service.known(conversation)
    text = await asyncio.to_thread(service.answers.text, stored.key, answer)
    answered = Answered(answer.id, text, answer.finish, answer.prompt_tokens, answer.completion_tokens, repeated=True)
    asked = Asked(stored.id, answer.thread, (), ReplyOptions(), service.model, answer.id)
    body = ResponseRequest(model=service.model, input="")
    return ResponseBody.model_validate(_body(body, asked, answered) | {"created_at": int(answer.at.timestamp())})


async def _asked(request: Request, body: ResponseRequest, caller: Caller, idempotency_key: str | None) -> Asked:
    whom = body.addressed(request)
    conversation = None if whom.person is None else caller.conversation_id(whom.person)
    answer_id = new_id("resp_")
    thread = whom.thread
    if body.conversation is not None and body.previous_response_id is not None:
        raise ApiError(400, "give conversation or previous_response_id, not both", "invalid_value", "conversation")
    if body.conversation is not None:
        ref = body.conversation
        thread = checked_id(ref if isinstance(ref, str) else ref.id, "thread")
    elif body.previous_response_id is not None:
        of_answer, answer = await _owned_answer(request.app.state.service, caller, body.previous_response_id)
        if conversation not in (None, of_answer):
            raise ApiError(404, f"no response {body.previous_response_id!r} of this person", "response_not_found")
        conversation, thread = of_answer, answer.thread
    messages = [InputItem(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    given = [m.model_dump(exclude_unset=True) for m in messages]
    lines, of_messages, passed = read_chat(given, body.passed_on, "input", continues=conversation is not None)
    instructions = "\n\n".join(text for text in (body.instructions or "", of_messages) if text.strip())
    return Asked(
        conversation,
        answer_id if thread is None else thread,
        lines,
        body.options(body.max_output_tokens, instructions, passed),
        body.model,
        answer_id,
        name=whom.name,
        key=idempotency_key,
        fingerprint=body.fingerprint(whom.thread),
        kept=conversation is not None,
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


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    identity = {"id": f"fc_{call['id']}", "type": "function_call", "status": "completed", "call_id": call["id"]}
    return {**identity, **call["function"]}


def _output(answered: Answered) -> list[dict[str, Any]]:
    said = [_message(answered.id, answered.text)] if answered.text or not answered.calls else []
    return [*said, *map(_call, answered.calls)]


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
        ld_agent=answered and answered.explained,
    ).model_dump()


class ResponseEvents:
    """A response as a stream of named and numbered events."""

    def __init__(self, body: ResponseRequest, asked: Asked) -> None:
        self._body, self._asked, self._number, self._begun = body, asked, -1, False
        item = _message(asked.id, "")["id"]
        self._place: dict[str, Any] = {"item_id": item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **values: Any) -> str:
        self._number += 1
        return f"event: {kind}\n" + event({"type": kind, "sequence_number": self._number} | values)

    def begin(self) -> Iterator[str]:
        begun = _body(self._body, self._asked, None)
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def piece(self, text: str) -> Iterator[str]:
        """The next piece of the message, which begins with its first."""
        if not self._begun:
            self._begun = True
            item = _message(self._asked.id, "", "in_progress")
            yield self._event("response.output_item.added", output_index=0, item=item)
            yield self._event("response.content_part.added", **self._place, part=_part(""))
        if text:
            yield self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, answered: Answered) -> Iterator[str]:
        """The end of the message, then calls."""
        text = answered.text
        if text or not answered.calls:
            yield from self.piece("")
        if self._begun:
            yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
            yield self._event("response.content_part.done", **self._place, part=_part(text))
            yield self._event("response.output_item.done", output_index=0, item=_message(self._asked.id, text))
        for index, call in enumerate(map(_call, answered.calls), int(self._begun)):
            place, arguments = {"item_id": call["id"], "output_index": index}, call["arguments"]
            begun = call | {"arguments": "", "status": "in_progress"}
            yield self._event("response.output_item.added", output_index=index, item=begun)
            yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
            done = {"name": call["name"], "arguments": arguments}
            yield self._event("response.function_call_arguments.done", **place, **done)
            yield self._event("response.output_item.done", output_index=index, item=call)
        response = _body(self._body, self._asked, answered)
        kind = "incomplete" if response["status"] == "incomplete" else "completed"
        yield self._event(f"response.{kind}", response=response)

    def failed(self, error: ApiError) -> Iterator[str]:
        yield self._event("error", message=error.message, code=error.code, param=error.param)
