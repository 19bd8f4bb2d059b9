"""The store in plain SQL that every engine understands: conversations, what was said, and what a person changed by hand.
Knows nothing of models, prompts or scores, and no engine.

Every write that belongs together is one transaction, and every write can be repeated: a session is closed once, a view
digests a session once and an utterance's traits are merged once, whoever comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from ld_agent.errors import InputError, StoreError
from ld_agent.storage.base import PATIENCE, TRAITS, Failure, Rewriting, StoredConversation
from ld_agent.storage.columns import Vector, microseconds
from ld_agent.storage.database import EVERYONE, TurnLock, tenant_of
from ld_agent.storage.sql import exchange as sql_exchange
from ld_agent.storage.sql.edits import SQLEdits
from ld_agent.storage.sql.encoder import NotedEncoder
from ld_agent.storage.sql.history import EVERYTHING, IMPORTED, HistoryStore
from ld_agent.storage.sql.personas import SQLPersonas
from ld_agent.storage.sql.replacing import replace_utterances
from ld_agent.storage.sql.rows import RECORD, offset_of, record, thread_utterances, utterances
from ld_agent.storage.sql.shelf import SQLShelf
from ld_agent.types import Change, Record, Utterance, iso, name_key, utc

DELETED = "the conversation was deleted while in use; reopen it"
OPEN_SESSIONS = "session INDEXED BY session_open"
"""For ``closed = 0``: left to itself, SQLite reads every session of a conversation."""


class SQLStore(HistoryStore, NotedEncoder):
    """See `ld_agent.storage.base.Store`. An engine's store says what a version is and how a conversation is deleted."""

    def close(self) -> None:
        self.db.close()

    @property
    def path(self) -> str:
        return self.db.path

    def version(self, key: int) -> Hashable:
        raise NotImplementedError

    def delete_conversation(self, key: int) -> None:
        raise NotImplementedError

    def turn_lock(self, key: int) -> TurnLock | None:
        return None

    def writing(self, key: int | None) -> AbstractContextManager[None]:
        return self.db.transaction(key, alone=key is None)

    def reading(self) -> AbstractContextManager[None]:
        return self.db.snapshot()

    # ---- conversations

    def conversations(self) -> list[StoredConversation]:
        everyone = self.db.acting_for(EVERYONE)
        return [StoredConversation(*row) for row in everyone.rows("SELECT pk, id, agent FROM conversation ORDER BY id")]

    def find_conversation(self, conversation_id: str) -> StoredConversation | None:
        db = self.db.acting_for(tenant_of(conversation_id))
        row = db.row("SELECT pk, id, agent FROM conversation WHERE id = ?", (conversation_id,))
        return StoredConversation(*row) if row else None

    def open_conversation(self, conversation_id: str, agent: str) -> StoredConversation:
        db = self.db.acting_for(tenant_of(conversation_id))
        with db.transaction():
            db.execute(
                "INSERT INTO conversation (id, agent) VALUES (?, ?) ON CONFLICT DO NOTHING", (conversation_id, agent)
            )
            conversation = self.find_conversation(conversation_id)
        if conversation is None or name_key(conversation.agent) != name_key(agent):
            stored = conversation.agent if conversation else "?"
            raise InputError(
                f"conversation {conversation_id!r} has the agent {stored!r}, not {agent!r}; "
                f"set agent.name={stored} or choose another conversation id"
            )
        return conversation

    def rename_agent(self, key: int, name: str) -> None:
        sql_exchange.rename_agent(self.db, key, name)

    def counters(self, key: int) -> dict[str, int]:
        return sql_exchange.counters(self.db, key)

    def set_counters(self, key: int, counters: Mapping[str, int]) -> None:
        sql_exchange.set_counters(self.db, key, counters)

    def rows(self, key: int, kind: str) -> Iterator[dict[str, Any]]:
        return sql_exchange.rows(self.db, key, kind)

    def add_row(self, key: int, kind: str, row: Mapping[str, Any]) -> None:
        sql_exchange.add_row(self.db, key, kind, row)

    def is_stored(self, key: int) -> bool:
        return bool(self.db.of(key).row("SELECT 1 FROM conversation WHERE pk = ?", (key,)))

    def require(self, key: int) -> None:
        """Check that a conversation is still there.

        Raises:
            StoreError: it was deleted.
        """
        if not self.is_stored(key):
            raise StoreError(f"{self.path}: {DELETED}")

    def counts(self, key: int) -> dict[str, int]:
        row = self.db.of(key).row(
            """SELECT (SELECT count(*) FROM session WHERE conversation = ?1),
                      (SELECT count(*) FROM utterance WHERE conversation = ?1 AND replaced = 0),
                      (SELECT count(*) FROM record WHERE conversation = ?1),
                      (SELECT count(*) FROM trait WHERE conversation = ?1 AND superseded_by IS NULL AND ended_by = '')""",
            (key,),
        )
        return dict(zip(("sessions", "utterances", "records", "traits"), row, strict=True))

    def edits(self, key: int) -> int:
        row = self.db.of(key).row("SELECT edits FROM conversation WHERE pk = ?", (key,))
        return int(row[0]) if row else 0

    def next_id(self, key: int, what: str, prefix: str) -> str:
        """Give out an id; none is ever given twice."""
        given = self.db.of(key).rows(
            f"UPDATE conversation SET {what} = {what} + 1 WHERE pk = ? RETURNING {what}", (key,)
        )
        if not given:
            raise StoreError(f"{self.path}: {DELETED}")
        return f"{prefix}{given[0][0]}"

    # ---- utterances and sessions

    def append(
        self,
        key: int,
        speaker: str,
        text: str,
        at: datetime | None,
        beta: float,
        now: Callable[[], datetime],
        thread: str = "",
        channel: str = "chat",
        interrupted: bool = False,
    ) -> Utterance:
        with self.db.transaction(key):
            last = self.last_utterance(key, thread)
            if at is None:
                at = utc(now(), "the clock")
                at = max(at, last.at) if last else at
            if last and at < last.at:
                raise InputError(
                    f"at={iso(at)} is before the last utterance of this conversation ({iso(last.at)}); "
                    "give a later time, or use another conversation id"
                )
            if last and (at - last.at).total_seconds() > beta:
                self.close_session(key, thread)
            number = self._open_session(key, thread)
            given = self.next_id(key, "utterances", "u")
            utterance = Utterance(given, speaker, text, utc(at), number, channel, interrupted, offset_of(at))
            self.db.of(key).execute(
                """INSERT INTO utterance (conversation, id, session, speaker, text, at, channel, interrupted, utc_offset)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    key,
                    utterance.id,
                    number,
                    speaker,
                    text,
                    microseconds(at),
                    channel,
                    int(interrupted),
                    utterance.utc_offset,
                ),
            )
        return utterance

    def _open_session(self, key: int, thread: str) -> int:
        row = self.db.of(key).row(
            f"SELECT number FROM {OPEN_SESSIONS} WHERE conversation = ? AND thread = ? AND closed = 0", (key, thread)
        )
        if row:
            return int(row[0])
        row = self.db.of(key).row("SELECT max(number) FROM session WHERE conversation = ?", (key,))
        number = (row[0] or 0) + 1
        self.db.of(key).execute(
            "INSERT INTO session (conversation, number, thread) VALUES (?, ?, ?)", (key, number, thread)
        )
        return int(number)

    def close_session(self, key: int, thread: str = "") -> int | None:
        with self.db.transaction(key):
            where = "WHERE conversation = ? AND thread = ? AND closed = 0"
            row = self.db.of(key).row(f"SELECT number FROM {OPEN_SESSIONS} {where}", (key, thread))
            self.db.of(key).execute(f"UPDATE {OPEN_SESSIONS} SET closed = 1 {where}", (key, thread))
        return int(row[0]) if row else None

    def last_utterance(self, key: int, thread: str | None = None) -> Utterance | None:
        number, here = "SELECT max(number) FROM session WHERE conversation = ?1", ""
        values: tuple[object, ...] = (key,) if thread is None else (key, thread)
        if thread is None:
            number, here = f"{number} AND NOT {IMPORTED}", "AND source = ''"
            sessions = f"SELECT number FROM {OPEN_SESSIONS} WHERE conversation = ?1 AND closed = 0 UNION {number}"
        else:
            sessions = f"{number} AND thread = ?2"
        where = f"conversation = ?1 AND session IN ({sessions}) {here} ORDER BY pk DESC LIMIT 1"
        return next(iter(utterances(self.db.of(key), where, values)), None)

    def open_utterances(self, key: int, thread: str | None = "") -> list[Utterance]:
        return utterances(
            self.db.of(key),
            f"""conversation = ?1 AND session IN (SELECT number FROM {OPEN_SESSIONS}
                WHERE conversation = ?1 AND closed = 0 AND (thread = ?2 OR ?2 IS NULL)) ORDER BY pk""",
            (key, thread),
        )

    def open_threads(self, key: int) -> list[str]:
        where = "WHERE conversation = ? AND closed = 0 ORDER BY number"
        return [row[0] for row in self.db.of(key).rows(f"SELECT thread FROM {OPEN_SESSIONS} {where}", (key,))]

    def utterances(self, key: int) -> list[Utterance]:
        return utterances(self.db.of(key), "conversation = ? ORDER BY pk", (key,))

    def latest_utterances(self, key: int, most: int) -> list[Utterance]:
        where = "conversation = ?1 ORDER BY session DESC, pk DESC LIMIT ?2"  # the order of an index
        return utterances(self.db.of(key), where, (key, most))[::-1]

    def thread_utterances(self, key: int, thread: str) -> list[Utterance]:
        return thread_utterances(self.db.of(key), key, thread)

    def utterances_by_id(self, key: int, ids: Sequence[str]) -> dict[str, Utterance]:
        where = f"conversation = ?1 AND {self.db.within('id', '?2')}"
        return {u.id: u for u in utterances(self.db.of(key), where, (key, list(ids)))}

    def passages_by_id(self, key: int, ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        rows = self.db.of(key).rows(
            f"""SELECT id, words, vectors FROM record
                JOIN passage ON passage.conversation = record.conversation AND passage.record = record.pk
                WHERE record.conversation = ?1 AND {self.db.within("id", "?2")}""",
            (key, list(ids)),
        )
        return {record: (words, vectors) for record, words, vectors in rows}

    def session_utterances(self, key: int, session: int) -> list[Utterance]:
        return utterances(self.db.of(key), "conversation = ? AND session = ? ORDER BY pk", (key, session))

    def speakers(self, key: int) -> list[str]:
        rows = self.db.of(key).rows("SELECT first, name FROM speaker WHERE conversation = ?", (key,))
        return [name for _, name in sorted(rows)]

    def unextracted(
        self, key: int, *, set_aside: bool = False, imported: bool = False, most: int | None = None
    ) -> list[Utterance]:
        failed = f"FROM failure WHERE conversation = ?1 AND work = '{TRAITS}' AND item = utterance.id"
        waiting = "" if set_aside else f"AND NOT EXISTS (SELECT 1 {failed} AND attempts >= {PATIENCE})"
        which, order = ("source != ''", "at, pk") if imported else ("source = ''", "pk")
        where = f"conversation = ?1 AND extracted = 0 AND {which} {waiting} ORDER BY {order} LIMIT ?2"
        return utterances(self.db.of(key), where, (key, EVERYTHING if most is None else most))

    def answered(self, key: int, utterance: Utterance) -> str:
        last = utterances(
            self.db.of(key),
            "conversation = ?1 AND session = ?2 AND pk < (SELECT pk FROM utterance WHERE conversation = ?1 AND id = ?3) "
            "ORDER BY pk DESC LIMIT 1",
            (key, utterance.session, utterance.id),
        )
        return last[0].text if last and last[0].speaker != utterance.speaker else ""

    # ---- records and traits

    def shelf(self, key: int, view: str) -> SQLShelf:
        return SQLShelf(self, key, view)

    def personas(self, key: int) -> SQLPersonas:
        return SQLPersonas(self, key)

    def records(self, key: int, *, after: str | None = None, session: int | None = None) -> list[Record]:
        where, values = "conversation = ?1", list[Any]([key])
        if session is not None:
            where, values = f"{where} AND session = ?2", [key, session]
        if after is not None:  # the plus keeps SQLite on the rows' own order: what is new lies at the end
            pk = self.db.of(key).row("SELECT pk FROM record WHERE conversation = ? AND id = ?", (key, after))
            where, values = f"+{where} AND pk > ?{len(values) + 1}", [*values, pk[0] if pk else 0]
        rows = self.db.of(key).rows(f"SELECT {RECORD} FROM record WHERE {where} ORDER BY pk", tuple(values))
        return [record(row) for row in rows]

    def pinned(self, key: int) -> list[Record]:
        rows = self.db.of(key).rows(
            f"SELECT {RECORD} FROM record WHERE conversation = ? AND pinned = 1 ORDER BY pk", (key,)
        )
        return [record(row) for row in rows]

    def note_recalled(self, key: int, reply: str, records: Iterable[str]) -> None:
        with self.db.transaction(key):
            for record_id in records:
                self.db.of(key).execute(
                    "INSERT INTO recall (conversation, record, utterance) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (key, record_id, reply),
                )

    def recalled_by(self, key: int, reply: str) -> list[Record]:
        rows = self.db.of(key).rows(
            f"""SELECT {RECORD} FROM record WHERE conversation = ?1 AND id IN
                (SELECT record FROM recall WHERE conversation = ?1 AND utterance = ?2) ORDER BY pk""",
            (key, reply),
        )
        return [record(row) for row in rows]

    def record_bytes(self) -> int:
        rows = self.db.acting_for(EVERYONE).rows("SELECT vector, text, topics, sources, details FROM record")
        return sum(len(vector or b"") + sum(len(text.encode()) for text in texts) for vector, *texts in rows)

    def record_counts(self, key: int) -> dict[str, int]:
        return dict(
            self.db.of(key).rows(
                "SELECT view, count(*) FROM record WHERE conversation = ? GROUP BY view ORDER BY view", (key,)
            )
        )

    # ---- work that failed

    def failed(self, key: int, work: str, items: Iterable[str], error: str) -> list[Failure]:
        line = " ".join(error.encode("utf-8", "replace").decode("utf-8").split())[:500]
        with self.db.transaction(key):
            self.require(key)
            for item in items:
                self.db.of(key).execute(
                    """INSERT INTO failure (conversation, work, item, attempts, error) VALUES (?1, ?2, ?3, 1, ?4)
                       ON CONFLICT (conversation, work, item)
                       DO UPDATE SET attempts = failure.attempts + 1, error = excluded.error""",
                    (key, work, item, line),
                )
            wanted = set(items)
            return [f for f in self.failures(key) if f.work == work and f.item in wanted and f.attempts == PATIENCE]

    def failures(self, key: int) -> list[Failure]:
        rows = self.db.of(key).rows(
            "SELECT work, item, attempts, error FROM failure WHERE conversation = ? ORDER BY work, item", (key,)
        )
        return [Failure(*row) for row in rows]

    def retry(self, key: int, *, once: bool = False) -> None:
        if not self.failures(key):
            return
        with self.db.transaction(key):
            if once:
                self.db.of(key).execute(
                    "UPDATE failure SET attempts = ?2 WHERE conversation = ?1 AND attempts > ?2", (key, PATIENCE - 1)
                )
            else:
                self.db.of(key).execute("DELETE FROM failure WHERE conversation = ?", (key,))

    # ---- changes by hand

    def edit(self, key: int, target: str, text: str, vector: Vector, at: datetime) -> None:
        with self._changing(key) as edits:
            edits.edit(target, text, self.blob(vector), at)

    def forget(self, key: int, target: str, at: datetime) -> None:
        with self._changing(key) as edits:
            edits.forget(target, at)

    def rewrite(self, key: int, rewriting: Rewriting, at: datetime) -> None:
        with self.db.transaction(key):
            vectors = [self.blob(vector) for _, vector in rewriting.records]
            SQLEdits(self.db.of(key), key).rewrite(rewriting, vectors, at)

    def replace(self, key: int, utterance_ids: Sequence[str]) -> None:
        replace_utterances(self.db, key, utterance_ids)

    def pin(self, key: int, target: str, pinned: bool, at: datetime) -> None:
        with self._changing(key) as edits:
            edits.pin(target, pinned, at)

    def changes(self, key: int) -> list[Change]:
        return SQLEdits(self.db.of(key), key).changes()

    @contextmanager
    def _changing(self, key: int) -> Iterator[SQLEdits]:
        with self.db.transaction(key):
            yield SQLEdits(self.db.of(key), key)

    def set_any_vectors(self, vectors: Sequence[tuple[str, int, Vector]]) -> None:
        db = self.db.acting_for(EVERYONE)
        with db.transaction():
            for table, key, vector in vectors:
                db.execute(f"UPDATE {table} SET vector = ? WHERE pk = ? AND vector IS NULL", (self.blob(vector), key))
