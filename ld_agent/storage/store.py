"""The store in plain SQL that every engine understands: many conversations, strictly separated. Knows nothing of models,
prompts or scores, and no engine; almost every method takes a conversation's key.

Every write that belongs together is one transaction, and every write can be repeated: a session is closed once, a view
digests a session once and an utterance's traits are merged once, whoever comes first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from ld_agent.storage.database import EVERYONE
from ld_agent.storage.edits import Edits
from ld_agent.storage.personas import PersonaShelf
from ld_agent.storage.rows import ITEMS, RECORD, StoredConversation, from_rows, insert, microseconds
from ld_agent.storage.shelf import Shelf
from ld_agent.types import Record, Trait, utc

SINCE = {"record": f"view != '{ITEMS}' AND at", "trait": "source != '' AND last_at"}
"""SQL: which rows of a table have a lifetime, and from when on."""


class Store(Edits):
    """What is stored of conversations. An engine's store says what a version is and how a conversation is deleted.

    The parts: `ld_agent.storage.conversations`, then `utterances`, then `edits`, then records and what expires here; those of
    a view are on its `Shelf`, the traits on the `PersonaShelf`.
    """

    def shelf(self, key: int, view: str) -> Shelf:
        return Shelf(self, key, view)

    def personas(self, key: int) -> PersonaShelf:
        return PersonaShelf(self, key)

    def records(self, key: int, *, after: str | None = None, session: int | None = None) -> list[Record]:
        """Records of a conversation in storage order: all, those after a record's id, or those of a session."""
        where, values = "conversation = ?1", list[Any]([key])
        if session is not None:
            where, values = f"{where} AND session = ?2", [key, session]
        if after is not None:  # the plus keeps SQLite on the rows' own order: what is new lies at the end
            pk = self.db.of(key).row("SELECT pk FROM record WHERE conversation = ? AND id = ?", (key, after))
            where, values = f"+{where} AND pk > ?{len(values) + 1}", [*values, pk[0] if pk else 0]
        return self._records(key, where, *values)

    def traits(self, key: int) -> list[Trait]:
        """All traits of a conversation, past ones too, in storage order."""
        return [trait for trait, _ in self.personas(key).traits()]

    def pinned(self, key: int) -> list[Record]:
        return self._records(key, "conversation = ? AND pinned = 1", key)

    def note_recalled(self, key: int, reply: str, records: Iterable[str]) -> None:
        """Record which records, by id, were in a reply's prompt."""
        with self.db.transaction(key):
            for record in records:
                row = {"conversation": key, "record": record, "utterance": reply}
                insert(self.db.of(key), "recall", row, unless_there=True)

    def recalled_by(self, key: int, replies: Sequence[str]) -> dict[str, list[Record]]:
        """By reply, the records of `note_recalled` as they are now, in the order of storing."""
        of_replies = f"conversation = ?1 AND {self.db.within('utterance', '?2')}"
        pairs = self.db.of(key).rows(f"SELECT utterance, record FROM recall WHERE {of_replies}", (key, [*replies]))
        records = self._records(
            key, f"conversation = ?1 AND {self.db.within('id', '?2')}", key, [*{one for _, one in pairs}]
        )
        known = {*map(tuple, pairs)}
        return {reply: [record for record in records if (reply, record.id) in known] for reply in replies}

    def _records(self, key: int, where: str, *values: Any) -> list[Record]:
        rows = self.db.of(key).rows(f"SELECT {RECORD} FROM record WHERE {where} ORDER BY pk", values)
        lapsed = self.lapsed(key) if rows else set()
        return [record for record in from_rows(Record, rows) if record.id not in lapsed]

    def passages_by_id(self, key: int, ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        """By id, the passages of those records that have some, as `Shelf.set_passages` takes them."""
        rows = self.db.of(key).rows(
            f"""SELECT id, words, vectors FROM record
                JOIN passage ON passage.conversation = record.conversation AND passage.record = record.pk
                WHERE record.conversation = ?1 AND {self.db.within("id", "?2")}""",
            (key, list(ids)),
        )
        return {record: (words, vectors) for record, words, vectors in rows}

    def record_bytes(self) -> int:
        """Size of all records in bytes: texts, details of the views, and vectors."""
        rows = self.db.acting_for(EVERYONE).rows("SELECT vector, text, topics, sources, details FROM record")
        return sum(len(vector or b"") + sum(len(text.encode()) for text in texts) for vector, *texts in rows)

    def counts(self, key: int) -> dict[str, int]:
        """How many sessions, utterances, records and active traits a conversation has."""
        there = f"conversation = ?1 AND NOT {self.db.within('id', '?2')}"
        row = self.db.of(key).row(
            f"""SELECT (SELECT count(*) FROM session WHERE conversation = ?1),
                       (SELECT count(*) FROM utterance WHERE conversation = ?1 AND replaced = 0),
                       (SELECT count(*) FROM record WHERE {there}),
                       (SELECT count(*) FROM trait WHERE {there} AND superseded_by IS NULL AND ended_by = '')""",
            (key, sorted(self.lapsed(key))),
        )
        return dict(zip(("sessions", "utterances", "records", "traits"), row, strict=True))

    def record_counts(self, key: int) -> dict[str, int]:
        """The number of stored records of each view, by name."""
        query = "SELECT view, count(*) FROM record WHERE conversation = ? GROUP BY view ORDER BY view"
        return dict(self.db.of(key).rows(query, (key,)))

    # ---- what expires

    def _lapsing(self) -> list[tuple[str, str, int]]:
        """Of each kind of row that may have expired by now: its table, which they are in SQL, and the value of ?1 there."""
        now = microseconds(utc(self.clock(), "the clock"))
        lasting = [
            (table, f"{SINCE[table]} <= ?1", now - lifetime // timedelta(microseconds=1))
            for table, lifetime in self.lifetimes.items()
        ]
        kinds = [("record", f"view = '{ITEMS}' AND expires <= ?1", now), *lasting]
        return [(table, f"pinned = 0 AND {which}", before) for table, which, before in kinds]

    def lapsed(self, key: int) -> set[str]:
        """The ids of the records and traits of a conversation that have expired, by `clock`, which is read only if some can;
        readers leave them out."""
        db, expiring = self.db.of(key), "conversation = ? AND expires IS NOT NULL AND pinned = 0"
        if not self.lifetimes and not db.row(f"SELECT 1 FROM record WHERE {expiring} LIMIT 1", (key,)):
            return set()
        rows = (
            db.rows(f"SELECT id FROM {table} WHERE conversation = ?2 AND {which}", (before, key))
            for table, which, before in self._lapsing()
        )
        return {row[0] for found in rows for row in found}

    def expire(self, key: int) -> bool:
        """Remove the records and traits of a conversation that have expired, without a trace in the log; whether there were
        any. Call it only in the conversation's turnstile.

        The lines of `ITEMS` go with them, other lines stay. A trait that an expired one superseded remains history.
        """
        if not self.lapsed(key):
            return False
        with self.db.transaction(key):
            db, values = self.db.of(key), (key, sorted(self.lapsed(key)))
            gone = self.db.within("id", "?2")
            items = db.rows(
                f"SELECT sources FROM record WHERE conversation = ?1 AND {gone} AND view = '{ITEMS}'", values
            )
            for change, which in (
                ("UPDATE trait SET superseded_by = NULL", self.db.within("superseded_by", "?2")),
                ("UPDATE change SET before = ''", self.db.within("target", "?2")),
                ("DELETE FROM recall", self.db.within("record", "?2")),
                ("DELETE FROM record", gone),
                ("DELETE FROM trait", gone),
            ):
                db.execute(f"{change} WHERE conversation = ?1 AND {which}", values)
            if lines := [line for (sources,) in items for line in json.loads(sources)]:
                where = self.db.within("id", "?2")
                db.execute(f"UPDATE utterance SET text = '' WHERE conversation = ?1 AND {where}", (key, lines))
                self.replace(key, lines)
            self._edited(key)
        return True

    def expired(self) -> list[StoredConversation]:
        """The conversations in which something has expired."""
        db = self.db.acting_for(EVERYONE)
        rows = (
            db.rows(f"SELECT DISTINCT conversation FROM {table} WHERE {which}", (before,))
            for table, which, before in self._lapsing()
        )
        keys = {row[0] for found in rows for row in found}
        return [one for one in self.conversations() if one.key in keys]
