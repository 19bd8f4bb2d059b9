"""Export and import of a store as JSON lines: everything that was said and remembered, no vectors, no file format of
SQLite. Importing an export and exporting again gives the same bytes.

Line 1 is ``{"format": "ld_agent.memory", "version": 1}``. Then, conversation by conversation in the order of their ids,
one ``conversation`` line and its ``session``, ``utterance``, ``record`` and ``trait`` lines in the order of their making;
``kind`` names each. Times are ISO 8601 in UTC. Vectors are made again from the texts when the store is next used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ld_agent.errors import DataFileError, StoreError
from ld_agent.storage.sqlite import Store, StoredConversation, microseconds, moment
from ld_agent.types import iso, utc

HEADER = {"format": "ld_agent.memory", "version": 1}
JSON_COLUMNS = frozenset({"topics", "sources", "details"})
TIME_COLUMNS = frozenset({"at", "last_at"})
FLAG_COLUMNS = frozenset({"closed", "extracted", "fallback"})
COLUMNS = {
    "session": ("number", "closed"),
    "digested": ("view", "session"),
    "utterance": ("id", "session", "speaker", "text", "at", "extracted"),
    "record": ("id", "view", "session", "text", "at", "topics", "sources", "fallback", "details"),
    "trait": ("id", "speaker", "text", "at", "source", "last_at", "mentions", "superseded_by"),
}
ORDER = {"session": "number", "digested": "view, session", "utterance": "pk", "record": "pk", "trait": "pk"}
COUNTERS = ("utterances", "records", "traits")


def export_lines(store: Store, conversation_id: str | None = None) -> Iterator[str]:
    """Lines of the export, without line ends: the whole store, or one conversation.

    Raises:
        StoreError: no such conversation.
    """
    chosen = store.conversations() if conversation_id is None else [found_conversation(store, conversation_id)]
    yield _line(HEADER)
    for conversation in chosen:
        counters = store.db.row(f"SELECT {', '.join(COUNTERS)} FROM conversation WHERE pk = ?", (conversation.key,))
        head = {"kind": "conversation", "id": conversation.id, "agent": conversation.agent}
        yield _line(head | dict(zip(COUNTERS, counters, strict=True)))
        for kind, columns in COLUMNS.items():
            query = f"SELECT {', '.join(columns)} FROM {kind} WHERE conversation = ? ORDER BY {ORDER[kind]}"
            for row in store.db.stream(query, (conversation.key,)):
                yield _line({"kind": kind} | {c: _outside(c, v) for c, v in zip(columns, row, strict=True)})


def import_file(store: Store, path: Path) -> int:
    """Take every conversation of an export into the store, all of them or none; returns how many.

    Raises:
        DataFileError: a line that is not of the format; names file and line.
        StoreError: a conversation of the file is in the store already.
    """
    try:
        with path.open(encoding="utf-8") as lines, store.db.transaction():
            return _import_lines(store, path, lines)
    except (OSError, UnicodeDecodeError) as exc:
        raise DataFileError(path, None, f"cannot be read ({exc}); give an export of `ld-agent memory export`") from exc


def _import_lines(store: Store, path: Path, lines: TextIO) -> int:
    key, conversations, number = None, 0, 0
    for number, text in enumerate(lines, 1):
        try:
            row = json.loads(text)
            if number == 1:
                if row != HEADER:
                    raise DataFileError(
                        path,
                        1,
                        f"expected {_line(HEADER)}, found {text.strip()[:80]!r}; is this an export of a newer version?",
                    )
            elif row["kind"] == "conversation":
                if store.find_conversation(row["id"]):
                    raise StoreError(
                        f"{store.path} has a conversation {row['id']!r} already; delete it first, or import into another store"
                    )
                key = store.open_conversation(row["id"], row["agent"]).key
                counts = tuple(int(row[c]) for c in COUNTERS)
                store.db.execute(
                    f"UPDATE conversation SET {', '.join(f'{c} = ?' for c in COUNTERS)} WHERE pk = ?", (*counts, key)
                )
                conversations += 1
            else:
                columns = COLUMNS[row["kind"]]
                values = tuple(_inside(c, row[c]) for c in columns)
                store.db.execute(
                    f"INSERT INTO {row['kind']} (conversation, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})",
                    (key, *values),
                )
        except DataFileError:
            raise
        except StoreError as exc:
            raise StoreError(f"{path}, line {number}: {exc}") from exc
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise DataFileError(
                path, number, f"is no line of an export ({type(exc).__name__}: {exc}); nothing was imported"
            ) from exc
    if number == 0:
        raise DataFileError(path, None, "is empty; give an export of `ld-agent memory export`")
    return conversations


def found_conversation(store: Store, conversation_id: str) -> StoredConversation:
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
    if column in TIME_COLUMNS:
        return microseconds(utc(value, column))
    if column in JSON_COLUMNS:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return value
