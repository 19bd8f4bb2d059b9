"""What a request says, in either of OpenAI's protocols: the lines to remember, and what only the model gets. Knows no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ld_agent.backbones.client_message import ClientMessage, client_messages
from ld_agent.errors import InputError
from ld_agent.passed import Aside, Passed
from ld_agent.server.errors import ApiError
from ld_agent.server.history import Line
from ld_agent.types import checked_name

MESSAGES = 1000
"""Maximum number of messages in a request."""
Text = Annotated[str, Field(max_length=1_000_000)]
Content = Text | list[dict[str, Any]]
TOOLS = ("tools", "tool_choice", "parallel_tool_calls")


class ChatMessage(BaseModel):
    """A message. What is not text is passed on to a model that takes it, and remembered as its place: "[image]"."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    name: Annotated[str | None, Field(description="Who says this, where several people talk.")] = None


class ToolRequest(BaseModel):
    """What a request says of the client's own tools, for a model that calls them."""

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None

    @property
    def of_tools(self) -> dict[str, Any]:
        """The parameters for chat completions, where a function has an object of its own."""
        given = {name: getattr(self, name) for name in TOOLS if getattr(self, name) is not None}
        if not self.tools:
            return {}
        given["tools"] = [_nested(tool) for tool in self.tools]
        if isinstance(self.tool_choice, dict):
            given["tool_choice"] = _nested(self.tool_choice)
        return given


def _nested(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function" or "function" in tool:
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat as a client sent it.

    Attributes:
        lines: what people and the agent said; the last is a person's, to be answered; without any, the answer is to the thread's
            last line.
        instructions: of the system's messages.
        passed: what is no line: images, tools and their results, a reply that has begun.
    """

    lines: tuple[Line, ...]
    instructions: str
    passed: Passed


def read_chat(given: Sequence[Mapping[str, Any]], of_tools: Mapping[str, Any], *, continues: bool = False) -> Chat:
    """Read a request's messages or items.

    Args:
        of_tools: parameters for the model's call.
        continues: the request may consist of tools' results alone.

    Raises:
        ApiError: too many, a message that cannot be read, none of a person, or an empty last one.
    """
    if len(given) > MESSAGES:
        raise ApiError(
            413, f"{len(given)} messages; send at most {MESSAGES}, the latest ones", "too_many_messages", "messages"
        )
    try:
        messages = client_messages(given)
    except InputError as exc:
        raise ApiError(400, str(exc), "invalid_messages", "messages") from exc
    instructions = "\n\n".join(m.text for m in messages if m.role == "system" and m.text.strip())
    talk = [m for m in messages if m.role != "system"]
    begun = _begun(talk)
    lines = [m for m in (talk[:-1] if begun else talk) if _is_line(m)]
    asides = _asides(talk)
    if talk and talk[-1].role == "user" and not talk[-1].text.strip():
        raise ApiError(400, "the last message is empty; give it some text", "empty_message", "messages")
    if not any(m.role == "user" for m in lines) and not (continues and asides):
        raise ApiError(400, "there is no message of the user to answer", "invalid_messages", "messages")
    media = tuple((m.text, m.media) for m in lines if m.media)
    while lines and lines[-1].role == "assistant":  # only a tool's results follow what the agent said
        lines.pop()
    said = tuple(Line(m.role == "assistant", m.text, "" if m.role == "assistant" else _name(m)) for m in lines)
    return Chat(said, instructions, Passed(media, of_tools, asides, begun))


def _is_line(message: ClientMessage) -> bool:
    return message.role != "tool" and not message.calls and bool(message.text.strip())


def _begun(talk: Sequence[ClientMessage]) -> str:
    """The reply that a request ends with, to be continued."""
    return talk[-1].text if talk and talk[-1].role == "assistant" and _is_line(talk[-1]) else ""


def _asides(talk: Sequence[ClientMessage]) -> tuple[Aside, ...]:
    asides, after = list[Aside](), ""
    for message in talk:
        if message.role == "user":
            after = message.text
        elif message.role == "tool" or message.calls:
            asides.append(Aside(after, message.name, message.text if message.role == "tool" else "", message.wire))
    return tuple(asides)


def _name(message: ClientMessage) -> str:
    """Who a message is by; "" for no usable name."""
    with suppress(InputError):
        return checked_name(message.name)
    return ""
