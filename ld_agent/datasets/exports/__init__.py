"""Histories as other programs export them: one small reader a format, each an iterator of messages, recognised by content.

Knows no store: `ld_agent.running.history` stores what is read here. A new format is a reader and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ld_agent.datasets.exports.assistants import chatgpt, claude, librechat, openwebui, sillytavern
from ld_agent.datasets.exports.files import Export, Part
from ld_agent.datasets.exports.message import EMPTY, Message
from ld_agent.datasets.exports.messengers import TELEGRAM_OPENED, discord, signal, slack, telegram
from ld_agent.datasets.exports.texts import apple_time, messages, signal_head, signal_text
from ld_agent.datasets.exports.whatsapp import head_of, whatsapp
from ld_agent.errors import DataFileError, InputError

__all__ = ["ASSISTANTS", "FORMATS", "Export", "Message", "format_of", "read"]

LOOKED_AT = 40
"""Lines or values of a file by which its format is recognised."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of a file: its first lines or, of JSON, the first value of each path.

    Attributes:
        first: the first conversation, message or head of it.
        message: the first element of a list of messages.
        markdown: the file is Markdown, by its name.
    """

    lines: Sequence[str]
    first: Mapping[str, Any]
    message: Mapping[str, Any]
    markdown: bool = False

    def has(self, *keys: str) -> bool:
        """Whether its first object has all these keys."""
        return all(key in self.first for key in keys)


Format = tuple[Callable[[Head], bool], Callable[[Part], Iterator[Message]]]
"""How the files of a format begin, and who reads them."""


def _openwebui(head: Head) -> bool:
    chat = head.first.get("chat")
    return isinstance(chat, Mapping) and ("history" in chat or "messages" in chat)


def _librechat(head: Head) -> bool:
    return head.has("conversationId") and (head.has("messages") or head.has("messagesTree") or bool(head.message))


def _signal_json(head: Head) -> bool:
    row = head.message or head.first
    return any(
        all(key in row for key in keys) for keys in (["envelope"], ["sender", "body", "date"], ["sent_at", "type"])
    )


READERS: Mapping[str, tuple[Format, ...]] = {
    "chatgpt": ((lambda head: isinstance(head.first.get("mapping"), Mapping), chatgpt),),
    "claude": ((lambda head: head.has("chat_messages"), claude),),
    "openwebui": ((_openwebui, openwebui),),
    "librechat": ((_librechat, librechat),),
    "telegram": (
        (lambda head: "date" in head.message and head.message.get("type") in ("message", "service"), telegram),
    ),
    "discord": ((lambda head: {"author", "timestamp"} <= {*head.message} and head.has("channel"), discord),),
    "slack": ((lambda head: head.has("ts") and (head.has("text") or head.has("type")), slack),),
    "sillytavern": ((lambda head: head.has("character_name") or head.has("mes", "is_user"), sillytavern),),
    "signal": ((_signal_json, signal), (lambda head: head.markdown and any(map(signal_head, head.lines)), signal_text)),
    "messages": ((lambda head: any(map(apple_time, head.lines)), messages),),
    "whatsapp": ((lambda head: any(map(head_of, head.lines)), whatsapp),),
}
FORMATS = tuple(READERS)
ASSISTANTS = frozenset({"chatgpt", "claude", "openwebui", "librechat", "sillytavern"})
"""Formats of talks with an assistant, which the agent may be by its name."""


def format_of(export: Export, wanted: str | None = None) -> str:
    """The format of an export: one of `FORMATS`.

    Args:
        wanted: the only format it may have; None: any.

    Raises:
        InputError: it is unknown, or no file of the export has it; names the formats.
    """
    for part in export.parts() if wanted in (None, *FORMATS) else ():
        head = _head(part)
        for name, formats in READERS.items():
            if wanted in (None, name) and any(recognises(head) for recognises, _ in formats):
                return name
    if wanted:
        raise InputError(f"{export.path} has no file in the format {wanted}; the formats are {', '.join(FORMATS)}")
    raise InputError(
        f"{export.path} is in none of the known formats; give an export of `ld-agent memory export`, or of "
        f"{', '.join(FORMATS)} (--from names the format)"
    )


def read(export: Export, name: str) -> Iterator[Message]:
    """The messages of an export in a format, chat by chat as its files stand; those without text are left out.

    Raises:
        DataFileError: a file is cut off or broken; what comes before has been read.
    """
    chosen = [
        (part, reader)
        for part in export.parts()
        for head in [_head(part)]
        for reader in [reader for recognises, reader in READERS[name] if recognises(head)][:1]
    ]
    export.passed, export.total = 0, sum(export.size(part.name) for part, _ in chosen)
    for part, reader in chosen:
        for message in reader(part):
            if message.text.replace("\0", " ").strip():
                yield message
            else:
                export.left[EMPTY] += 1


def _head(part: Part) -> Head:
    with part.text() as stream:
        start = stream.read(20_000)
    if start.lstrip()[:1] not in ("{", "[") or head_of(start.lstrip().partition("\n")[0]) is not None:
        return Head(start.split("\n")[:LOOKED_AT], {}, {}, part.name.casefold().endswith(".md"))
    found: dict[str, Any] = {}
    try:
        for path, value in islice(part.walk("[]", *TELEGRAM_OPENED, "messagesTree[]"), LOOKED_AT):
            found.setdefault(path, value)
            if path.endswith("*"):
                break
    except DataFileError:
        pass
    element = next((value for path, value in found.items() if path.endswith("*") and isinstance(value, Mapping)), {})
    alone = found.get("*")
    first = alone if isinstance(alone, Mapping) else {path.partition(".")[0]: value for path, value in found.items()}
    return Head([], first, {} if isinstance(alone, Mapping) else element)
