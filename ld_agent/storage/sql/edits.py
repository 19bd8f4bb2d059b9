"""What a person changes by hand in the memory of one conversation, and the log of it. Every method runs in a transaction of
its caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ld_agent.errors import InputError
from ld_agent.storage.columns import json_text, microseconds, moment
from ld_agent.storage.database import Database
from ld_agent.storage.rows import Rewriting
from ld_agent.storage.sql.personas import HOLDS_AGAIN
from ld_agent.types import Change, Record

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
            f"UPDATE trait SET {HOLDS_AGAIN} WHERE conversation = ? AND superseded_by = ?", (self._key, target)
        )
        self._db.execute("UPDATE change SET before = '' WHERE conversation = ? AND target = ?", (self._key, target))
        self._log(target, "forget", at, "")

    def pin(self, target: str, pinned: bool, at: datetime) -> None:
        table, pk, before = self._row(target)
        self._db.execute(f"UPDATE {table} SET pinned = ? WHERE conversation = ? AND pk = ?", (pinned, self._key, pk))
        self._log(target, "pin" if pinned else "unpin", at, before)

    def rewrite(self, rewriting: Rewriting, vectors: Sequence[object], at: datetime) -> None:
        """See `Store.rewrite`.

        Args:
            vectors: those of the records, as statement parameters.
        """
        for utterance_id, text in rewriting.lines.items():
            before = self._rewrite_line(utterance_id, text)
            self._log_rewritten(utterance_id, text, at, "" if rewriting.forgotten else before)
        for (record, _), vector in zip(rewriting.records, vectors, strict=True):
            before = self._rewrite_record(record, vector)
            if record.text != before:
                self._log_rewritten(record.id, record.text, at, "" if rewriting.forgotten else before)
        for utterance_id in {*rewriting.relearned, *(i for i, text in rewriting.lines.items() if not text)}:
            self._db.execute(
                f"""UPDATE trait SET {HOLDS_AGAIN} WHERE conversation = ? AND ended_by = ? AND superseded_by IS NULL""",
                (self._key, utterance_id),
            )
        for utterance_id in rewriting.relearned:
            self._db.execute(
                "UPDATE utterance SET extracted = 0 WHERE conversation = ? AND id = ? AND replaced = 0",
                (self._key, utterance_id),
            )

    def _rewrite_line(self, utterance_id: str, text: str) -> str:
        """Give an utterance another text; returns the earlier one."""
        place = (self._key, utterance_id)
        [[before]] = self._db.rows("SELECT text FROM utterance WHERE conversation = ? AND id = ?", place)
        self._db.execute("UPDATE utterance SET text = ?3 WHERE conversation = ?1 AND id = ?2", (*place, text))
        if not text:
            self._db.execute(
                "UPDATE utterance SET replaced = 1, extracted = 1 WHERE conversation = ? AND id = ?", place
            )
            self._db.execute("DELETE FROM recall WHERE conversation = ? AND utterance = ?", place)
        return str(before)

    def _rewrite_record(self, new: Record, vector: object) -> str:
        """Replace what a record says and came from; returns its earlier text."""
        _, pk, before = self._row(new.id)
        self._db.execute("DELETE FROM passage WHERE conversation = ? AND record = ?", (self._key, pk))
        if new.text:
            parts = (json_text(new.topics), json_text(new.sources), new.fallback, json_text(dict(new.details)))
            self._db.execute(
                """UPDATE record SET text = ?, topics = ?, sources = ?, fallback = ?, details = ?, vector = ?
                   WHERE conversation = ? AND pk = ?""",
                (new.text, *parts, vector, self._key, pk),
            )
        else:
            self._db.execute("DELETE FROM record WHERE conversation = ? AND pk = ?", (self._key, pk))
            self._db.execute("DELETE FROM recall WHERE conversation = ? AND record = ?", (self._key, new.id))
        return before

    def _log_rewritten(self, target: str, text: str, at: datetime, before: str) -> None:
        if not before:
            self._db.execute("UPDATE change SET before = '' WHERE conversation = ? AND target = ?", (self._key, target))
        self._log(target, "edit" if text else "forget", at, before if text else "")

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
