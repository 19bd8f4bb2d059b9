"""The shelf of one view of one conversation: records, digested and observed items, and derived data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ld_agent.errors import StoreError
from ld_agent.storage.base import CATCH_UP, PATIENCE, Draft, IndexRow
from ld_agent.storage.columns import Vector, json_text, microseconds, vector_from
from ld_agent.storage.database import Database
from ld_agent.storage.recollection import with_recall
from ld_agent.storage.sql.history import ANY_IMPORTED, EVERYTHING, IMPORTED
from ld_agent.storage.sql.rows import RECORD, record, record_values, utterances
from ld_agent.types import Record, Session, Utterance, least_trusted

if TYPE_CHECKING:
    from ld_agent.storage.sql.store import SQLStore

PAGE = 1000
"""Number of rows read at a time, so that no query stays open while the caller writes."""
NOT_SET_ASIDE = f"""NOT EXISTS (SELECT 1 FROM failure WHERE conversation = ?1 AND work = ?2
                   AND item = {{item}} AND attempts >= {PATIENCE})"""


class SQLShelf:
    """See `ld_agent.storage.base.Shelf`."""

    def __init__(self, store: SQLStore, key: int, view: str) -> None:
        self._store, self._key, self._view = store, key, view

    @property
    def _db(self) -> Database:
        return self._store.db.of(self._key)

    # ---- digested sessions and observed utterances

    def enable(self) -> None:
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
            self._db.execute(
                "INSERT INTO enabled (conversation, view, since, through) VALUES (?, ?, ?, ?)",
                (self._key, self._view, since, since),
            )
            self._advance()

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
        aside = "" if backlog else f"AND NOT {IMPORTED} AND {NOT_SET_ASIDE.format(item='CAST(number AS TEXT)')}"
        mark = "0" if backlog else self._mark("through")
        rows = self._db.rows(
            f"""SELECT number FROM session WHERE conversation = ?1 AND number > {mark} AND closed = 1 AND NOT EXISTS
                (SELECT 1 FROM digested WHERE conversation = ?1 AND view = ?2 AND session = number) {aside}
                ORDER BY number LIMIT ?3""",
            (self._key, self._view, EVERYTHING if most is None else most),
        )
        return [Session(number, tuple(self._store.session_utterances(self._key, number))) for (number,) in rows]

    def history(self) -> list[int]:
        rows = self._db.rows(
            f"""SELECT number FROM session WHERE conversation = ?1 AND closed = 1 AND {ANY_IMPORTED} AND {IMPORTED} AND NOT EXISTS
                (SELECT 1 FROM digested WHERE conversation = ?1 AND view = ?2 AND session = number)
                AND {NOT_SET_ASIDE.format(item="CAST(number AS TEXT)")}
                ORDER BY (SELECT min(at) FROM utterance WHERE conversation = ?1 AND session = number), number""",
            (self._key, self._view),
        )
        return [number for (number,) in rows]

    def _mark(self, column: str) -> str:
        return f"coalesce((SELECT {column} FROM enabled WHERE conversation = ?1 AND view = ?2), 0)"

    def lacking(self) -> int:
        row = self._db.row(
            """SELECT (SELECT count(*) FROM session WHERE conversation = ?1 AND closed = 1) - (SELECT count(*) FROM digested
               JOIN session ON session.conversation = digested.conversation AND number = session
               WHERE digested.conversation = ?1 AND view = ?2 AND closed = 1)""",
            (self._key, self._view),
        )
        return int(row[0])

    def backlog(self) -> int:
        row = self._db.row(
            f"""SELECT count(*) FROM session WHERE conversation = ?1 AND number <= {self._mark("since")} AND closed = 1
                AND NOT EXISTS (SELECT 1 FROM digested WHERE conversation = ?1 AND view = ?2 AND session = number)""",
            (self._key, self._view),
        )
        return int(row[0])

    def digest(self, session: int, drafts: Sequence[Draft]) -> list[Record]:
        with self._db.transaction(self._key):
            self._store.require(self._key)
            if not self._db.execute(
                "INSERT INTO digested (conversation, view, session) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (self._key, self._view, session),
            ):
                return []
            self._advance()
            self._clear_failure(str(session))
            return [self._insert(draft) for draft in drafts]

    def unobserved(self, session: int, but_speaker: str) -> list[Utterance]:
        return utterances(
            self._db,
            f"""conversation = ?1 AND session = ?3 AND speaker != ?4 AND NOT EXISTS
                (SELECT 1 FROM observed WHERE conversation = ?1 AND view = ?2 AND utterance = utterance.id)
                AND {NOT_SET_ASIDE.format(item="utterance.id")} ORDER BY pk""",
            (self._key, self._view, session, but_speaker),
        )

    def observe(self, utterance: Utterance, draft: Draft | None = None) -> Record | None:
        with self._db.transaction(self._key):
            is_new = self._taken_in(utterance)
            return self._insert(draft) if is_new and draft is not None else None

    def _taken_in(self, utterance: Utterance) -> bool:
        """Mark an utterance as observed; False if another process was first."""
        with self._db.transaction(self._key):
            self._store.require(self._key)
            if not self._db.execute(
                "INSERT INTO observed (conversation, view, utterance) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (self._key, self._view, utterance.id),
            ):
                return False
            self._clear_failure(utterance.id)
            self._db.execute(
                "DELETE FROM verdict WHERE conversation = ? AND view = ? AND utterance = ?",
                (self._key, self._view, utterance.id),
            )
        return True

    def note_verdict(self, utterance_id: str, worth: bool) -> None:
        with self._db.transaction(self._key):
            self._db.execute(
                """INSERT INTO verdict (conversation, view, utterance, worth) VALUES (?, ?, ?, ?)
                   ON CONFLICT (conversation, view, utterance) DO UPDATE SET worth = excluded.worth""",
                (self._key, self._view, utterance_id, worth),
            )

    def verdicts(self) -> dict[str, bool]:
        rows = self._db.rows(
            "SELECT utterance, worth FROM verdict WHERE conversation = ? AND view = ?", (self._key, self._view)
        )
        return {utterance: bool(worth) for utterance, worth in rows}

    def _clear_failure(self, item: str) -> None:
        self._db.execute(
            "DELETE FROM failure WHERE conversation = ? AND work = ? AND item = ?", (self._key, self._view, item)
        )

    # ---- records

    def _insert(self, draft: Draft) -> Record:
        number = self._store.next_id(self._key, "records", "m")
        made = (draft.text, draft.at, draft.session, draft.topics, draft.sources, draft.fallback, draft.details)
        channel, said_by = self._channel(draft), self._said_by(draft)
        stored = Record(number, self._view, *made, channel=channel, said_by=said_by)
        self._db.execute(
            f"INSERT INTO record (conversation, vector, {RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._key, self._store.blob(draft.vector), *record_values(stored)),
        )
        return stored

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
        row = self._db.row(
            f"""SELECT vector, {RECORD} FROM record WHERE conversation = ?1 AND view = ?2 AND (at <= ?3 OR ?3 IS NULL)
                ORDER BY pk DESC LIMIT 1""",
            (self._key, self._view, None if at is None else microseconds(at)),
        )
        return None if row is None else (record(row[1:]), vector_from(row[0]))

    def records(self, keys: Sequence[int]) -> list[Record]:
        rows = self._db.rows(
            # by pk: the plus keeps SQLite from reading the whole conversation
            f"SELECT pk, {RECORD} FROM record WHERE {self._db.within('pk', '?2')} AND +conversation = ?1",
            (self._key, [int(key) for key in keys]),
        )
        by_key = {row[0]: row[1:] for row in rows}
        if missing := [key for key in keys if key not in by_key]:
            self._store.require(self._key)
            raise StoreError(f"{self._store.path}: record {missing[0]} was removed while in use; try again")
        return [record(by_key[key]) for key in keys]

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        with self._db.transaction(self._key):
            for key, vector in vectors.items():
                self._db.execute(
                    "UPDATE record SET vector = ? WHERE conversation = ? AND pk = ?",
                    (self._store.blob(vector), self._key, int(key)),
                )

    def vectors(self, last_key: int) -> bytes:
        rows = self._db.rows(
            "SELECT vector FROM record WHERE conversation = ? AND view = ? AND pk <= ? AND vector IS NOT NULL ORDER BY pk",
            (self._key, self._view, last_key),
        )
        return b"".join(row[0] for row in rows)

    def note_recall(self, keys: Sequence[int], at: datetime) -> None:
        with self._db.transaction(self._key):
            for key, record in zip(keys, self.records(keys), strict=True):
                details = json_text(with_recall(record.details, at))
                self._db.execute(
                    "UPDATE record SET details = ? WHERE conversation = ? AND pk = ?", (details, self._key, int(key))
                )

    # ---- what is derived

    def passage_words(self, keys: Sequence[int]) -> dict[int, str]:
        return dict(self._passages("words", keys))

    def passage_vectors(self, keys: Sequence[int]) -> dict[int, bytes]:
        return dict(self._passages("vectors", keys))

    def _passages(self, column: str, keys: Sequence[int]) -> list[tuple[int, Any]]:
        return self._db.rows(
            f"SELECT record, {column} FROM passage WHERE +conversation = ?2 AND {self._db.within('record', '?1')}",
            ([int(key) for key in keys], self._key),
        )

    def without_passages(self, most: int) -> list[int]:
        rows = self._db.rows(
            """SELECT pk FROM record WHERE conversation = ?1 AND view = ?2 AND NOT EXISTS
               (SELECT 1 FROM passage WHERE passage.conversation = ?1 AND record = record.pk)
               ORDER BY pk DESC LIMIT ?3""",
            (self._key, self._view, most),
        )
        return [row[0] for row in rows]

    def set_passages(self, passages: Mapping[int, tuple[str, bytes]]) -> None:
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

    def with_sources(self, keys: Sequence[int]) -> list[tuple[int, str, list[Utterance]]]:
        rows = self._db.rows(
            f"""SELECT pk, text, sources FROM record WHERE +conversation = ?1 AND {self._db.within("pk", "?2")}
                ORDER BY pk""",
            (self._key, [int(key) for key in keys]),
        )
        listed = [(pk, text, json.loads(sources)) for pk, text, sources in rows]
        wanted = sorted({source for _, _, sources in listed for source in sources})
        said = self._store.utterances_by_id(self._key, wanted)
        return [(pk, text, [said[source] for source in sources if source in said]) for pk, text, sources in listed]

    def snapshot(self) -> tuple[int, bytes] | None:
        row: tuple[int, bytes] | None = self._db.row(
            "SELECT last_key, data FROM snapshot WHERE conversation = ? AND view = ?", (self._key, self._view)
        )
        return row

    def keep_snapshot(self, last_key: int, index: bytes) -> None:
        with self._db.transaction(self._key):
            self._store.require_same_encoder()
            self._db.execute(
                """INSERT INTO snapshot (conversation, view, last_key, data) SELECT pk, ?, ?, ? FROM conversation
                   WHERE pk = ? ON CONFLICT (conversation, view)
                   DO UPDATE SET last_key = excluded.last_key, data = excluded.data""",
                (self._view, last_key, index, self._key),
            )
