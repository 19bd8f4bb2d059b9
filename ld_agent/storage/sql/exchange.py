"""Rows for export and import, and the renaming of an agent: plain SQL without checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ld_agent.errors import RepeatedRowError, StoreError
from ld_agent.storage.database import Database
from ld_agent.storage.rows import COLUMNS, COUNTERS
from ld_agent.storage.sql.rows import plain_value, stored_value

ORDER = {
    "session": "number",
    "enabled": "view",
    "digested": "view, session",
    "utterance": "pk",
    "observed": "view, utterance",
    "record": "pk",
    "trait": "pk",
    "change": "pk",
    "recall": "record, utterance",
}


def counters(db: Database, key: int) -> dict[str, int]:
    """See `Store.counters`."""
    row = db.of(key).row(f"SELECT {', '.join(COUNTERS)} FROM conversation WHERE pk = ?", (key,))
    return dict(zip(COUNTERS, row, strict=True)) if row else {}


def set_counters(db: Database, key: int, counts: Mapping[str, int]) -> None:
    """See `Store.set_counters`."""
    assigned = ", ".join(f"{name} = ?" for name in COUNTERS)
    db.of(key).execute(f"UPDATE conversation SET {assigned} WHERE pk = ?", (*(counts[name] for name in COUNTERS), key))


def rows(db: Database, key: int, kind: str) -> Iterator[dict[str, Any]]:
    """See `Store.rows`."""
    columns = COLUMNS[kind]
    query = f"SELECT {', '.join(columns)} FROM {kind} WHERE conversation = ? ORDER BY {ORDER[kind]}"
    for row in db.of(key).rows(query, (key,)):
        yield {column: plain_value(column, stored) for column, stored in zip(columns, row, strict=True)}


def add_row(db: Database, key: int, kind: str, row: Mapping[str, Any]) -> None:
    """See `Store.add_row`."""
    columns = COLUMNS[kind]
    statement = f"INSERT INTO {kind} (conversation, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})"
    try:
        db.of(key).execute(statement, (key, *(stored_value(column, row[column]) for column in columns)))
    except StoreError as exc:
        if isinstance(exc.__cause__, db.integrity_error):
            raise RepeatedRowError(str(exc.__cause__).splitlines()[0]) from exc
        raise


def rename_agent(db: Database, key: int, name: str) -> None:
    """See `Store.rename_agent`."""
    with db.transaction(key):
        row = db.of(key).row("SELECT agent FROM conversation WHERE pk = ?", (key,))
        if row is None:
            raise StoreError(f"{db.path}: the conversation was deleted while in use; reopen it")
        [before] = row
        values = (name, key, before)
        db.of(key).execute("UPDATE conversation SET agent = ? WHERE pk = ? AND agent = ?", values)
        db.of(key).execute("UPDATE utterance SET speaker = ? WHERE conversation = ? AND speaker = ?", values)
        db.of(key).execute("UPDATE trait SET speaker = ? WHERE conversation = ? AND speaker = ?", values)
        # Passages are derived data with speaker names; missing ones are recomputed.
        db.of(key).execute("DELETE FROM passage WHERE conversation = ?", (key,))
        db.of(key).execute("DELETE FROM snapshot WHERE conversation = ?", (key,))
        db.of(key).execute("DELETE FROM speaker WHERE conversation = ? AND name = ?", (key, before))
        db.of(key).execute(
            "INSERT INTO speaker (conversation, name, first) SELECT conversation, speaker, min(pk) FROM utterance "
            "WHERE conversation = ? AND speaker = ? GROUP BY conversation, speaker ON CONFLICT DO NOTHING",
            (key, name),
        )
        db.of(key).execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (key,))
