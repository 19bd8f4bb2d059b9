"""Chats with an assistant, JSON lines or a JSON list in any of three shapes: OpenAI's ``messages`` of role and content,
ShareGPT's ``conversations`` of from and value, and RefGPT's ``dialogue``, one text with marks such as ``<user 1>:``.

A chat is one session, undated: it begins at `dating.ANCHOR`. The agent is "Assistant", the other is "User", or each of several by
name. Messages are read as the server reads them: without the system's, tools' and reasoning, with "[image]" for what is no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ld_agent.backbones.client_message import client_message
from ld_agent.datasets.base import Episode
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, episodes, json_lines, json_list, text_lines
from ld_agent.errors import InputError

AGENT, USER = "Assistant", "User"
SHAPES = {"messages": ("role", "content"), "conversations": ("from", "value")}
MARK = re.compile(r"<(user|assistant)(?: \d+)?>(?:\s*\(word count[^)]{0,80}\))?\s*[:：]", re.IGNORECASE)


def recognises(value: Any) -> bool:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return False
    said = [value[key][0] for key in SHAPES if isinstance(value.get(key), list) and value[key]]
    if any(isinstance(first, dict) and any(role in first for role, _ in SHAPES.values()) for first in said):
        return True
    return isinstance(value.get("dialogue"), str) and MARK.match(value["dialogue"].lstrip()) is not None


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per chat. A chat without both roles is a bad record."""
    listed = next((line for _, line in text_lines(path)), "").startswith("[")
    return episodes((json_list if listed else json_lines)(path), _episode)


def _episode(record: Record) -> Episode:
    said = list(_said(record))
    speakers = {speaker for speaker, _ in said}
    if AGENT not in speakers or len(speakers) < 2:
        raise record.error("the chat needs utterances of both the user and the assistant")
    name = record.values.get("id") or f"{record.path.stem}-{record.line or int(record.where[1:-1]) + 1}"
    return Episode(str(name), AGENT, dated(said))


def _said(record: Record) -> Iterator[tuple[str, str]]:
    if "dialogue" in record:
        text = record.text("dialogue")
        marks = list(MARK.finditer(text))
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        for mark, end in zip(marks, ends, strict=True):
            if words := text[mark.end() : end].strip():
                yield AGENT if mark[1].lower() == "assistant" else USER, words
        return
    key = next(key for key in SHAPES if key in record)
    for message in record.records(key):
        try:
            said = client_message(message.values)
        except InputError as exc:
            raise message.error(str(exc)) from exc
        if said is not None and said.role in ("assistant", "user") and said.text.strip():
            text = message.checked_text(said.text, SHAPES[key][1]).strip()
            yield AGENT if said.role == "assistant" else said.name or USER, text
