"""What a person changes by hand in a conversation, and the log of it: corrections, pins, turns edited or answered again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ld_agent.errors import InputError
from ld_agent.storage.rows import Rewriting, Vector, from_rows, insert, json_text
from ld_agent.storage.utterances import Utterances
from ld_agent.types import Change, Record, as_known, checked_name

TABLES = {"m": "record", "t": "trait"}
"""The table of a record or trait by its id's first letter."""
HOLDS_AGAIN = "superseded_by = NULL, holds_until = otherwise_until, otherwise_until = NULL, ended_by = ''"
"""What undoes the end of a trait."""
UNPLANNED = """planned_by = '', otherwise_until = NULL,
    holds_until = CASE ended_by WHEN '' THEN NULL ELSE holds_until END"""
"""What undoes the plan that a trait will end."""


class Edits(Utterances):
    """See `ld_agent.storage.store.Store`."""

    def edit(self, key: int, target: str, text: str, vector: Vector, at: datetime) -> None:
        """Replace the text of a record or trait, given its id.

        Raises:
            InputError: there is no such record or trait.
        """
        with self.db.transaction(key):
            table, pk, before = self._row(key, target)
            values = (text, self.blob(vector), key, pk)
            self.db.of(key).execute(
                f"UPDATE {table} SET text = ?, vector = ? WHERE conversation = ? AND pk = ?", values
            )
            if table == "record":
                self.db.of(key).execute("DELETE FROM passage WHERE conversation = ? AND record = ?", (key, pk))
            self._log(key, target, "edit", at, before)

    def forget(self, key: int, target: str, at: datetime) -> None:
        """Remove a record or trait and all its earlier texts; see `edit`. Traits it superseded become active again."""
        with self.db.transaction(key):
            db, (table, pk, _) = self.db.of(key), self._row(key, target)
            db.execute(f"DELETE FROM {table} WHERE conversation = ? AND pk = ?", (key, pk))
            db.execute("DELETE FROM recall WHERE conversation = ? AND record = ?", (key, target))
            db.execute(f"UPDATE trait SET {HOLDS_AGAIN} WHERE conversation = ? AND superseded_by = ?", (key, target))
            self._log_changed(key, target, "", at, "")

    def pin(self, key: int, target: str, pinned: bool, at: datetime) -> None:
        """Pin or unpin a record or trait; see `edit`."""
        with self.db.transaction(key):
            table, pk, before = self._row(key, target)
            values = (pinned, key, pk)
            self.db.of(key).execute(f"UPDATE {table} SET pinned = ? WHERE conversation = ? AND pk = ?", values)
            self._log(key, target, "pin" if pinned else "unpin", at, before)

    def changes(self, key: int) -> list[Change]:
        """Manual changes, oldest first."""
        query = "SELECT target, action, at, before FROM change WHERE conversation = ? ORDER BY pk"
        return from_rows(Change, self.db.of(key).rows(query, (key,)))

    def rewrite(self, key: int, rewriting: Rewriting, at: datetime) -> None:
        """Carry a change by hand to utterances and records, atomically and logged."""
        with self.db.transaction(key):
            db = self.db.of(key)
            for utterance_id, text in rewriting.lines.items():
                before = self._rewrite_line(key, utterance_id, text)
                self._log_changed(key, utterance_id, text, at, "" if rewriting.forgotten else before)
            for record, vector in rewriting.records:
                before = self._rewrite_record(key, record, vector)
                if record.text != before:
                    self._log_changed(key, record.id, record.text, at, "" if rewriting.forgotten else before)
            self._take_back_ends(key, [*rewriting.relearned, *(i for i, text in rewriting.lines.items() if not text)])
            for utterance_id in rewriting.relearned:
                db.execute(
                    "UPDATE utterance SET extracted = 0 WHERE conversation = ? AND id = ? AND replaced = 0",
                    (key, utterance_id),
                )

    def _take_back_ends(self, key: int, utterance_ids: Sequence[str]) -> None:
        """Let traits hold as if utterances had not said that they ended, or will end."""
        for change, where in (
            (UNPLANNED, self.db.within("planned_by", "?2")),
            (HOLDS_AGAIN, f"superseded_by IS NULL AND {self.db.within('ended_by', '?2')}"),
        ):
            statement = f"UPDATE trait SET {change} WHERE conversation = ?1 AND {where}"
            self.db.of(key).execute(statement, (key, list(utterance_ids)))

    def _rewrite_line(self, key: int, utterance_id: str, text: str) -> str:
        """Give an utterance another text; returns the earlier one."""
        db, place = self.db.of(key), (key, utterance_id)
        [[before]] = db.rows("SELECT text FROM utterance WHERE conversation = ? AND id = ?", place)
        db.execute("UPDATE utterance SET text = ?3 WHERE conversation = ?1 AND id = ?2", (*place, text))
        if not text:
            db.execute("UPDATE utterance SET replaced = 1, extracted = 1 WHERE conversation = ? AND id = ?", place)
            db.execute("DELETE FROM recall WHERE conversation = ? AND utterance = ?", place)
        return str(before)

    def _rewrite_record(self, key: int, new: Record, vector: Vector) -> str:
        """Replace what a record says and came from; returns its earlier text."""
        db, (_, pk, before) = self.db.of(key), self._row(key, new.id)
        db.execute("DELETE FROM passage WHERE conversation = ? AND record = ?", (key, pk))
        if new.text:
            parts = (json_text(new.topics), json_text(new.sources), new.fallback, json_text(dict(new.details)))
            db.execute(
                """UPDATE record SET text = ?, topics = ?, sources = ?, fallback = ?, details = ?, vector = ?
                   WHERE conversation = ? AND pk = ?""",
                (new.text, *parts, self.blob(vector), key, pk),
            )
        else:
            db.execute("DELETE FROM record WHERE conversation = ? AND pk = ?", (key, pk))
            db.execute("DELETE FROM recall WHERE conversation = ? AND record = ?", (key, new.id))
        return before

    def replace(self, key: int, utterance_ids: Sequence[str]) -> None:
        """Remove utterances from the conversation, with traits and records that came only from them; their texts are kept
        as history. Traits that they ended become active again."""
        values = (key, list(utterance_ids))
        from_these = self.db.within("source", "?2")
        only_from_these = f"""sources != '[]' AND NOT EXISTS (SELECT 1 FROM {self.db.elements("record.sources")} AS source
            WHERE NOT {self.db.within("source.value", "?2")})"""
        traits = f"SELECT id FROM trait WHERE conversation = ?1 AND {from_these}"
        gone = f"record IN (SELECT id FROM record WHERE conversation = ?1 AND {only_from_these})"
        with self.db.transaction(key):
            self._take_back_ends(key, utterance_ids)
            self._take_other_sources(key, utterance_ids)
            for change, where in (
                ("UPDATE utterance SET replaced = 1, extracted = 1", self.db.within("id", "?2")),
                (f"UPDATE trait SET {HOLDS_AGAIN}", f"superseded_by IN ({traits})"),
                ("DELETE FROM trait", from_these),
                ("DELETE FROM recall", f"{self.db.within('utterance', '?2')} OR {gone}"),
                ("DELETE FROM record", only_from_these),
            ):
                self.db.of(key).execute(f"{change} WHERE conversation = ?1 AND ({where})", values)
            self._edited(key)

    def _take_other_sources(self, key: int, utterance_ids: Sequence[str]) -> None:
        """Give traits of utterances another that told them as their source: the last, or the first, which their times tell."""
        self.db.of(key).execute(
            f"""UPDATE trait SET source = other.id, channel = other.channel, at = other.at, mentions = mentions - 1
                FROM utterance AS other WHERE trait.conversation = ?1 AND {self.db.within("trait.source", "?2")}
                AND mentions > 1 AND other.conversation = ?1 AND other.speaker = trait.speaker AND other.extracted = 1
                AND other.replaced = 0 AND NOT {self.db.within("other.id", "?2")}
                AND other.at IN (trait.at, trait.last_at)""",
            (key, list(utterance_ids)),
        )

    # ---- names

    def rename_agent(self, key: int, name: str) -> None:
        """Rename a conversation's agent everywhere, including utterances and traits, but not in texts.

        Data derived from speakers is dropped and recomputed; this counts as a manual change.

        Raises:
            InputError: the name is invalid, or belongs to another speaker.
            StoreError: the conversation was deleted.
        """
        name = checked_name(name, "agent")
        with self.db.transaction(key):
            db = self.db.of(key)
            row = db.row("SELECT agent, id FROM conversation WHERE pk = ?", (key,))
            if row is None:
                raise self._deleted()
            before, conversation_id = row
            others = [speaker for speaker in self.speakers(key) if speaker != before]
            if as_known(name, others) in others:
                raise InputError(f"{name!r} has spoken in conversation {conversation_id!r}; choose another name")
            db.execute("UPDATE conversation SET agent = ? WHERE pk = ?", (name, key))
            for table in ("utterance", "trait"):
                values = (name, key, before)
                db.execute(f"UPDATE {table} SET speaker = ? WHERE conversation = ? AND speaker = ?", values)
            db.execute("DELETE FROM passage WHERE conversation = ?", (key,))  # names their speakers
            db.execute("DELETE FROM speaker WHERE conversation = ? AND name = ?", (key, before))
            db.execute(
                "INSERT INTO speaker (conversation, name, first) SELECT conversation, speaker, min(pk) FROM utterance "
                "WHERE conversation = ? AND speaker = ? GROUP BY conversation, speaker ON CONFLICT DO NOTHING",
                (key, name),
            )
            self._edited(key)

    def _row(self, key: int, target: str) -> tuple[str, int, str]:
        """Table, primary key and text of a record or trait."""
        table = TABLES.get(target[:1])
        query = f"SELECT pk, text FROM {table} WHERE conversation = ? AND id = ?"
        row = self.db.of(key).row(query, (key, target)) if table else None
        if not table or not row:
            raise InputError(f"{target!r} is not a record or trait of this conversation; each is shown with its id")
        return table, row[0], row[1]

    def _log_changed(self, key: int, target: str, text: str, at: datetime, before: str) -> None:
        """Log an edit or, where no text is left, that it was forgotten.

        Args:
            before: the earlier text; "": it and all still earlier ones are to be forgotten.
        """
        if not before:
            self.db.of(key).execute(
                "UPDATE change SET before = '' WHERE conversation = ? AND target = ?", (key, target)
            )
        self._log(key, target, "edit" if text else "forget", at, before if text else "")

    def _log(self, key: int, target: str, action: str, at: datetime, before: str) -> None:
        row = {"conversation": key, "target": target, "action": action, "at": at, "before": before}
        insert(self.db.of(key), "change", row)
        self._edited(key)

    def _edited(self, key: int) -> None:
        """Count a change; indexes that were kept are no longer right."""
        self.db.of(key).execute("DELETE FROM snapshot WHERE conversation = ?", (key,))
        self.db.of(key).execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (key,))
