"""What an endpoint says when it refuses a call, and the same chat in a form that it may take. Knows no connection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from ld_agent.backbones.base import Message

QUOTED_CHARACTERS = 200
SHORT_KEY = 8
"""A key with fewer characters may be part of a word, so it is masked only where it stands alone."""
SYSTEM_WORDS = ("system", "developer", "role")
"""Words of a refusal of the system role; templates that do not know it also say that roles must alternate."""


def alternating(messages: Sequence[Message]) -> list[Message]:
    """The same chat without a system role: its text opens the next message; neighbours of one role are merged."""
    merged: list[Message] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if merged and merged[-1].role == role:
            merged[-1] = Message(role, f"{merged[-1].content}\n\n{message.content}")
        else:
            merged.append(Message(role, message.content))
    return merged


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
