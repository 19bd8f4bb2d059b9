"""What an endpoint says when it refuses a call, and the same chat in a form that it may take. Knows no connection."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.backbones.estimate import as_plain_text

QUOTED_CHARACTERS = 200
SHORT_KEY = 8
"""A key with fewer characters may be part of a word, so it is masked only where it stands alone."""
_WORDS = {
    "media": ("image", "audio", "video", "file", "modal", "vision", "content", "string"),
    "tools": ("tool", "function"),
    "begun": ("assistant", "last message", "prefix", "prefill"),
    "system": ("system", "developer", "role"),
}
"""Words with which endpoints refuse a part of a call; templates without a system role also say that roles must alternate."""
_CONTINUE = "(Continue this reply without repeating it: {begun})"
_STATUS = frozenset({400, 404, 415, 422, 500, 501})
"""Some servers call it their own failure."""


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The same chat without a system role: its text opens the next message; neighbours of one role are merged."""
    merged: list[Message] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        last = merged[-1] if merged else None
        if last and last.role == role and not (last.wire or message.wire):
            merged[-1] = Message(role, f"{last.content}\n\n{message.content}", (*last.media, *message.media))
        else:
            merged.append(replace(message, role=role))
    return merged


def on_wire(messages: Sequence[Message], without: Collection[str]) -> list[dict[str, Any]]:
    """Messages as an endpoint gets them, without what it refuses: "system", "media", "tools", "begun"."""
    if "begun" in without:
        messages = (*messages[:-1], Message("user", _CONTINUE.format(begun=messages[-1].content)))
    plain = [m if m.wire is None or "tools" not in without else Message(m.role, m.content) for m in messages]
    return [_on_wire(m, "media" in without) for m in (alternating(plain) if "system" in without else plain)]


def _on_wire(message: Message, without_media: bool) -> dict[str, Any]:
    given = message.wire or {"role": message.role, "content": message.content}
    text = as_plain_text(given["content"]) if given["content"] else given["content"]
    if not message.media or without_media:
        return {**given, "content": text}
    return {**given, "content": [{"type": "text", "text": text}, *message.media]}


def refused(sent: Mapping[str, Any], tools: bool, status: int | None, said: str, without: Collection[str]) -> str:
    """What of a call an endpoint may have refused, by the words of its error: one of those of `on_wire`; "": nothing.

    Args:
        tools: the call has the client's tools.
        without: what it was already called without.
    """
    messages, said = sent["messages"], said.casefold()
    there = {
        "media": any(isinstance(m["content"], list) for m in messages),
        "tools": tools or any(m["role"] == "tool" for m in messages),
        "begun": messages[-1]["role"] == "assistant",
        "system": any(m["role"] == "system" for m in messages),
    }
    likely = (what for what, words in _WORDS.items() if there[what] and any(word in said for word in words))
    return next((what for what in likely if what not in without), "") if status in _STATUS else ""


def error_text(body: Any) -> str:
    """The message in the body of an error, whatever its shape; "" for none."""
    if isinstance(body, list) and body:
        return error_text(body[0])
    if not isinstance(body, Mapping):
        return str(body or "")
    inner = next((body[name] for name in ("error", "message", "detail") if body.get(name)), None)
    return json.dumps(body, ensure_ascii=False) if inner is None else error_text(inner)


def quoted(text: str, key: str) -> str:
    """Server text in one line, shortened, without the API key that some servers echo."""
    line = " ".join(_masked(text, key).split())
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS]}…"


def _masked(text: str, key: str) -> str:
    before, *rest = text.split(key)
    for after in rest:
        word = len(key) < SHORT_KEY and (before[-1:].isalnum() or after[:1].isalnum())
        before += (key if word else "***") + after
    return before


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay in seconds that a server requests; a date is relative to the server's clock."""
    asked = str(headers.get("retry-after"))
    with suppress(ValueError):
        return max(0.0, float(asked))
    with suppress(ValueError, TypeError):
        now = parsedate_to_datetime(str(headers.get("date")))
        return max(0.0, (parsedate_to_datetime(asked) - now).total_seconds())
    return None


class Received:
    """What a server sends as the body of a stream, kept until the first event in case it is something else.

    Args:
        response: the response whose bytes are still to be read.
    """

    def __init__(self, response: Any) -> None:
        self._headers, self._bytes, self._end = response.headers, bytearray(), b""
        read = response.aiter_bytes
        self.events = False

        async def kept() -> Any:
            async for some in read():
                self._end = (self._end + some)[-64:]
                if not self.events:
                    self._bytes += some
                yield some

        response.aiter_bytes = kept

    @property
    def whole(self) -> bool:
        """Whether the end of the stream that was read is the end that was meant."""
        framed = "content-length" in self._headers or "chunked" in self._headers.get("transfer-encoding", "")
        return framed or b"[DONE]" in self._end

    @property
    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")
