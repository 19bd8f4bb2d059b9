"""What goes over the wire to an endpoint and what comes back: its address and key, a chat in a form that it may take, estimated
tokens, its errors. Opens no connection.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ld_agent.backbones.answer_text import OMITTED, disarmed
from ld_agent.backbones.base import FORMAT, Message, Request
from ld_agent.backbones.client_message import text_of
from ld_agent.errors import ModelError

PLACEHOLDER_KEY = "no-key-needed"
SHORT_KEY = 8
"""A key with fewer characters may be part of a word and is no secret, so it is not masked."""
QUOTED_CHARACTERS = 200
MESSAGE_OVERHEAD = 8
_PIECES = re.compile(r"(?P<word>[A-Z]?[a-z]+|  +)|(?P<capitals>[A-Z]+)|(?P<rest> ?[0-9]|[^\x00-\x7f]+|[^ ])")
_CHARACTERS_A_TOKEN = {"word": 3, "capitals": 2, "rest": 1}
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_WORDS = {
    "format": (FORMAT, "json_schema", "json_object", "json mode", "structured output", "structured outputs"),
    "media": ("image", "audio", "video", "file", "modal", "vision", "content", "string"),
    "tools": ("tool", "function"),
    "begun": ("assistant", "last message", "prefix", "prefill"),
    "system": ("system", "developer", "role"),
}
"""Words with which endpoints refuse a part of a call; templates without a system role also say that roles must alternate."""
_MARKS = "\"'`.,:;()[]{}"
_CONTINUE = "(Continue this reply without repeating it: {begun})"
_STATUS = frozenset({400, 404, 415, 422, 500, 501})
"""Some servers call it their own failure."""
REFUSAL = re.compile(r"unsupported|not support|not permitted|unexpected|unrecognized|unknown|forbidden", re.IGNORECASE)


def address(url: str) -> tuple[str, str]:
    """Return the endpoint without user, password or query, safe to display, and its host.

    Raises:
        ModelError: the URL is not an http address.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as exc:
        raise ModelError(
            f"backbone.base_url is not a URL ({exc}); expected something like http://localhost:8000/v1"
        ) from exc
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ModelError(
            f"backbone.base_url={url!r} is not an http address; expected something like http://localhost:8000/v1"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/"), parts.hostname


def _is_private(host: str) -> bool:
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return number.is_private or number.is_loopback


def key(variable: str, host: str, endpoint: str) -> str:
    """Return the key from an environment variable, or a placeholder for a local or private host.

    Raises:
        ModelError: a public host needs a key and none is set, or the key has invalid characters.
    """
    value = os.environ.get(variable, "").strip()
    if not value and _is_private(host):
        return PLACEHOLDER_KEY
    if not value:
        raise ModelError(f"{endpoint} needs a key, but the environment variable {variable} is not set; export it")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ModelError(f"the key in the environment variable {variable} has invalid characters; export it again")
    return value


# ---- a chat as an endpoint takes it


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


def refused(sent: Mapping[str, Any], request: Request, status: int | None, said: str, without: Collection[str]) -> str:
    """What of a call an endpoint may have refused, by the words of its error: "format" or one of those of `on_wire`; "": nothing.

    Args:
        without: what it was already called without.
    """
    messages, said = sent["messages"], said.casefold()
    there = {
        "format": "format" in request.passes and (status or 0) < 500 and _refuses_format(said),
        "media": any(isinstance(m["content"], list) for m in messages),
        "tools": "tools" in request.passes or any(m["role"] == "tool" for m in messages),
        "begun": messages[-1]["role"] == "assistant",
        "system": any(m["role"] == "system" for m in messages),
    }
    likely = (what for what, words in _WORDS.items() if there[what] and any(word in said for word in words))
    return next((what for what in likely if what not in without), "") if status in _STATUS else ""


def _refuses_format(said: str) -> bool:
    """Whether an error is about the parameter as such, not about a client's mistake in it."""
    named = f" {' '.join(word.strip(_MARKS) for word in said.split())} "
    return (
        REFUSAL.search(said) is not None
        and " schema " not in named
        and any(f" {word} " in named for word in _WORDS["format"])
    )


def estimated_prompt(messages: Sequence[Message]) -> int:
    """Estimate an upper bound of a prompt's tokens.

    Counts one token per three letters of a lower-case word, per two letters of an upper-case word, per digit, sign and
    line break, and per non-ASCII byte (no byte-level vocabulary needs more), plus 8 per message and 8 at the end for
    the template. English prose needs about one token per four letters, so it is overestimated by half; other
    languages more. Strings that are not words (such as long keys) can exceed the estimate.
    """
    return MESSAGE_OVERHEAD + sum(MESSAGE_OVERHEAD + estimated_tokens(m.content) for m in messages)


def estimated_tokens(text: str) -> int:
    return sum(
        -(-len(piece[0].encode("utf-8", "replace")) // _CHARACTERS_A_TOKEN[str(piece.lastgroup)])
        for piece in _PIECES.finditer(text)
    )


def as_plain_text(text: str) -> str:
    """Break chat-template control tokens with a space: ``<|im_end|>`` → ``< |im_end|>``.

    The server tokenizes the rendered prompt as one string, so user text must not contain such tokens. Lone surrogates become
    ``?``.
    """
    return disarmed(text).encode("utf-8", "replace").decode()


# ---- what comes back


def first_choice(answer: Any) -> Any:
    """The first choice of an answer or a piece of a stream; None: it has none."""
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def said_by_model(message: Any, *, again: bool = False) -> str | None:
    """Return the text of a message or a part of it, be it a refusal; None: it has no known shape.

    Reasoning in a field of its own becomes a closed block of reasoning, unless text came ``again``.
    """
    text = text_of(getattr(message, "content", None) or getattr(message, "refusal", None), "")
    reasoned = any(getattr(message, name, None) for name in _REASONING_FIELDS)
    return f"{OMITTED}{text}" if reasoned and text is not None and not again else text


def said(exc: Exception) -> str:
    """The server's error message."""
    return error_text(getattr(exc, "body", None)) or str(exc)


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
    line = " ".join((text.replace(key, "***") if len(key) >= SHORT_KEY else text).split())
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS]}…"


def retry_after(exc: Exception) -> float | None:
    """The delay in seconds that a server requests with an error; a date is relative to the server's clock."""
    headers = getattr(getattr(exc, "response", None), "headers", None) or {}
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
