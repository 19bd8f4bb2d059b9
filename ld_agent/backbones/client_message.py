"""What a message of a chat says, in any shape that clients send: the one place that knows these shapes.

Knows the messages of chat completions, the items of responses, ShareGPT's lines and LangChain's roles; nothing of a
server, a corpus or who is talking.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ld_agent.backbones.answer_text import without_reasoning
from ld_agent.errors import InputError

Role = Literal["system", "user", "assistant", "tool"]
Json = Mapping[str, Any]
ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "gpt", "bot", "model"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "function_call_output", "custom_tool_call_output"), "tool"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "assistant"),
}
"""What a role, or the type of an item without one, stands for."""
SILENT = frozenset(
    "reasoning item_reference compaction web_search_call file_search_call code_interpreter_call image_generation_call "
    "mcp_call mcp_list_tools".split()
)
"""Items that say nothing to anybody: what they stand for is not in the request, or another server's tools did it."""
_TEXT_PARTS = ("text", "input_text", "output_text", "summary_text", "refusal")
_PLACES = ("image", "audio", "video", "file", "document")
_UNSAID = ("thinking", "reasoning", "reference")
KINDS = (*_TEXT_PARTS, *"image_url input_image input_audio video_url file input_file document thinking".split())
"""The usual kinds of a content's parts; others whose names contain those of `_PLACES` or `_UNSAID` are known too."""
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """One message.

    Attributes:
        role: a developer is the system; a function is a tool.
        text: what is said; of an assistant without reasoning, with places such as "[image]" for what is no text.
        name: of the speaker or the tool, if given.
        media: images, sounds and files, as parts of chat completions.
        calls: tool calls, as in chat completions.
        call_id: of the call that a tool answers.
    """

    role: Role
    text: str
    name: str = ""
    media: tuple[Json, ...] = ()
    calls: tuple[Json, ...] = ()
    call_id: str = ""

    @property
    def wire(self) -> dict[str, Any]:
        """A call or result as a message of chat completions."""
        if self.role == "tool":
            return {"role": "tool", "tool_call_id": self.call_id, "content": self.text}
        return {"role": self.role, "content": self.text or None} | ({"tool_calls": [*self.calls]} if self.calls else {})


def client_messages(given: Iterable[Json], where: str = "messages") -> list[ClientMessage]:
    """Read messages in order.

    Calls join the assistant's text before them, and tools get the names of their calls. Items that say nothing, such as
    reasoning, are left out.

    Args:
        where: what the list is called in errors.

    Raises:
        InputError: a message or a part of one of an unknown role, kind or shape; names its place.
    """
    read, names = list[ClientMessage](), dict[str, str]()
    for number, one in enumerate(given):
        message = client_message(one, f"{where}[{number}]")
        if message is None:
            continue
        names |= {str(call.get("id")): str(call.get("function", {}).get("name", "")) for call in message.calls}
        if message.role == "tool" and not message.name:
            message = replace(message, name=names.get(message.call_id, ""))
        if message.calls and read and read[-1].role == "assistant":
            text = "\n".join(filter(None, (read[-1].text, message.text)))
            message = replace(message, text=text, calls=(*read.pop().calls, *message.calls))
        read.append(message)
    return read


def client_message(given: Json, where: str = "the message") -> ClientMessage | None:
    """Read one message; None: it says nothing to anybody, such as an item of reasoning.

    Raises:
        InputError: an unknown role, kind or shape.
    """
    named = given.get("role") or given.get("from")
    said = str(named or given.get("type"))
    if said in SILENT:
        return None
    role = ROLES.get(said.casefold())
    if role is None and not named and "type" in given:
        raise InputError(
            f"{where}: an item of type {said[:40]!r} cannot be read; send messages, calls and their results"
        )
    if role is None:
        raise InputError(f"{where}: role {said[:40]!r} is not one of {', '.join(ROLES)}")
    content = next(
        (given[key] for key in ("content", "value", "output", "refusal") if given.get(key) is not None), None
    )
    text = text_of(content)
    if text is None:
        raise InputError(f"{where}: the content is neither text nor a list of parts")
    parts = content if isinstance(content, list | tuple) else ()
    for number, part in enumerate(parts):
        if not is_known(part):
            kind = str(part.get("type", ""))[:40]
            raise InputError(f"{where}.content[{number}]: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return ClientMessage(
        role,
        without_reasoning(text) if role == "assistant" else text,
        str(given.get("name") or "") if given.get("type") not in CALLS else "",
        tuple(_as_part(part) for part in parts if _words(part) is None and _part(part)),
        _calls(given) if role == "assistant" else (),
        str(given.get("tool_call_id") or given.get("call_id") or ""),
    )


