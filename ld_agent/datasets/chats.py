"""Chats with an assistant, JSON lines in any of three shapes: OpenAI's ``messages`` of role and content, ShareGPT's
``conversations`` of from and value, and RefGPT's ``dialogue``, one text with marks such as ``<user 1>:``.

A line is one session, undated: it begins at `dating.ANCHOR`. The agent is "Assistant", the other is "User". Messages of the
system, reasoning, and answers of nothing else are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ld_agent.backbones.reasoning import text_of, without_reasoning
from ld_agent.datasets.base import Episode, Report, Turn
from ld_agent.datasets.dating import ANCHOR, spaced
from ld_agent.datasets.records import Record, UniqueIds, built, json_lines

AGENT, USER = "Assistant", "User"
ROLES = {"assistant": AGENT, "gpt": AGENT, "bot": AGENT, "user": USER, "human": USER}
SILENT = frozenset({"system"})
SHAPES = {"messages": ("role", "content"), "conversations": ("from", "value")}
MARK = re.compile(r"<(user|assistant)(?: \d+)?>(?:\s*\(word count[^)]*\))?\s*[:：]", re.IGNORECASE)


def recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    said = [value[key][0] for key in SHAPES if isinstance(value.get(key), list) and value[key]]
    if any(isinstance(first, dict) and any(role in first for role, _ in SHAPES.values()) for first in said):
        return True
    return isinstance(value.get("dialogue"), str) and MARK.match(value["dialogue"].lstrip()) is not None


def read(path: Path, report: Report) -> Iterator[Episode]:
    """Yield one episode per line. A chat without both roles is a bad record."""
    unique = UniqueIds()
    return built(json_lines(path, report), lambda record: _episode(record, unique), report)


def _episode(record: Record, unique: UniqueIds) -> Episode:
    said = list(_said(record))
    if {speaker for speaker, _ in said} != {AGENT, USER}:
        raise record.error("the chat needs utterances of both the user and the assistant")
    turns = tuple(
        Turn(speaker, text, at, 1) for (speaker, text), at in zip(said, spaced(ANCHOR, len(said)), strict=True)
    )
    name = record.values.get("id")
    return Episode(unique(str(name) if name else f"{record.path.stem}-{record.line}"), AGENT, turns, {}, record.source)


def _said(record: Record) -> Iterator[tuple[str, str]]:
    if "dialogue" in record:
        text = record.text("dialogue")
        marks = list(MARK.finditer(text))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        for mark, end in zip(marks, ends, strict=True):
            if words := text[mark.end() : end].strip():
                yield ROLES[mark[1].lower()], words
        return
    key = next(key for key in SHAPES if key in record)
    role_key, text_key = SHAPES[key]
    for message in record.records(key):
        role = message.text(role_key)
        if role in SILENT:
            continue
        if role not in ROLES:
            raise message.error(f"{role_key} {role!r} is not one of {', '.join(ROLES)}")
        speaker, text = ROLES[role], _text(message, text_key)
        if speaker == USER:
            yield speaker, text
        elif answer := without_reasoning(text).strip():
            yield speaker, answer


def _text(message: Record, key: str) -> str:
    content = message.values.get(key)
    parts = text_of(content) if isinstance(content, list) else None
    return (message.text(key) if parts is None else message.checked_text(parts, key)).strip()
