"""The traits of one conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ld_agent.storage.base import TRAITS
from ld_agent.storage.columns import Vector, microseconds, vector_from
from ld_agent.storage.database import Database
from ld_agent.storage.rows import COLUMNS
from ld_agent.storage.sql.rows import plain_value, stored_value
from ld_agent.types import Trait

if TYPE_CHECKING:
    from ld_agent.storage.sql.store import SQLStore

TRAIT = ", ".join(COLUMNS["trait"])
UPDATED = ("at", "last_at", "mentions", "superseded_by", "holds_from", "holds_until", "ended_by")
HOLDS_AGAIN = "superseded_by = NULL, holds_until = NULL, ended_by = ''"
"""What undoes the end of a trait."""


class SQLPersonas:
    """See `ld_agent.storage.base.PersonaShelf`."""

    def __init__(self, store: SQLStore, key: int) -> None:
        self._store, self._key = store, key

    @property
    def _db(self) -> Database:
        return self._store.db.of(self._key)

    def traits(self) -> list[tuple[Trait, Vector | None]]:
        rows = self._db.rows(f"SELECT {TRAIT}, vector FROM trait WHERE conversation = ? ORDER BY pk", (self._key,))
        return [(_trait(row[:-1]), vector_from(row[-1])) for row in rows]

    def learned_from(self, utterance_ids: Sequence[str]) -> list[Trait]:
        """The traits that utterances revealed, in the order of storing."""
        where = f"conversation = ?1 AND {self._db.within('source', '?2')}"
        rows = self._db.rows(f"SELECT {TRAIT} FROM trait WHERE {where} ORDER BY pk", (self._key, list(utterance_ids)))
        return [_trait(row) for row in rows]

    def add(self, speaker: str, text: str, at: datetime, source: str, vector: Vector) -> Trait:
        with self._db.transaction(self._key):
            row = self._db.row("SELECT channel FROM utterance WHERE conversation = ? AND id = ?", (self._key, source))
            channel = row[0] if row else "chat"
            number = self._store.next_id(self._key, "traits", "t")
            trait, now = Trait(number, speaker, text, at, source, at, channel=channel), microseconds(at)
            self._db.execute(
                """INSERT INTO trait (conversation, id, speaker, text, at, source, last_at, channel, vector)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (self._key, trait.id, speaker, text, now, source, now, channel, self._store.blob(vector)),
            )
        return trait

    def update(self, trait: Trait) -> None:
        with self._db.transaction(self._key):
            self._db.execute(
                f"UPDATE trait SET {' = ?, '.join(UPDATED)} = ? WHERE conversation = ? AND id = ?",
                (*(stored_value(column, getattr(trait, column)) for column in UPDATED), self._key, trait.id),
            )

    def set_vectors(self, vectors: Mapping[str, Vector]) -> None:
        with self._db.transaction(self._key):
            for trait, vector in vectors.items():
                self._db.execute(
                    "UPDATE trait SET vector = ? WHERE conversation = ? AND id = ?",
                    (self._store.blob(vector), self._key, trait),
                )

    def mark_extracted(self, utterance_id: str) -> bool:
        with self._db.transaction(self._key):
            self._db.execute(
                "DELETE FROM failure WHERE conversation = ? AND work = ? AND item = ?",
                (self._key, TRAITS, utterance_id),
            )
            marked = self._db.execute(
                "UPDATE utterance SET extracted = 1 WHERE conversation = ? AND id = ? AND extracted = 0",
                (self._key, utterance_id),
            )
            return bool(marked)


def _trait(row: tuple[Any, ...]) -> Trait:
    """A trait from the columns `TRAIT`."""
    return Trait(**{column: plain_value(column, stored) for column, stored in zip(COLUMNS["trait"], row, strict=True)})
