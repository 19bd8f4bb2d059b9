"""What a person changes by hand in the memory of one conversation, and the log of it. Every method runs in a transaction of
its caller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ld_agent.errors import InputError
from ld_agent.storage.columns import microseconds, moment
from ld_agent.storage.database import Database
from ld_agent.types import Change

TABLES = {"m": "record", "t": "trait"}
"""The table of a record or trait by its id's first letter."""


class SQLEdits:
    """See the methods of the same names in `ld_agent.storage.base.Store`."""

    def __init__(self, db: Database, key: int) -> None:
        self._db, self._key = db, key

    def edit(self, target: str, text: str, vector: Any, at: datetime) -> None:
        table, pk, before = self._row(target)
        self._db.execute(
            f"UPDATE {table} SET text = ?, vector = ? WHERE conversation = ? AND pk = ?", (text, vector, self._key, pk)
        )
        if table == "record":
            self._db.execute("DELETE FROM passage WHERE conversation = ? AND record = ?", (self._key, pk))
        self._log(target, "edit", at, before)

    def forget(self, target: str, at: datetime) -> None:
        table, pk, _ = self._row(target)
        self._db.execute(f"DELETE FROM {table} WHERE conversation = ? AND pk = ?", (self._key, pk))
        self._db.execute("DELETE FROM recall WHERE conversation = ? AND record = ?", (self._key, target))
        self._db.execute(
            "UPDATE trait SET superseded_by = NULL WHERE conversation = ? AND superseded_by = ?", (self._key, target)
        )
        self._db.execute("UPDATE change SET before = '' WHERE conversation = ? AND target = ?", (self._key, target))
        self._log(target, "forget", at, "")

    def pin(self, target: str, pinned: bool, at: datetime) -> None:
        table, pk, before = self._row(target)
        self._db.execute(f"UPDATE {table} SET pinned = ? WHERE conversation = ? AND pk = ?", (pinned, self._key, pk))
        self._log(target, "pin" if pinned else "unpin", at, before)

    def changes(self) -> list[Change]:
        rows = self._db.rows(
            "SELECT target, action, at, before FROM change WHERE conversation = ? ORDER BY pk", (self._key,)
        )
        return [Change(target, action, moment(at), before) for target, action, at, before in rows]

    def _row(self, target: str) -> tuple[str, int, str]:
        """Table, primary key and text of a record or trait."""
        table = TABLES.get(target[:1])
        row = table and self._db.row(
            f"SELECT pk, text FROM {table} WHERE conversation = ? AND id = ?", (self._key, target)
        )
        if not table or not row:
            raise InputError(f"{target!r} is not a record or trait of this conversation; `memory list` shows their ids")
        return table, row[0], row[1]

    def _log(self, target: str, action: str, at: datetime, before: str) -> None:
        self._db.execute(
            "INSERT INTO change (conversation, target, action, at, before) VALUES (?, ?, ?, ?, ?)",
            (self._key, target, action, microseconds(at), before),
        )
        self._db.execute("DELETE FROM snapshot WHERE conversation = ?", (self._key,))
        self._db.execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (self._key,))
