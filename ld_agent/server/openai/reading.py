"""What a request says, in either of OpenAI's protocols: the lines to remember, and what only the model gets. Knows no store."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal

from fastapi import Header, Request
from pydantic import BaseModel, ConfigDict, Field

from ld_agent.backbones.base import FORMAT
from ld_agent.backbones.client_message import ClientMessage, client_messages
from ld_agent.errors import InputError
from ld_agent.passed import Aside, Passed
from ld_agent.server.errors import ApiError
from ld_agent.server.history import Line
from ld_agent.server.identity import Addressed, addressed, usable_name
from ld_agent.types import ReplyOptions

MESSAGES = 1000
"""Maximum number of messages in a request."""
LONGEST = 1_000_000
"""Maximum number of characters of a message's text."""
Text = Annotated[str, Field(max_length=LONGEST)]
Content = Text | list[dict[str, Any]]
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
MOST = 2 * 2**20
"""Maximum number of characters of all texts."""
TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
KINDS_OF_TOOLS = ("function", "custom")
SCHEMES = ("data:", "https:")
"""The addresses of media that are passed on: others would let a client read from the network and disk of the endpoint."""


class ChatMessage(BaseModel):
    """A message. What is not text is passed on to a model that takes it, and remembered as its place: "[image]"."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: Annotated[str | None, Field(description="Who says this, where several people talk.")] = None


class AgentRequest(BaseModel):
    """The fields that both protocols share, and what they say of the reply."""

    model: str
    stream: bool | None = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    seed: Annotated[int | None, SEED] = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    def addressed(self, request: Request) -> Addressed:
        return addressed(request, self.user or self.safety_identifier, self.metadata)

    def options(self, most: int | None, instructions: str, passed: Passed) -> ReplyOptions:
        """What a request wants of its reply. Without a seed each draws its own, so that a regenerated reply differs."""
        seed = secrets.randbits(31) if self.seed is None else self.seed
        return ReplyOptions(most, self.temperature, self.top_p, seed, instructions, passed)

    def fingerprint(self, thread: str | None) -> str:
        """What distinguishes requests, in a thread, with the same Idempotency-Key."""
        return hashlib.sha256((json.dumps(self.model_dump(), sort_keys=True) + (thread or "")).encode()).hexdigest()

    @property
    def format(self) -> dict[str, Any] | None:
        """The form of the reply, as in chat completions; None: text."""
        return None

    @property
    def passed_on(self) -> dict[str, Any]:
        """The parameters for the model's call."""
        form = self.format or {}
        return self.of_tools | ({FORMAT: form} if form.get("type", "text") != "text" else {})

    @property
    def of_tools(self) -> dict[str, Any]:
        """The parameters for chat completions, where a tool has an object of its own; only of tools that the client runs."""
        given = {name: getattr(self, name) for name in TOOLS if getattr(self, name) is not None}
        if not self.tools:
            return {}
        for number, tool in enumerate(self.tools):
            if (kind := tool.get("type", "function")) not in KINDS_OF_TOOLS:
                kind = str(kind)[:40]
                text = f"tools[{number}]: type {kind!r} is not supported; give tools of type function or custom"
                raise ApiError(400, text, "unsupported_tool", "tools")
        given["tools"] = [nested(tool) for tool in self.tools]
        if isinstance(self.tool_choice, dict):
            given["tool_choice"] = nested(self.tool_choice)
        return given


def nested(given: Mapping[str, Any], kinds: Sequence[str] = KINDS_OF_TOOLS) -> dict[str, Any]:
    """A tool or format of responses as in chat completions, where what these kinds say has an object of its own."""
    kind = str(given.get("type"))
    if kind not in kinds or kind in given:
        return dict(given)
    return {"type": kind, kind: {key: value for key, value in given.items() if key != "type"}}


def read_chat(
    given: Sequence[Mapping[str, Any]],
    passed_on: Mapping[str, Any],
    where: str = "messages",
    *,
    continues: bool = False,
) -> tuple[tuple[Line, ...], str, Passed]:
    """Read a request's messages or items, or refuse them.

    Args:
        passed_on: parameters for the model's call.
        where: the field that holds them, for errors.
        continues: the request may consist of tools' results alone.

    Returns:
        what people and the agent said, whose last line is a person's, to be answered; without any, the answer is to the thread's
        last line. Then the instructions of the system's messages, and what is no line: images, tools and their results, a
        reply that has begun.
    """
    if len(given) > MESSAGES:
        text = f"{len(given)} messages; send at most {MESSAGES}, the latest ones"
        raise ApiError(413, text, "too_many_messages", where)
    try:
        messages = client_messages(given, where)
    except InputError as exc:
        raise ApiError(400, str(exc), "invalid_messages", where) from exc
    _check(messages, where)
    instructions = "\n\n".join(m.text for m in messages if m.role == "system" and m.text.strip())
    talk = [m for m in messages if m.role != "system"]
    begun = [*takewhile(lambda m: m.role == "assistant" and _is_line(m), reversed(talk))][::-1]  # the reply to continue
    lines = [m for m in talk[: len(talk) - len(begun)] if _is_line(m)]
    asides = _asides(talk)
    if talk and talk[-1].role == "user" and not talk[-1].text.strip():
        raise ApiError(400, "the last message is empty; give it some text", "empty_message", where)
    if not any(m.role == "user" for m in lines) and not (continues and asides):
        raise ApiError(400, "there is no message of the user to answer", "invalid_messages", where)
    media = tuple((m.text, m.media) for m in lines if m.media)
    while lines and lines[-1].role == "assistant":  # only a tool's results follow what the agent said
        lines.pop()
    said = tuple(
        Line(m.role == "assistant", m.text, "" if m.role == "assistant" else usable_name(m.name)) for m in lines
    )
    passed = Passed(media, passed_on, asides, "\n".join(m.text for m in begun), formatted=FORMAT in passed_on)
    return said, instructions, passed


def _check(messages: Sequence[ClientMessage], where: str) -> None:
    """Refuse a text that is too long, and media at an address that is not passed on."""
    if any(len(m.text) > LONGEST for m in messages) or sum(len(m.text) for m in messages) > MOST:
        text = f"the text is too long; send at most {LONGEST} characters a message, and {MOST} in all"
        raise ApiError(413, text, "text_too_long", where)
    for address in (address for m in messages for part in m.media for address in _addresses(part)):
        if not address.casefold().startswith(SCHEMES):
            text = f"the address {address[:80]!r} is not passed on; give media as data: or https:"
            raise ApiError(400, text, "unsupported_address", where)


def _addresses(part: Mapping[str, Any]) -> Iterator[str]:
    """The addresses in a part of a message, whatever its type."""
    inner: list[Any] = [part]
    while inner:
        value = inner.pop()
        inner += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        for key, address in value.items() if isinstance(value, Mapping) else ():
            if isinstance(address, str) and str(key).casefold().endswith(("url", "uri")):
                yield address


def _is_line(message: ClientMessage) -> bool:
    return message.role != "tool" and not message.calls and bool(message.text.strip())


def _asides(talk: Sequence[ClientMessage]) -> tuple[Aside, ...]:
    asides, after = list[Aside](), ""
    for message in talk:
        if message.role == "user":
            after = message.text
        elif message.role == "tool" or message.calls:
            asides.append(Aside(after, message.name, message.text if message.role == "tool" else "", message.wire))
    return tuple(asides)
