"""The conversations of a store, the ids that they gave out, the work on them that failed, and the encoder of all vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from ld_agent.errors import EncoderMismatchError, InputError, RepeatedRowError, StoreError
from ld_agent.storage.database import EVERYONE, Database, TurnLock, tenant_of
from ld_agent.storage.redaction import Plain
from ld_agent.storage.rows import (
    COLUMNS,
    COUNTERS,
    PATIENCE,
    Failure,
    StoredConversation,
    Vector,
    insert,
    json_text,
    plain_value,
    vector_bytes,
)
from ld_agent.types import name_key

ORDER = {
    "session": "number",
    "enabled": "view",
    "digested": "view, session",
    "observed": "view, utterance",
    "recall": "record, utterance",
}
"""In which order rows are exported; others by their primary key."""
ID_LETTERS = {"utterances": "u", "records": "m", "traits": "t"}
"""The first letter of each kind's ids."""


class Conversations:
    """See `ld_agent.storage.store.Store`.

    Attributes:
        lifetimes: after which time each "record" and "trait" expires; absent: never.
        clock: gives the time by which they do.
        redaction: takes out of texts what is not to be stored.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.lifetimes: Mapping[str, timedelta] = {}
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.redaction = Plain()
        self._encoder: str | None = None

    @property
    def path(self) -> str:
        return self.db.path

    def close(self) -> None:
        self.db.close()

    def writing(self, key: int | None) -> AbstractContextManager[None]:
        """All writes inside are atomic, and no other process writes in between.

        Args:
            key: the conversation written to; None: any.
        """
        return self.db.transaction(key, alone=key is None)

    def reading(self) -> AbstractContextManager[None]:
        """All reads inside see one consistent state, whatever other processes write; read-only."""
        return self.db.snapshot()

    # ---- what engines do differently

    def delete_conversation(self, key: int) -> None:
        """Remove every trace of a conversation."""
        raise NotImplementedError

    def turn_lock(self, key: int) -> TurnLock | None:
        """The lock that keeps other processes out of a conversation during a turn; None: the store is for a single
        process."""
        return None

    # ---- conversations

    def conversations(self) -> list[StoredConversation]:
        everyone = self.db.acting_for(EVERYONE)
        return [StoredConversation(*row) for row in everyone.rows("SELECT pk, id, agent FROM conversation ORDER BY id")]

    def find_conversation(self, conversation_id: str) -> StoredConversation | None:
        db = self.db.acting_for(tenant_of(conversation_id))
        row = db.row("SELECT pk, id, agent FROM conversation WHERE id = ?", (conversation_id,))
        return StoredConversation(*row) if row else None

    def open_conversation(self, conversation_id: str, agent: str) -> StoredConversation:
        """Find a conversation or create it.

        Raises:
            InputError: it exists with an agent of another name.
        """
        db = self.db.acting_for(tenant_of(conversation_id))
        with db.transaction():
            insert(db, "conversation", {"id": conversation_id, "agent": agent}, unless_there=True)
            conversation = self.find_conversation(conversation_id)
        if conversation is None or name_key(conversation.agent) != name_key(agent):
            stored = conversation.agent if conversation else "?"
            raise InputError(
                f"conversation {conversation_id!r} has the agent {stored!r}, not {agent!r}; "
                f"set agent.name={stored} or choose another conversation id"
            )
        return conversation

    def version(self, key: int) -> Hashable:
        """Changes when another connection has written to a conversation, or changed the encoder; None: it was deleted."""
        return self.db.version(key)

    def is_stored(self, key: int) -> bool:
        return bool(self.db.of(key).row("SELECT 1 FROM conversation WHERE pk = ?", (key,)))

    def require(self, key: int) -> None:
        """Check that a conversation is still there.

        Raises:
            StoreError: it was deleted.
        """
        if not self.is_stored(key):
            raise self._deleted()

    def _deleted(self) -> StoreError:
        return StoreError("the conversation was deleted while in use; reopen it", self.path)

    def edits(self, key: int) -> int:
        """The number of manual changes to records or traits of a conversation."""
        row = self.db.of(key).row("SELECT edits FROM conversation WHERE pk = ?", (key,))
        return int(row[0]) if row else 0

    def next_id(self, key: int, what: str, count: int = 1) -> str:
        """Give out ids of one of `COUNTERS`, none twice; returns the last ("u7").

        Raises:
            StoreError: the conversation was deleted.
        """
        given = self.db.of(key).rows(
            f"UPDATE conversation SET {what} = {what} + ? WHERE pk = ? RETURNING {what}", (count, key)
        )
        if not given:
            raise self._deleted()
        return f"{ID_LETTERS[what]}{given[0][0]}"

    # ---- rows as they are exported and imported

    def counters(self, key: int) -> dict[str, int]:
        """The number of ids of each kind in `COUNTERS` used by a conversation; {}: it was deleted."""
        row = self.db.of(key).row(f"SELECT {', '.join(COUNTERS)} FROM conversation WHERE pk = ?", (key,))
        return dict(zip(COUNTERS, row, strict=True)) if row else {}

    def set_counters(self, key: int, counters: Mapping[str, int]) -> None:
        assigned = ", ".join(f"{name} = ?" for name in COUNTERS)
        values = (*(counters[name] for name in COUNTERS), key)
        self.db.of(key).execute(f"UPDATE conversation SET {assigned} WHERE pk = ?", values)

    def rows(self, key: int, kind: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind of `COLUMNS`, in storage order, or by key if that has no meaning."""
        columns = COLUMNS[kind]
        query = f"SELECT {', '.join(columns)} FROM {kind} WHERE conversation = ? ORDER BY {ORDER.get(kind, 'pk')}"
        for row in self.db.of(key).rows(query, (key,)):
            yield {column: plain_value(column, stored) for column, stored in zip(columns, row, strict=True)}

    def add_row(self, key: int, kind: str, row: Mapping[str, Any]) -> None:
        """Store a row of `rows`, unchecked, without secrets.

        Raises:
            RepeatedRowError: the conversation has it already.
        """
        db = self.db.of(key)
        texts = {column: row[column] for column in ("text", "before", "details") if column in row}
        try:
            insert(db, kind, {"conversation": key, **row, **self.redaction.stored(texts)})
        except StoreError as exc:
            if isinstance(exc.__cause__, db.integrity_error):
                raise RepeatedRowError(str(exc.__cause__).splitlines()[0]) from exc
            raise

    # ---- work that failed

    def failed(self, key: int, work: str, items: Iterable[str], error: str) -> list[Failure]:
        """Count a failed attempt at pieces of pending work; return those that are set aside as a result."""
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

    def has_succeeded(self, key: int, work: str, item: str) -> None:
        """Forget the failures of a piece of work."""
        place = (key, work, item)
        self.db.of(key).execute("DELETE FROM failure WHERE conversation = ? AND work = ? AND item = ?", place)

    def retry(self, key: int, *, once: bool = False) -> None:
        """Make work that was set aside pending again, and reset its failures.

        Args:
            once: for one more attempt each.
        """
        if not self.failures(key):
            return
        with self.db.transaction(key):
            if once:
                self.db.of(key).execute(
                    "UPDATE failure SET attempts = ?2 WHERE conversation = ?1 AND attempts > ?2", (key, PATIENCE - 1)
                )
            else:
                self.db.of(key).execute("DELETE FROM failure WHERE conversation = ?", (key,))

    # ---- the encoder

    def check_encoder(self, name: str, dimension: int) -> None:
        """Register the encoder in a new store, or check that it is the registered one. Vectors of other encoders are
        rejected from then on.

        Raises:
            EncoderMismatchError: the vectors were made by another encoder.
        """
        wanted = json_text({"dimension": dimension, "name": name})
        if self._stored_encoder() is None:
            insert(self.db.acting_for(EVERYONE), "meta", {"key": "encoder", "value": wanted}, unless_there=True)
        self._require_encoder(wanted)
        self._encoder = wanted

    def change_encoder(self, name: str, dimension: int) -> None:
        """Drop all vectors and register the encoder that will recompute them."""
        db = self.db.acting_for(EVERYONE)
        with db.transaction(alone=True):
            db.execute("DELETE FROM meta WHERE key = 'encoder'")
            for derived in ("passage", "snapshot"):
                db.execute(f"DELETE FROM {derived}")
            for table in ("record", "trait"):
                db.execute(f"UPDATE {table} SET vector = NULL")
            self.check_encoder(name, dimension)

    def without_vector(self) -> list[tuple[str, int, str]]:
        """("record" or "trait", key, text) of all rows without vector, in all conversations."""
        db = self.db.acting_for(EVERYONE)
        return [
            (table, pk, text)
            for table in ("record", "trait")
            for pk, text in db.rows(f"SELECT pk, text FROM {table} WHERE vector IS NULL ORDER BY pk")
        ]

    def set_any_vectors(self, vectors: Sequence[tuple[str, int, Vector]]) -> None:
        """Store vectors of `without_vector`, atomically."""
        db = self.db.acting_for(EVERYONE)
        with db.transaction():
            for table, key, vector in vectors:
                db.execute(f"UPDATE {table} SET vector = ? WHERE pk = ? AND vector IS NULL", (self.blob(vector), key))

    def require_same_encoder(self) -> None:
        """Raise `EncoderMismatchError` if another process has changed the store's encoder."""
        if self._encoder is not None:
            self._require_encoder(self._encoder)

    def blob(self, vector: Vector | None) -> bytes | None:
        """A vector of the store's encoder as a statement parameter."""
        if vector is None:
            return None
        self.require_same_encoder()
        return vector_bytes(vector)

    def _stored_encoder(self) -> str | None:
        row = self.db.row("SELECT value FROM meta WHERE key = 'encoder'")
        return row[0] if row else None

    def _require_encoder(self, wanted: str) -> None:
        stored = self._stored_encoder()
        if stored is not None and stored != wanted:
            known, given = json.loads(stored), json.loads(wanted)
            raise EncoderMismatchError(
                f"{self.path} was encoded by {known['name']} ({known['dimension']} dimensions), the config names "
                f"{given['name']} ({given['dimension']}); run `ld-agent memory reindex --store {self.path}` with this "
                f"config, or set encoder.model={known['name']}"
            )
