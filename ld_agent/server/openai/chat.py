"""``POST /v1/chat/completions`` and ``GET /v1/models``, compatible with OpenAI's clients. Clients need not know that the
agent remembers."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, Field

from ld_agent.server.errors import ERRORS, ApiError, as_api_error
from ld_agent.server.history import is_task
from ld_agent.server.identity import HEADERS, MEMORY_HEADER, ChatCaller, addressed
from ld_agent.server.openai.asked import Answered, Asked
from ld_agent.server.openai.handing_out import handed_out
from ld_agent.server.openai.reading import ChatMessage, ToolRequest, read_chat
from ld_agent.server.openai.turns import RunningTurn, explained, fingerprint, new_id, options
from ld_agent.server.service import Service

SEED = Field(ge=1 - 2**53, le=2**53 - 1, description="Of the sampling. Default: another one for each request.")
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A repeated request gets the same answer and is stored once.",
    ),
]


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class ChatRequest(ToolRequest):
    """The fields of OpenAI's protocol that are used here; others are ignored."""

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    seed: Annotated[int | None, SEED] = None
    n: Annotated[int | None, Field(ge=1, le=1)] = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None


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


router = APIRouter(tags=["chat"], responses=ERRORS)


@router.get("/v1/models")
async def models(request: Request, caller: ChatCaller) -> ModelList:
    """The available agents, under the names of their configs."""
    service: Service = request.app.state.service
    return ModelList(data=[ModelCard(id=name, created=request.app.state.started) for name in service.agents])


@router.get("/v1/models/{model}")
async def model(request: Request, caller: ChatCaller, model: str) -> ModelCard:
    """One agent."""
    service: Service = request.app.state.service
    check_model(service, model)
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
    service: Service = request.app.state.service
    check_model(service, body.model)
    whom = addressed(request, body.user or body.safety_identifier, body.metadata)
    chat = read_chat([m.model_dump(exclude_unset=True) for m in body.messages], body.of_tools)
    task = is_task(chat.lines, chat.instructions, bool(body.stream))
    most = body.max_completion_tokens or body.max_tokens
    asked = Asked(
        None if whom.person is None or task else caller.conversation_id(whom.person),
        whom.thread,
        chat.lines,
        options(most, body.temperature, body.top_p, body.seed, chat.instructions, chat.passed),
        whom.whole,
        whom.name,
        idempotency_key,
        fingerprint(body.model_dump()),
        task,
        new_id("chatcmpl-"),
        model=body.model,
    )
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)

    def events(turn: RunningTurn) -> AsyncIterator[str]:
        return stream(turn, asked, with_usage)

    return await handed_out(
        request, service, asked, lambda answered: _completion(asked, answered), events if body.stream else None
    )


def check_model(service: Service, name: str) -> None:
    """Check that a model is served.

    Raises:
        ApiError: 404.
    """
    if name not in service.agents:
        shown, there = name if len(name) <= 60 else name[:60] + "…", ", ".join(map(repr, service.agents))
        raise ApiError(404, f"no model {shown!r}; this server has {there}", "model_not_found", "model")


def usage(answered: Answered) -> Usage:
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
        usage=usage(answered),
        ld_agent=explained(answered),
    ).model_dump(exclude_none=True)


async def stream(turn: RunningTurn, asked: Asked, with_usage: bool) -> AsyncIterator[str]:
    """The reply as server-sent events, with comments to keep an idle connection alive."""
    head: dict[str, Any] = {
        "id": asked.id,
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": asked.model,
    }
    head |= {"usage": None} if with_usage else {}  # of every chunk but the last

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)

    said = ""
    try:
        yield chunk({"role": "assistant", "content": ""})
        async for piece in turn.pieces():
            if piece is None:
                yield ": waiting\n\n"
            else:
                said += piece
                yield chunk({"content": piece})
        answered = await turn.work
        if answered.text.startswith(said) and answered.text != said:
            yield chunk({"content": answered.text[len(said) :]})
        if answered.calls:
            yield chunk({"tool_calls": [{"index": n, **call} for n, call in enumerate(answered.calls)]})
        yield chunk({}, answered.finish_reason, ld_agent=explained(answered))
        if with_usage:
            yield event(head | {"choices": [], "usage": usage(answered).model_dump()})
    except Exception as exc:
        yield event(as_api_error(exc).body)
    finally:
        turn.leave()
    yield "data: [DONE]\n\n"


def event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
