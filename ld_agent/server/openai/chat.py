"""``POST /v1/chat/completions`` and ``GET /v1/models``, compatible with OpenAI's clients. Clients need not know that the
agent remembers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from ld_agent.server.errors import ERRORS, ApiError
from ld_agent.server.history import is_task
from ld_agent.server.identity import HEADERS, MEMORY_HEADER, ChatCaller
from ld_agent.server.openai.reading import AgentRequest, ChatMessage, IdempotencyKey, read_chat
from ld_agent.server.openai.sending import event, sent
from ld_agent.server.openai.turns import Answered, Asked, new_id
from ld_agent.server.service import Service


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class ChatRequest(AgentRequest):
    """The fields of OpenAI's protocol that are used here; others are ignored."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    n: Annotated[int | None, Field(ge=1, le=1)] = None
    response_format: dict[str, Any] | None = None

    @property
    def format(self) -> dict[str, Any] | None:
        return self.response_format


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AssistantMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None
    tool_calls: list[dict[str, Any]] | None = None


class Choice(BaseModel):
    index: int = 0
    message: AssistantMessage
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    ld_agent: dict[str, Any] | None = None


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "ld_agent"


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


DONE = "data: [DONE]\n\n"
router = APIRouter(tags=["chat"], responses=ERRORS)


@router.get("/v1/models")
async def models(request: Request, caller: ChatCaller) -> ModelList:
    """The available agents, under the names of their configs."""
    service: Service = request.app.state.service
    return ModelList(data=[ModelCard(id=name, created=request.app.state.started) for name in service.agents])


@router.get("/v1/models/{model}")
async def model(request: Request, caller: ChatCaller, model: str) -> ModelCard:
    """One agent."""
    check_model(request, model)
    return ModelCard(id=model, created=request.app.state.started)


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    response_model_exclude_none=True,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "headers": MEMORY_HEADER}},
    openapi_extra={"parameters": HEADERS},
)
async def chat_completions(
    request: Request, body: ChatRequest, caller: ChatCaller, idempotency_key: IdempotencyKey = None
) -> Any:
    """Chat with the agent.

    A person is named by the header `X-LD-Person` or `X-OpenWebUI-User-Id`, or by `user` or `safety_identifier`; without one
    nothing is remembered, and the header `X-LD-Memory` says so. A thread is named by `X-LD-Thread`, `X-OpenWebUI-Chat-Id`
    or `metadata.thread`.
    """
    check_model(request, body.model)
    whom = body.addressed(request)
    messages = [m.model_dump(exclude_unset=True) for m in body.messages]
    lines, instructions, passed = read_chat(messages, body.passed_on)
    task = is_task(lines, instructions, bool(body.stream))
    asked = Asked(
        None if whom.person is None or task else caller.conversation_id(whom.person),
        whom.thread,
        lines,
        body.options(body.max_completion_tokens or body.max_tokens, instructions, passed),
        body.model,
        new_id("chatcmpl-"),
        whole=whom.whole,
        name=whom.name,
        key=idempotency_key,
        fingerprint=body.fingerprint(whom.thread),
        task=task,
    )
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    events = ChatEvents(asked, with_usage) if body.stream else None
    return await sent(request, asked, lambda answered: _completion(asked, answered), events)


def check_model(request: Request, name: str) -> None:
    """Refuse a model that is not served."""
    names = request.app.state.service.agents
    if name not in names:
        shown, there = name if len(name) <= 60 else name[:60] + "…", ", ".join(map(repr, names))
        raise ApiError(404, f"no model {shown!r}; this server has {there}", "model_not_found", "model")


def _usage(answered: Answered) -> Usage:
    prompt, completion = answered.prompt_tokens, answered.completion_tokens
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _completion(asked: Asked, answered: Answered) -> dict[str, Any]:
    calls = [dict(call) for call in answered.calls] or None
    message = AssistantMessage(content=answered.text if answered.text or not calls else None, tool_calls=calls)
    return ChatCompletion(
        id=answered.id,
        created=int(time.time()),
        model=asked.model,
        choices=[Choice(message=message, finish_reason=answered.finish_reason)],
        usage=_usage(answered),
        ld_agent=answered.explained,
    ).model_dump(exclude_none=True)


class ChatEvents:
    """A completion as a stream of chunks."""

    def __init__(self, asked: Asked, with_usage: bool) -> None:
        now, self._with_usage = int(time.time()), with_usage
        self._head = {"id": asked.id, "object": "chat.completion.chunk", "created": now, "model": asked.model}
        self._head |= {"usage": None} if with_usage else {}  # of every chunk but the last

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return event(self._head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)

    def begin(self) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> Iterator[str]:
        yield self._chunk({"content": text})

    def end(self, answered: Answered) -> Iterator[str]:
        if answered.calls:
            yield self._chunk({"tool_calls": [{"index": n, **call} for n, call in enumerate(answered.calls)]})
        yield self._chunk({}, answered.finish_reason, ld_agent=answered.explained)
        if self._with_usage:
            yield event(self._head | {"choices": [], "usage": _usage(answered).model_dump()})
        yield DONE

    def failed(self, error: ApiError) -> Iterator[str]:
        yield event(error.body)
        yield DONE
