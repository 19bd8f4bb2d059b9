"""The shelf of one view of one conversation: digested and observed items, records, and what is derived from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ld_agent.errors import StoreError
from ld_agent.storage.database import Database
from ld_agent.storage.rows import (
    CATCH_UP,
    PATIENCE,
    RECORD,
    Draft,
    IndexRow,
    Vector,
    from_row,
    from_rows,
    insert,
    insert_item,
    json_text,
    microseconds,
    vector_from,
    with_recall,
)
from ld_agent.storage.utterances import EVERYTHING, IMPORTED
from ld_agent.types import Record, Session, Utterance, least_trusted

if TYPE_CHECKING:
    from ld_agent.storage.store import Store

PAGE = 1000
"""Number of rows read at a time, so that no query stays open while the caller writes."""
ANY_IMPORTED = "EXISTS (SELECT 1 FROM utterance WHERE conversation = ?1 AND source != '')"
UNDIGESTED = """closed = 1 AND NOT EXISTS
    (SELECT 1 FROM digested WHERE conversation = ?1 AND view = ?2 AND session = number)"""
"""SQL: whether a row of ``session`` is still to be digested."""
NOT_SET_ASIDE = f"""NOT EXISTS (SELECT 1 FROM failure WHERE conversation = ?1 AND work = ?2
    AND item = {{item}} AND attempts >= {PATIENCE})"""
SESSION_NOT_SET_ASIDE = NOT_SET_ASIDE.format(item="CAST(number AS TEXT)")


class Shelf:
    """The records of one view of one conversation. Record keys ascend in storage order."""

    def __init__(self, store: Store, key: int, view: str) -> None:
        self._store, self._key, self._view = store, key, view

    @property
    def _db(self) -> Database:
        return self._store.db.of(self._key)

    # ---- digested sessions

    def enable(self) -> None:
        """Record that the view is enabled; sessions that ended before the first time are not its pending work."""
        with self._db.transaction(self._key):
            if self._db.row("SELECT 1 FROM enabled WHERE conversation = ? AND view = ?", (self._key, self._view)):
                return
            first, closed = self._db.row(
                f"""SELECT (SELECT min(session) FROM digested WHERE conversation = ?1 AND view = ?2),
                          (SELECT max(number) FROM session WHERE conversation = ?1 AND closed = 1 AND NOT {IMPORTED})""",
                (self._key, self._view),
            )
            since = first - 1 if first is not None else closed or 0
            since = since if since > CATCH_UP else 0
            insert(self._db, "enabled", self._own(since=since, through=since))
            self._advance()

    def _own(self, **columns: Any) -> dict[str, Any]:
        """A row of this view."""
        return {"conversation": self._key, "view": self._view, **columns}

    def _advance(self) -> None:
        """Advance the mark below which every session is digested."""
        self._db.execute(
            """UPDATE enabled SET through = coalesce(
                 (SELECT number - 1 FROM session WHERE conversation = ?1 AND number > through AND NOT EXISTS
                   (SELECT 1 FROM digested WHERE conversation = ?1 AND view = ?2 AND session = number)
                  ORDER BY number LIMIT 1),
                 (SELECT max(number) FROM session WHERE conversation = ?1), through)
               WHERE conversation = ?1 AND view = ?2""",
            (self._key, self._view),
        )

    def undigested(self, most: int | None = None, *, backlog: bool = False) -> list[Session]:
        """Closed sessions that the view has not digested and that were not set aside, oldest first.

        Args:
            most: at most this many; None: all.
            backlog: also those that ended before the view was enabled, those set aside and imported ones.
        """
        aside = "" if backlog else f"AND NOT {IMPORTED} AND {SESSION_NOT_SET_ASIDE}"
        mark = "0" if backlog else self._mark("through")
        rows = self._db.rows(
            f"""SELECT number FROM session WHERE conversation = ?1 AND number > {mark} AND {UNDIGESTED} {aside}
                ORDER BY number LIMIT ?3""",
            (self._key, self._view, EVERYTHING if most is None else most),
        )
        return [Session(number, tuple(self._store.session_utterances(self._key, number))) for (number,) in rows]

    def history(self) -> list[int]:
        """The numbers of the imported sessions that the view has not digested and that were not set aside, in order of time."""
        rows = self._db.rows(
            f"""SELECT number FROM session WHERE conversation = ?1 AND {ANY_IMPORTED} AND {IMPORTED} AND {UNDIGESTED}
                AND {SESSION_NOT_SET_ASIDE}
                ORDER BY (SELECT min(at) FROM utterance WHERE conversation = ?1 AND session = number), number""",
            (self._key, self._view),
        )
        return [number for (number,) in rows]

    def lacking(self) -> int:
        """The number of closed sessions that the view has not digested, for whatever reason."""
        return self._count_sessions(UNDIGESTED)

    def backlog(self) -> int:
        """The number of undigested sessions that ended before the view was enabled."""
        return self._count_sessions(f"number <= {self._mark('since')} AND {UNDIGESTED}")

    def _mark(self, column: str) -> str:
        return f"coalesce((SELECT {column} FROM enabled WHERE conversation = ?1 AND view = ?2), 0)"

    def _count_sessions(self, where: str) -> int:
        query = f"SELECT count(*) FROM session WHERE conversation = ?1 AND {where}"
        return int(self._db.row(query, (self._key, self._view))[0])

    def digest(self, session: int, drafts: Sequence[Draft]) -> list[Record]:
        """Store the view's records of a session and mark the session as digested, atomically.

        Returns:
            the stored records; none if another process digested the session first.
        """
        with self._db.transaction(self._key):
            self._store.require(self._key)
            if not insert(self._db, "digested", self._own(session=session), unless_there=True):
                return []
            self._advance()
            self._store.has_succeeded(self._key, self._view, str(session))
            return [self._insert(draft) for draft in drafts]

    # ---- observed utterances

    def unobserved(self, session: int, but_speaker: str) -> list[Utterance]:
        """The utterances of a session that the view has not observed and that were not set aside, oldest first.

        Args:
            but_speaker: the speaker whose utterances are excluded.
        """
        return self._store.select(
            self._key,
            f"""AND session = ?3 AND speaker != ?4 AND NOT EXISTS
                (SELECT 1 FROM observed WHERE conversation = ?1 AND view = ?2 AND utterance = utterance.id)
                AND {NOT_SET_ASIDE.format(item="utterance.id")} ORDER BY pk""",
            self._view,
            session,
            but_speaker,
        )

    def observe(self, utterance: Utterance, draft: Draft | None = None) -> Record | None:
        """Mark an utterance as observed and store the view's record of it, if any, atomically.

        Returns:
            the stored record; None where nothing is kept, or another process was first.

        Raises:
            StoreError: the conversation was deleted.
        """
        with self._db.transaction(self._key):
            self._store.require(self._key)
            if not insert(self._db, "observed", self._own(utterance=utterance.id), unless_there=True):
                return None
            self._store.has_succeeded(self._key, self._view, utterance.id)
            self._db.execute(
                "DELETE FROM verdict WHERE conversation = ? AND view = ? AND utterance = ?",
                (self._key, self._view, utterance.id),
            )
            return None if draft is None else self._insert(draft)

    def note_verdict(self, utterance_id: str, worth: bool) -> None:
        """Keep the decision of the generator's call about an utterance until it is observed."""
        with self._db.transaction(self._key):
            self._db.execute(
                """INSERT INTO verdict (conversation, view, utterance, worth) VALUES (?, ?, ?, ?)
                   ON CONFLICT (conversation, view, utterance) DO UPDATE SET worth = excluded.worth""",
                (self._key, self._view, utterance_id, worth),
            )

    def verdicts(self) -> dict[str, bool]:
        """The decisions about utterances that are still to be observed, by utterance id."""
        query = "SELECT utterance, worth FROM verdict WHERE conversation = ? AND view = ?"
        return {utterance: bool(worth) for utterance, worth in self._db.rows(query, (self._key, self._view))}

    # ---- records

    def _insert(self, draft: Draft) -> Record:
        number = self._store.next_id(self._key, "records")
        text, details = self._store.redaction.stored([draft.text, draft.details])
        made = (text, draft.at, draft.session, draft.topics, draft.sources, draft.fallback, details)
        channel, said_by = self._channel(draft), self._said_by(draft)
        record = Record(number, self._view, *made, channel=channel, said_by=said_by, expires=draft.expires)
        insert_item(self._db, "record", self._key, record, vector=self._store.blob(draft.vector))
        return record

    def _channel(self, draft: Draft) -> str:
        """The least trusted channel among a draft's sources; summarizing does not raise trust."""
        said = "SELECT channel FROM utterance WHERE conversation = ?1 AND replaced = 0"
        if draft.verbatim:
            rows = self._db.rows(f"{said} AND {self._db.within('id', '?2')}", (self._key, list(draft.sources)))
        else:
            rows = self._db.rows(f"{said} AND session = ?2", (self._key, draft.session))
        if draft.rewritten:
            earlier = "SELECT DISTINCT channel FROM record WHERE conversation = ? AND view = ?"
            rows = [*rows, *self._db.rows(earlier, (self._key, self._view))]
        return least_trusted(channel for (channel,) in rows)

    def _said_by(self, draft: Draft) -> tuple[str, ...]:
        rows = self._db.rows(
            f"""SELECT DISTINCT speaker FROM utterance WHERE conversation = ?1 AND {self._db.within("id", "?2")}
                AND speaker != (SELECT agent FROM conversation WHERE pk = ?1) ORDER BY speaker""",
            (self._key, list(draft.sources)),
        )
        return tuple(name for (name,) in rows)

    def rows_after(self, key: int) -> Iterator[IndexRow]:
        """Rows for an index with keys above ``key``, in ascending order."""
        rows: list[Any] = [()] * PAGE
        while len(rows) == PAGE:
            rows = self._db.rows(
                "SELECT pk, at, topics, vector, CASE WHEN vector IS NULL THEN text ELSE '' END FROM record "
                "WHERE conversation = ? AND view = ? AND pk > ? ORDER BY pk LIMIT ?",
                (self._key, self._view, key, PAGE),
            )
            for pk, at, topics, vector, text in rows:
                yield IndexRow(pk, at / 1e6, tuple(json.loads(topics)), vector_from(vector), text)
                key = pk

    def count(self) -> int:
        row = self._db.row("SELECT count(*) FROM record WHERE conversation = ? AND view = ?", (self._key, self._view))
        return int(row[0])

    def newest(self, at: datetime | None = None) -> tuple[Record, Vector | None] | None:
        """The latest record with its vector; None: there is none.

        Args:
            at: ignore records younger than this; None: any age.
        """
        row = self._db.row(
            f"""SELECT vector, {RECORD} FROM record WHERE conversation = ?1 AND view = ?2 AND (at <= ?3 OR ?3 IS NULL)
                ORDER BY pk DESC LIMIT 1""",
            (self._key, self._view, None if at is None else microseconds(at)),
        )
        return None if row is None else (from_row(Record, row[1:]), vector_from(row[0]))

    def records(self, keys: Sequence[int]) -> list[Record]:
        """The records with these keys, in this order.

        Raises:
            StoreError: one is gone: the conversation was deleted.
        """
        by_key = {row[0]: row[1:] for row in self._of("record", "pk", keys, f"pk, {RECORD}")}
        if missing := [key for key in keys if key not in by_key]:
            self._store.require(self._key)
            raise StoreError(f"record {missing[0]} was removed while in use; try again", self._store.path)
        return from_rows(Record, map(by_key.__getitem__, keys))

    def _of(self, table: str, column: str, keys: Sequence[int], columns: str) -> list[Any]:
        """Rows by record key, in ascending order; the plus keeps SQLite from reading the whole conversation."""
        db, values = self._db, (self._key, [int(key) for key in keys])
        where = f"+conversation = ?1 AND {db.within(column, '?2')} ORDER BY {column}"
        return db.rows(f"SELECT {columns} FROM {table} WHERE {where}", values)

    def with_sources(self, keys: Sequence[int]) -> list[tuple[int, str, list[Utterance]]]:
        """The text and source utterances of records by key, in order."""
        rows = self._of("record", "pk", keys, "pk, text, sources")
        listed = [(pk, text, json.loads(sources)) for pk, text, sources in rows]
        wanted = sorted({source for _, _, sources in listed for source in sources})
        said = self._store.utterances_by_id(self._key, wanted)
        return [(pk, text, [said[source] for source in sources if source in said]) for pk, text, sources in listed]

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors computed after their rows, by record key."""
        with self._db.transaction(self._key):
            for key, vector in vectors.items():
                values = (self._store.blob(vector), self._key, int(key))
                self._db.execute("UPDATE record SET vector = ? WHERE conversation = ? AND pk = ?", values)

    def vectors(self, last_key: int) -> bytes:
        """The vectors of all records up to a key, in order, as little-endian float32; those not encoded are left out."""
        rows = self._db.rows(
            "SELECT vector FROM record WHERE conversation = ? AND view = ? AND pk <= ? AND vector IS NOT NULL ORDER BY pk",
            (self._key, self._view, last_key),
        )
        return b"".join(row[0] for row in rows)

    def note_recall(self, keys: Sequence[int], at: datetime) -> None:
        """Record that records were recalled at a time; idempotent for the same time."""
        with self._db.transaction(self._key):
            for key, record in zip(keys, self.records(keys), strict=True):
                values = (json_text(with_recall(record.details, at)), self._key, int(key))
                self._db.execute("UPDATE record SET details = ? WHERE conversation = ? AND pk = ?", values)

    def prolong(self, record: str, expires: datetime) -> None:
        """Let a record expire at another time."""
        values = (microseconds(expires), self._key, record)
        self._db.execute("UPDATE record SET expires = ? WHERE conversation = ? AND id = ?", values)

    # ---- what is derived

    def passage_words(self, keys: Sequence[int]) -> dict[int, str]:
        """The passage words of records that have passages, as JSON text."""
        return dict(self._of("passage", "record", keys, "record, words"))

    def passage_vectors(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The packed vectors of those records that have passages."""
        return dict(self._of("passage", "record", keys, "record, vectors"))

    def without_passages(self, most: int) -> list[int]:
        """The keys of the latest records that have no passages, at most so many."""
        rows = self._db.rows(
            """SELECT pk FROM record WHERE conversation = ?1 AND view = ?2 AND NOT EXISTS
               (SELECT 1 FROM passage WHERE passage.conversation = ?1 AND record = record.pk)
               ORDER BY pk DESC LIMIT ?3""",
            (self._key, self._view, most),
        )
        return [row[0] for row in rows]

    def set_passages(self, passages: Mapping[int, tuple[str, bytes]]) -> None:
        """Store passages as (words, vectors) by record key; records deleted in the meantime are skipped."""
        with self._db.transaction(self._key):
            self._store.require_same_encoder()
            for key, (words, vectors) in passages.items():  # SQLite has no ON CONFLICT for a pair with the rowid in it
                place = (self._key, int(key))
                self._db.execute("DELETE FROM passage WHERE conversation = ? AND record = ?", place)
                self._db.execute(
                    """INSERT INTO passage (record, conversation, words, vectors)
                        SELECT pk, conversation, ?3, ?4 FROM record WHERE conversation = ?1 AND pk = ?2""",
                    (*place, words, vectors),
                )

    def snapshot(self) -> tuple[int, bytes] | None:
        """The last index snapshot with its last key; None: there is none, or records have changed since."""
        query = "SELECT last_key, data FROM snapshot WHERE conversation = ? AND view = ?"
        row: tuple[int, bytes] | None = self._db.row(query, (self._key, self._view))
        return row

    def keep_snapshot(self, last_key: int, index: bytes) -> None:
        """Store an index snapshot for the next start; derived data, dropped whenever a record of the shelf is changed
        manually."""
        with self._db.transaction(self._key):
            self._store.require_same_encoder()
            self._db.execute(
                """INSERT INTO snapshot (conversation, view, last_key, data) SELECT pk, ?, ?, ? FROM conversation
                   WHERE pk = ? ON CONFLICT (conversation, view)
                   DO UPDATE SET last_key = excluded.last_key, data = excluded.data""",
                (self._view, last_key, index, self._key),
            )
