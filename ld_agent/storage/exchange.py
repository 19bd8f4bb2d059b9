"""Export and import of a store as JSON lines: everything that was said and remembered, no vectors, no file format of
SQLite. Importing an export and exporting again gives the same bytes.

Line 1 is ``{"format": "ld_agent.memory", "version": 1}``. Then, conversation by conversation in the order of their ids,
one ``conversation`` line and its ``session``, ``digested`` (a view has taken a session in), ``utterance``, ``observed`` (a
view has taken an utterance in), ``record`` and ``trait`` lines in the order of their making; ``kind`` names each. Times are
ISO 8601 in UTC. Vectors are made again from the texts when the store is next used.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError, InputError, StoreError
from ld_agent.storage.base import Store as AnyStore
from ld_agent.storage.base import StoredConversation
from ld_agent.storage.columns import json_text, microseconds, moment
from ld_agent.storage.sqlite import Store
from ld_agent.types import iso, utc

HEADER = {"format": "ld_agent.memory", "version": 1}
COLUMNS = {
    "session": ("number", "closed"),
    "digested": ("view", "session"),
    "utterance": ("id", "session", "speaker", "text", "at", "extracted"),
    "observed": ("view", "utterance"),
    "record": ("id", "view", "session", "text", "at", "topics", "sources", "fallback", "details"),
    "trait": ("id", "speaker", "text", "at", "source", "last_at", "mentions", "superseded_by"),
}
ORDER = {
    "session": "number",
    "digested": "view, session",
    "utterance": "pk",
    "observed": "view, utterance",
    "record": "pk",
    "trait": "pk",
}
COUNTERS = ("utterances", "records", "traits")
COUNTED = {"utterance": "utterances", "record": "records", "trait": "traits"}
JSON_COLUMNS = frozenset({"topics", "sources", "details"})
TIME_COLUMNS = frozenset({"at", "last_at"})
FLAG_COLUMNS = frozenset({"closed", "extracted", "fallback"})
NUMBER_COLUMNS = frozenset({"number", "session", "mentions", *COUNTERS})
GREATEST = 2**63 - 1


def export_lines(store: Store, conversation_id: str | None = None) -> Iterator[str]:
    """Lines of the export, without line ends: the whole store, or one conversation.

    Each conversation is read at one moment, so that what others write meanwhile never tears it apart.

    Raises:
        StoreError: no such conversation.
    """
    chosen = store.conversations() if conversation_id is None else [found_conversation(store, conversation_id)]
    yield _line(HEADER)
    for conversation in chosen:
        with store.db.snapshot():
            lines = list(_conversation_lines(store, conversation))
        yield from lines


def _conversation_lines(store: Store, conversation: StoredConversation) -> Iterator[str]:
    counters = store.db.row(f"SELECT {', '.join(COUNTERS)} FROM conversation WHERE pk = ?", (conversation.key,))
    if counters is None:  # deleted since the list was made
        return
    head = {"kind": "conversation", "id": conversation.id, "agent": conversation.agent}
    yield _line(head | dict(zip(COUNTERS, counters, strict=True)))
    for kind, columns in COLUMNS.items():
        query = f"SELECT {', '.join(columns)} FROM {kind} WHERE conversation = ? ORDER BY {ORDER[kind]}"
        for row in store.db.rows(query, (conversation.key,)):
            yield _line({"kind": kind} | {c: _outside(c, v) for c, v in zip(columns, row, strict=True)})


def import_file(store: Store, path: Path) -> int:
    """Take every conversation of an export into the store, all of them or none; returns how many.

    Raises:
        DataFileError: a line that is not of the format; names file and line.
        StoreError: a conversation of the file is in the store already.
    """
    try:
        with path.open("rb") as lines, store.db.transaction():
            return _import_lines(store, path, lines)
    except OSError as exc:
        raise DataFileError(path, None, f"cannot be read ({exc}); give an export of `ld-agent memory export`") from exc


@dataclass(slots=True)
class _Taken:
    """What was taken in of the conversation that is being imported, to check the next line against."""

    key: int
    counters: Mapping[str, int]
    sessions: set[int] = field(default_factory=set)
    running: bool = False


def _import_lines(store: Store, path: Path, lines: Iterable[bytes]) -> int:
    taken: _Taken | None = None
    conversations, number = 0, 0
    for number, text in enumerate(lines, 1):
        try:
            row = json.loads(text.decode("utf-8"))
            if number == 1:
                if row != HEADER:
                    raise ValueError(f"expected {_line(HEADER)}; is this an export of a newer version?")
            elif row["kind"] == "conversation":
                taken = _begin(store, row)
                conversations += 1
            elif taken is None:
                raise ValueError(f"a {row['kind']} line stands before the first conversation line")
            else:
                _take(store, taken, row)
        except StoreError as exc:
            if not isinstance(exc.__cause__, sqlite3.IntegrityError):
                raise StoreError(f"{path}, line {number}: {exc}") from exc
            raise DataFileError(
                path, number, f"repeats an earlier line ({exc.__cause__}); nothing was imported"
            ) from exc
        except (InputError, ValueError, KeyError, TypeError, RecursionError) as exc:
            reason = f"unknown or missing key {exc}" if isinstance(exc, KeyError) else exc
            raise DataFileError(path, number, f"is no line of an export ({reason}); nothing was imported") from exc
    if number == 0:
        raise DataFileError(path, None, "is empty; give an export of `ld-agent memory export`")
    return conversations


def _begin(store: Store, row: Mapping[str, Any]) -> _Taken:
    name, agent = _inside("id", row["id"]), _inside("agent", row["agent"])
    if store.find_conversation(name):
        raise StoreError(
            f"{store.path} has a conversation {name!r} already; delete it first, or import into another store"
        )
    counters = {c: _inside(c, row[c]) for c in COUNTERS}
    key = store.open_conversation(name, agent).key
    assigned = ", ".join(f"{c} = ?" for c in COUNTERS)
    store.db.execute(f"UPDATE conversation SET {assigned} WHERE pk = ?", (*counters.values(), key))
    return _Taken(key, counters)


def _take(store: Store, taken: _Taken, row: Mapping[str, Any]) -> None:
    """Store one line after checking that the conversation can go on from it: ids go on, and one session at most runs."""
    kind = row["kind"]
    columns = COLUMNS[kind]
    values = {c: _inside(c, row[c]) for c in columns}
    if kind == "session":
        if taken.running:
            raise ValueError(f"session {values['number']} follows one that is not closed")
        taken.running = not values["closed"]
        taken.sessions.add(values["number"])
    elif kind == "utterance" and values["session"] not in taken.sessions:
        raise ValueError(f"its session {values['session']} has no session line")
    if kind in COUNTED:
        given = taken.counters[COUNTED[kind]]
        if not re.fullmatch(r"[a-z][1-9][0-9]{0,17}", values["id"]) or int(values["id"][1:]) > given:
            raise ValueError(f"the id {values['id']!r} is none of the {given} {COUNTED[kind]} of its conversation")
    store.db.execute(
        f"INSERT INTO {kind} (conversation, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})",
        (taken.key, *values.values()),
    )


def found_conversation(store: AnyStore, conversation_id: str) -> StoredConversation:
    """Find a conversation.

    Raises:
        StoreError: it is not there; names those that are.
    """
    conversation = store.find_conversation(conversation_id)
    if conversation is None:
        known = ", ".join(c.id for c in store.conversations()[:10]) or "none"
        raise StoreError(f"{store.path} has no conversation {conversation_id!r}; it has: {known}")
    return conversation


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _outside(column: str, value: Any) -> Any:
    if column in TIME_COLUMNS:
        return iso(moment(value))
    if column in JSON_COLUMNS:
        return json.loads(value)
    return bool(value) if column in FLAG_COLUMNS else value


def _inside(column: str, value: Any) -> Any:
    """A value of a line as it stands in its column; what would be another type there, or no text, is refused."""
    _line(value).encode()
    if column in TIME_COLUMNS:
        return microseconds(utc(value, column))
    if column == "details":
        fits = isinstance(value, dict)
    elif column in JSON_COLUMNS:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif column in FLAG_COLUMNS:
        fits = isinstance(value, bool)
    elif column in NUMBER_COLUMNS:
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= GREATEST
    else:
        fits = isinstance(value, str) or (column == "superseded_by" and value is None)
    if not fits:
        raise ValueError(f"{column} is {_line(value)[:80]}")
    return json_text(value) if column in JSON_COLUMNS else value
