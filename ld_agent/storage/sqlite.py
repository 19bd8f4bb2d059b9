"""The store: plain SQL over one SQLite file. Knows rows and ids; nothing of models, prompts or scores.

Every write that belongs together is one transaction, and every write can be repeated: a session is closed once, a view
digests a session once and an utterance's traits are merged once, whoever comes first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from ld_agent.errors import EncoderMismatchError, InputError, StoreError
from ld_agent.storage.columns import Vector, json_text, microseconds, moment, vector_bytes, vector_from
from ld_agent.storage.connection import BUSY_SECONDS, Connection
from ld_agent.storage.rows import IndexRow, StoredConversation
from ld_agent.types import Record, Session, Trait, Utterance, iso, utc

PAGE = 1000


class Store:
    """Many conversations in one file, strictly apart: every method but `conversations` takes a conversation's key.

    Args:
        path: of the SQLite file; made where missing. ":memory:" keeps nothing.
        busy_seconds: how long to wait for another process's write.

    Raises:
        StoreError: see `Connection`.
    """

    def __init__(self, path: str | Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.db = Connection(path, busy_seconds)
        self._encoder: str | None = None
        if self.db.row("SELECT 1 FROM meta WHERE key = 'erase'"):
            with suppress(StoreError):  # still read by another process, or read-only: the next opening tries again
                self._erase()

    def close(self) -> None:
        self.db.close()

    @property
    def path(self) -> str:
        return self.db.path

    @property
    def data_version(self) -> int:
        return self.db.data_version

    # ---- conversations

    def conversations(self) -> list[StoredConversation]:
        return [StoredConversation(*row) for row in self.db.rows("SELECT pk, id, agent FROM conversation ORDER BY id")]

    def find_conversation(self, conversation_id: str) -> StoredConversation | None:
        row = self.db.row("SELECT pk, id, agent FROM conversation WHERE id = ?", (conversation_id,))
        return StoredConversation(*row) if row else None

    def open_conversation(self, conversation_id: str, agent: str) -> StoredConversation:
        """Find a conversation or make it.

        Raises:
            InputError: it exists with an agent of another name.
        """
        with self.db.transaction():
            self.db.execute("INSERT OR IGNORE INTO conversation (id, agent) VALUES (?, ?)", (conversation_id, agent))
            found = self.find_conversation(conversation_id)
        if found is None or found.agent != agent:
            stored = found.agent if found else "?"
            raise InputError(
                f"conversation {conversation_id!r} was held with agent {stored!r}, not {agent!r}; "
                f"set agent.name={stored} or choose another conversation id"
            )
        return found

    def delete_conversation(self, key: int) -> None:
        """Remove every trace of a conversation and rewrite the file so that no byte of it is left.

        Broken off between the two, the rewriting is done when the store is next opened.

        Raises:
            StoreError: see `Connection.scrub`.
        """
        with self.db.transaction():
            self.db.execute("DELETE FROM conversation WHERE pk = ?", (key,))
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('erase', '')")
        self._erase()

    def _erase(self) -> None:
        self.db.scrub()
        self.db.execute("DELETE FROM meta WHERE key = 'erase'")

    def is_stored(self, key: int) -> bool:
        """Whether a conversation is there; False: it was deleted, by whomever."""
        return bool(self.db.row("SELECT 1 FROM conversation WHERE pk = ?", (key,)))

    def counts(self, key: int) -> dict[str, int]:
        """How many sessions, utterances, records and active traits a conversation has."""
        row = self.db.row(
            """SELECT (SELECT count(*) FROM session WHERE conversation = :c),
                      (SELECT count(*) FROM utterance WHERE conversation = :c),
                      (SELECT count(*) FROM record WHERE conversation = :c),
                      (SELECT count(*) FROM trait WHERE conversation = :c AND superseded_by IS NULL)""".replace(
                ":c", "?1"
            ),
            (key,),
        )
        return dict(zip(("sessions", "utterances", "records", "traits"), row, strict=True))

    def _next_id(self, key: int, what: str, prefix: str) -> str:
        if not self.db.execute(f"UPDATE conversation SET {what} = {what} + 1 WHERE pk = ?", (key,)):
            raise StoreError(f"{self.path}: the conversation was deleted meanwhile; open it anew")
        return prefix + str(self.db.row(f"SELECT {what} FROM conversation WHERE pk = ?", (key,))[0])

    # ---- utterances and sessions

    def append(
        self, key: int, speaker: str, text: str, at: datetime | None, beta: float, now: Callable[[], datetime]
    ) -> Utterance:
        """Store one utterance; where the gap before it exceeds β, close the open session first (equation 4).

        Args:
            at: when it was said; None: now, and never before what was said last.
            beta: β in seconds.

        Raises:
            InputError: ``at`` lies before the conversation's last utterance.
        """
        with self.db.transaction():
            last = self.last_utterance(key)
            if at is None:
                at = utc(now(), "the clock")
                at = max(at, last.at) if last else at
            if last and at < last.at:
                raise InputError(
                    f"at={iso(at)} lies before the last utterance of this conversation ({iso(last.at)}); "
                    "a conversation goes forward: give a later time, or use another conversation id"
                )
            if last and (at - last.at).total_seconds() > beta:
                self.close_session(key)
            number = self._open_session(key)
            utterance = Utterance(self._next_id(key, "utterances", "u"), speaker, text, at, number)
            self.db.execute(
                "INSERT INTO utterance (conversation, id, session, speaker, text, at) VALUES (?, ?, ?, ?, ?, ?)",
                (key, utterance.id, number, speaker, text, microseconds(at)),
            )
        return utterance

    def _open_session(self, key: int) -> int:
        row = self.db.row(
            "SELECT number, closed FROM session WHERE conversation = ? ORDER BY number DESC LIMIT 1", (key,)
        )
        if row and not row[1]:
            return int(row[0])
        number = row[0] + 1 if row else 1
        self.db.execute("INSERT INTO session (conversation, number) VALUES (?, ?)", (key, number))
        return int(number)

    def close_session(self, key: int) -> int | None:
        """Close the open session; returns its number, or None where none is open."""
        with self.db.transaction():
            row = self.db.row("SELECT number FROM session WHERE conversation = ? AND closed = 0", (key,))
            self.db.execute("UPDATE session SET closed = 1 WHERE conversation = ? AND closed = 0", (key,))
        return int(row[0]) if row else None

    def last_utterance(self, key: int) -> Utterance | None:
        return next(iter(self._utterances("conversation = ? ORDER BY pk DESC LIMIT 1", (key,))), None)

    def open_utterances(self, key: int) -> list[Utterance]:
        """What the short-term cache M_S holds: the utterances of the open session."""
        return self._utterances(
            "conversation = ?1 AND session = (SELECT number FROM session WHERE conversation = ?1 AND closed = 0) ORDER BY pk",
            (key,),
        )

    def utterances(self, key: int) -> list[Utterance]:
        return self._utterances("conversation = ? ORDER BY pk", (key,))

    def speakers(self, key: int) -> list[str]:
        """Everyone who has spoken, in order."""
        rows = self.db.rows(
            "SELECT speaker FROM utterance WHERE conversation = ? GROUP BY speaker ORDER BY min(pk)", (key,)
        )
        return [row[0] for row in rows]

    def unextracted(self, key: int) -> list[Utterance]:
        """Utterances whose traits have not been extracted yet."""
        return self._utterances("conversation = ? AND extracted = 0 ORDER BY pk", (key,))

    def answered(self, key: int, utterance: Utterance) -> str:
        """What another speaker said right before an utterance in its session; "" for nothing."""
        last = self._utterances(
            "conversation = ?1 AND session = ?2 AND pk < (SELECT pk FROM utterance WHERE conversation = ?1 AND id = ?3) "
            "ORDER BY pk DESC LIMIT 1",
            (key, utterance.session, utterance.id),
        )
        return last[0].text if last and last[0].speaker != utterance.speaker else ""

    def undigested(self, key: int, view: str) -> list[Session]:
        """Closed sessions that a view has not taken in yet, oldest first."""
        rows = self.db.rows(
            """SELECT number FROM session WHERE conversation = ?1 AND closed = 1 AND number NOT IN
               (SELECT session FROM digested WHERE conversation = ?1 AND view = ?2) ORDER BY number""",
            (key, view),
        )
        return [
            Session(n, tuple(self._utterances("conversation = ? AND session = ? ORDER BY pk", (key, n))))
            for (n,) in rows
        ]

    def _utterances(self, where: str, values: tuple[Any, ...]) -> list[Utterance]:
        rows = self.db.rows(f"SELECT id, speaker, text, at, session FROM utterance WHERE {where}", values)
        return [Utterance(i, speaker, text, moment(at), session) for i, speaker, text, at, session in rows]

    # ---- records

    def digest(
        self, key: int, view: str, session: int, records: Iterable[tuple[Callable[[str], Record], Vector]]
    ) -> list[Record]:
        """Store what a view remembers of a session and mark the session as digested, in one transaction.

        Args:
            records: for each record a function from its new id to the record, and its (dimension,) vector.

        Returns:
            the stored records; none if another process digested the session first.
        """
        stored = []
        with self.db.transaction():
            if not self.db.execute("INSERT OR IGNORE INTO digested VALUES (?, ?, ?)", (key, view, session)):
                return []
            for make, vector in records:
                record = make(self.new_record_id(key))
                self.insert_record(key, record, vector)
                stored.append(record)
        return stored

    def insert_record(self, key: int, record: Record, vector: Vector | None) -> None:
        self.db.execute(
            """INSERT INTO record (conversation, id, view, session, text, at, topics, sources, fallback, details, vector)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                key, record.id, record.view, record.session, record.text, microseconds(record.at), json_text(record.topics),
                json_text(record.sources), record.fallback, json_text(dict(record.details)), self._blob(vector),
            ),
        )  # fmt: skip

    def new_record_id(self, key: int) -> str:
        return self._next_id(key, "records", "m")

    def index_rows(self, key: int, view: str, after: int) -> Iterator[IndexRow]:
        """Rows for the long-term index with primary keys above ``after``, in growing order."""
        rows: list[Any] = [()] * PAGE
        while len(rows) == PAGE:  # by pages, and no query stays open in between: the caller may write
            rows = self.db.rows(
                "SELECT pk, at, topics, vector, CASE WHEN vector IS NULL THEN text ELSE '' END FROM record "
                "WHERE conversation = ? AND view = ? AND pk > ? ORDER BY pk LIMIT ?",
                (key, view, after, PAGE),
            )
            for pk, at, topics, vector, text in rows:
                yield IndexRow(pk, at / 1e6, tuple(json.loads(topics)), vector_from(vector), text)
                after = pk

    def count_records(self, key: int, view: str) -> int:
        return int(self.db.row("SELECT count(*) FROM record WHERE conversation = ? AND view = ?", (key, view))[0])

    def records(self, key: int, keys: Sequence[int] | None = None) -> list[Record]:
        """Records of a conversation: those with the given primary keys, in that order, or all of them."""
        columns = "SELECT pk, id, view, text, at, session, topics, sources, fallback, details FROM record WHERE conversation = ?"
        if keys is None:
            rows = self.db.rows(columns + " ORDER BY pk", (key,))
        else:
            found = self.db.rows(columns + " AND pk IN (SELECT value FROM json_each(?))", (key, json_text(keys)))
            by_key = {row[0]: row for row in found}
            rows = [by_key[k] for k in keys if k in by_key]
        return [
            Record(
                i,
                view,
                text,
                moment(at),
                session,
                tuple(json.loads(topics)),
                tuple(json.loads(sources)),
                bool(fallback),
                json.loads(details),
            )
            for _, i, view, text, at, session, topics, sources, fallback, details in rows
        ]

    # ---- traits

    def traits(self, key: int) -> list[tuple[Trait, Vector | None]]:
        """Every trait of a conversation with its vector, superseded ones included, in the order of their making."""
        rows = self.db.rows(
            "SELECT id, speaker, text, at, source, last_at, mentions, superseded_by, vector FROM trait "
            "WHERE conversation = ? ORDER BY pk",
            (key,),
        )
        return [
            (Trait(i, speaker, text, moment(at), source, moment(last_at), mentions, superseded_by), vector_from(vector))
            for i, speaker, text, at, source, last_at, mentions, superseded_by, vector in rows
        ]

    def new_trait_id(self, key: int) -> str:
        return self._next_id(key, "traits", "t")

    def put_trait(self, key: int, trait: Trait, vector: Vector | None) -> None:
        """Insert a trait, or replace the one with its id."""
        self.db.execute(
            """INSERT INTO trait (conversation, id, speaker, text, at, source, last_at, mentions, superseded_by, vector)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (conversation, id) DO UPDATE SET
               last_at = excluded.last_at, mentions = excluded.mentions, superseded_by = excluded.superseded_by,
               vector = excluded.vector""",
            (
                key, trait.id, trait.speaker, trait.text, microseconds(trait.at), trait.source,
                microseconds(trait.last_at), trait.mentions, trait.superseded_by, self._blob(vector),
            ),
        )  # fmt: skip

    def mark_extracted(self, key: int, utterance_id: str) -> bool:
        """Mark an utterance's traits as merged; False if another process was first."""
        return bool(self.db.execute(
            "UPDATE utterance SET extracted = 1 WHERE conversation = ? AND id = ? AND extracted = 0", (key, utterance_id)
        ))  # fmt: skip

    # ---- vectors

    def set_vector(self, table: str, key: int, vector: Vector) -> None:
        """Store the vector of a record (by primary key) or trait, made after the row was."""
        with self.db.transaction():
            self.db.execute(f"UPDATE {table} SET vector = ? WHERE pk = ?", (self._blob(vector), key))

    def without_vector(self, table: str) -> list[tuple[int, str]]:
        """(primary key, text) of every record or trait not encoded yet, of all conversations."""
        return self.db.rows(f"SELECT pk, text FROM {table} WHERE vector IS NULL ORDER BY pk")

    def check_encoder(self, name: str, dimension: int) -> None:
        """Note the encoder in a new store; in any other check that it is the same. From then on no other's vectors are taken.

        Raises:
            EncoderMismatchError: the vectors were made by another encoder.
        """
        wanted = json_text({"dimension": dimension, "name": name})
        if self._noted_encoder() is None:
            self.db.execute("INSERT OR IGNORE INTO meta VALUES ('encoder', ?)", (wanted,))
        self._require_encoder(wanted)
        self._encoder = wanted

    def change_encoder(self, name: str, dimension: int) -> None:
        """Drop every vector and note the encoder that makes them anew; whoever still uses the old one is told so."""
        with self.db.transaction():
            self.db.execute("DELETE FROM meta WHERE key = 'encoder'")
            self.db.execute("UPDATE record SET vector = NULL")
            self.db.execute("DELETE FROM passage")
            self.db.execute("UPDATE trait SET vector = NULL")
            self.check_encoder(name, dimension)

    def _noted_encoder(self) -> str | None:
        row = self.db.row("SELECT value FROM meta WHERE key = 'encoder'")
        return row[0] if row else None

    def _require_encoder(self, wanted: str) -> None:
        stored = self._noted_encoder()
        if stored is not None and stored != wanted:
            known, given = json.loads(stored), json.loads(wanted)
            raise EncoderMismatchError(
                f"{self.path} was encoded by {known['name']} ({known['dimension']} dimensions), the config names "
                f"{given['name']} ({given['dimension']}); run `ld-agent memory reindex --store {self.path}` with this "
                f"config, or set encoder.model={known['name']}"
            )

    def require_same_encoder(self) -> None:
        """Refuse to go on where another process has changed the store's encoder meanwhile (`EncoderMismatchError`)."""
        if self._encoder is not None:
            self._require_encoder(self._encoder)

    def _blob(self, vector: Vector | None) -> bytes | None:
        """A vector as bytes, of the store's encoder."""
        if vector is None:
            return None
        self.require_same_encoder()
        return vector_bytes(vector)
