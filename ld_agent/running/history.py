"""Stores an exported history, and learns from it in the background: each message once, in order of time, in small pieces.

Storing asks no model, so that one can talk at once. Knows no format and no SQL.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from ld_agent.datasets.exports import ASSISTANTS
from ld_agent.datasets.exports.message import AGENT, ME, Message, line_of
from ld_agent.errors import DataFileError, InputError
from ld_agent.storage.rows import Line
from ld_agent.storage.store import Store
from ld_agent.types import LONGEST_NAME, checked_text, cleaned_name, name_key

if TYPE_CHECKING:
    from ld_agent.conversation import Conversation

BATCH = 1000
"""Messages stored at once: what an interruption loses at most."""
LOOKED_AT = 200
"""Messages of a chat by which it is recognised."""


@dataclass(slots=True)
class Imported:
    """What an import has stored, or would store.

    Attributes:
        stored: messages that were new.
        known: messages that the store had already.
        edited: stored messages that were edited since, by the id of the line, which are still to be corrected.
        people: messages by name.
        chats: messages by chat.
    """

    stored: int = 0
    known: int = 0
    edited: dict[str, Line] = field(default_factory=dict)
    people: Counter[str] = field(default_factory=Counter)
    chats: Counter[str] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None


class People:
    """The names of those who wrote, each person's in one spelling.

    Args:
        me: the name of who owns the history.
        agent: the agent's.
        format: of the export. Who is called like the agent in a chat between people is somebody else.
        known: names used so far.
    """

    def __init__(self, me: str, agent: str, format: str, known: Iterable[str] = ()) -> None:
        self._me, self._agent, self.format = me, agent, format
        self._spelled = {name_key(name): name for name in [*known, me, agent]}
        self._authors: dict[str, str] = {}
        """Whose name each is, by its key, where an export tells people of one name apart."""

    def name(self, message: Message) -> str:
        """The name under which a message is stored."""
        if message.by == ME:
            return self._me
        if message.by == AGENT:
            return self._agent
        name = cleaned_name(line_of(message.name))[: LONGEST_NAME - 20].strip() or "Unknown"
        if name_key(name) == name_key(self._agent) and self.format not in ASSISTANTS:
            name = f"{name} ({self.format})"
        told_apart = f"{name} ({message.author[-8:]})"
        if name_key(told_apart) not in self._spelled:
            owner = self._authors.setdefault(name_key(name), message.author)
            told_apart = told_apart if message.author != owner and message.author and owner else name
        return self._spelled.setdefault(name_key(told_apart), told_apart)


def store_history(
    store: Store,
    conversation: tuple[str, str],
    messages: Iterable[Message],
    people: People,
    beta: float,
    imported: Imported,
) -> None:
    """Store the messages of an export that are not stored yet; an interrupted import resumes when it is repeated.

    Args:
        conversation: its id and its agent's name.
        beta: β in seconds, which divides chats into sessions.
        imported: counts what has been done.
    """
    key = store.open_conversation(*conversation).key
    chats = _Chats(store, key, people)
    try:
        for batch in map(chats.as_stored, _batches(messages)):
            lines = [_line(message, people) for message in batch]
            imported.edited |= store.edited_history(key, lines)
            stored = store.add_history(key, lines, beta)
            _count(imported, batch, people, stored)
    finally:
        store.close_history(key)


def check_same_chat(store: Store, conversation: str, messages: Iterable[Message], people: People) -> None:
    """Refuse a WhatsApp chat without a name that shares no message with the one that is stored: it is another one.

    Raises:
        InputError: it is; only names keep such chats apart.
    """
    there, planned = store.find_conversation(conversation), Imported()
    if there is None or people.format != "whatsapp" or store.last_utterance(there.key, "whatsapp: chat") is None:
        return
    with suppress(DataFileError):  # what can be read tells
        plan(store, conversation, messages, people, planned)
    if planned.chats["chat"] and not planned.known:
        raise InputError(
            f"conversation {conversation!r} holds a chat from a _chat.txt, of which this one has no message; if it is another "
            "chat, name its folder or file after it (WhatsApp Chat - Ann.txt), or choose another --conversation"
        )


def correct_edited(conversation: Conversation, imported: Imported) -> None:
    """Correct the messages that were edited since an earlier import, and what was learned from them."""
    for name, line in imported.edited.items():
        conversation.edit(name, line.text, edited=line.edited)


def plan(
    store: Store | None, conversation: str, messages: Iterable[Message], people: People, imported: Imported
) -> None:
    """Count what `store_history` would store; ``store``: None for a new one."""
    there = store.find_conversation(conversation) if store else None
    chats = _Chats(store, there.key, people) if store and there else None
    for given in _batches(messages):
        batch = chats.as_stored(given) if chats else given
        lines = [_line(message, people) for message in batch]
        sources, known = {line.source for line in lines}, set[str]()
        if store and there:
            imported.edited |= store.edited_history(there.key, lines)
            known = store.known_sources(there.key, list(sources))
        _count(imported, batch, people, len(sources - known))


class _Chats:
    """The names under which chats are stored, as the file whose name is all that tells a chat may be called otherwise by now.

    It is the same chat if lines of two people are stored already.
    """

    def __init__(self, store: Store, key: int, people: People) -> None:
        self._store, self._key, self._people = store, key, people
        self._stored = [thread.removeprefix(f"{people.format}: ") for thread in store.thread_names(key)]
        self._names = dict(zip(self._stored, self._stored, strict=True))

    def as_stored(self, batch: list[Message]) -> list[Message]:
        """Messages with the names and ids of stored chats."""
        for message in batch:
            if message.chat not in self._names:
                said = [m for m in batch if m.chat == message.chat and m.id.startswith(f"{m.chat}/")]
                told = said[:LOOKED_AT]
                found = (name for name in self._stored if told and self._are_known([_within(name, m) for m in told]))
                self._names[message.chat] = next(found, message.chat)
        return [m if (name := self._names[m.chat]) == m.chat else _within(name, m) for m in batch]

    def _are_known(self, messages: list[Message]) -> bool:
        lines = [_line(message, self._people) for message in messages]
        known = self._store.known_sources(self._key, [line.source for line in lines])
        return len({line.speaker for line in lines if line.source in known}) > 1


def _within(chat: str, message: Message) -> Message:
    """A message of a chat with another name."""
    return replace(message, chat=chat, id=chat + message.id[len(message.chat) :])


def _batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages by the batch; if reading fails, what was read before is handed out first."""
    source = iter(messages)
    while True:
        batch: list[Message] = []
        try:
            batch.extend(islice(source, BATCH))
        except Exception:
            if batch:
                yield batch
            raise
        if not batch:
            return
        yield batch


def _line(message: Message, people: People) -> Line:
    source = hashlib.blake2b(f"{people.format}/{message.id}".encode("utf-8", "replace"), digest_size=16).hexdigest()
    thread = f"{people.format}: {line_of(message.chat) or 'chat'}"
    speaker = people.name(message)
    text = checked_text(message.text)
    silent = message.by == AGENT or (text.startswith("[") and text.find("]") == len(text) - 1)  # nothing but a medium
    return Line(source, thread, speaker, text, message.at, learned=silent, edited=message.edited)


def _count(imported: Imported, batch: list[Message], people: People, stored: int) -> None:
    imported.stored += stored
    imported.known += len(batch) - stored
    imported.people.update(people.name(message) for message in batch)
    imported.chats.update(message.chat for message in batch)
    times = [message.at for message in batch]
    imported.first = min([*times, *([imported.first] if imported.first else [])])
    imported.last = max([*times, *([imported.last] if imported.last else [])])