CALLS = frozenset({"function_call", "custom_tool_call"})


def _calls(given: Json) -> tuple[Json, ...]:
    if given.get("type") in CALLS:
        arguments = given.get("arguments", given.get("input", ""))
        function = {"name": given.get("name", ""), "arguments": arguments}
        return ({"id": given.get("call_id", ""), "type": "function", "function": function},)
    legacy, calls = given.get("function_call"), given.get("tool_calls")
    if isinstance(legacy, Mapping):
        return ({"id": "", "type": "function", "function": legacy},)
    listed = calls if isinstance(calls, list) else ()
    return tuple(call for call in listed if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping))


def _as_part(part: Json) -> Json:
    """A part of responses as one of chat completions, which models' endpoints take; any other part is left as it is."""
    if part.get("type") == "input_image" and part.get("image_url"):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    if part.get("type") == "input_file" and not part.get("file_url"):
        return {"type": "file", "file": {k: v for k, v in part.items() if k != "type" and v is not None}}
    return part


def tool_calls(given: Sequence[Json]) -> tuple[Json, ...]:
    """The calls of a model from its message or from the pieces of a stream, which share an index."""
    calls = dict[Any, dict[str, Any]]()
    for piece in given:
        index = piece.get("index")
        call = calls.setdefault(len(calls) if index is None else index, {"id": "", "type": "function", "function": {}})
        call |= {key: value for key, value in piece.items() if key not in ("index", "function") and value}
        function, more = call["function"], piece.get("function") or {}
        arguments = more.get("arguments") or ""
        function["name"] = more.get("name") or function.get("name", "")
        function["arguments"] = function.get("arguments", "") + (
            arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
    return tuple(call | {"id": call["id"] or f"call_{index}"} for index, call in calls.items())


def text_of(content: object, between: str = "\n") -> str | None:
    """Return the text of a message's content in any shape of OpenAI's protocol; None: it has another shape.

    Of a list of parts, texts are joined; an image, a sound or a file leaves its place ("[image]", "[file: name]"), and everything
    else is left out: see `is_known`.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence) or not all(isinstance(part, Mapping) for part in content):
        return None
    texts = [_part(part) for part in content]
    return between.join(text for text in texts if text)


def is_known(part: Mapping[str, object]) -> bool:
    """Whether a part of a message is of a kind that `text_of` reads or leaves out on purpose, such as reasoning."""
    kind = str(part.get("type", ""))
    return kind in _TEXT_PARTS or any(name in kind for name in (*_PLACES, *_UNSAID))


def _words(part: Mapping[str, object]) -> str | None:
    """The text of a part; None: it is no text."""
    kind = str(part.get("type", ""))
    if kind not in _TEXT_PARTS:
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) else ""


def _part(part: Mapping[str, object]) -> str:
    """The text of a part, or the place of what is to be seen, heard or read; "": it leaves none."""
    kind, words = str(part.get("type", "")), _words(part)
    if words is not None:
        return words
    place = next((place for place in _PLACES if place in kind), "")
    if place not in ("file", "document"):
        return f"[{place}]" if place else ""
    inner = part.get("file")
    names = {**part, **(inner if isinstance(inner, Mapping) else {})}
    name = next((str(names[key]) for key in ("filename", "name", "title") if names.get(key)), "")
    name = " ".join(name.replace("[", "(").replace("]", ")").split())[:_LONGEST_NAME]
    return f"[file: {name}]" if name else "[file]"
