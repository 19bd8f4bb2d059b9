"""The traits of every speaker of one conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ld_agent.storage.database import Database
from ld_agent.storage.rows import TRAIT, TRAITS, Vector, from_row, from_rows, insert_item, stored_value, vector_from
from ld_agent.types import Trait

if TYPE_CHECKING:
    from ld_agent.storage.store import Store

UPDATED = tuple("at last_at mentions superseded_by holds_from holds_until ended_by planned_by otherwise_until".split())


class PersonaShelf:
    """The traits of one conversation."""

    def __init__(self, store: Store, key: int) -> None:
        self._store, self._key = store, key

    @property
    def _db(self) -> Database:
        return self._store.db.of(self._key)

    def traits(self) -> list[tuple[Trait, Vector | None]]:
        """All traits with their vectors, including superseded ones, in storage order."""
        rows = self._db.rows(f"SELECT {TRAIT}, vector FROM trait WHERE conversation = ? ORDER BY pk", (self._key,))
        traits, lapsed = [(from_row(Trait, row[:-1]), row[-1]) for row in rows], self._store.lapsed(self._key)
        return [(trait, vector_from(vector)) for trait, vector in traits if trait.id not in lapsed]

    def learned_from(self, utterance_ids: Sequence[str]) -> list[Trait]:
        """The traits found in utterances, including superseded ones, in storage order."""
        where = f"conversation = ?1 AND {self._db.within('source', '?2')}"
        rows = self._db.rows(f"SELECT {TRAIT} FROM trait WHERE {where} ORDER BY pk", (self._key, list(utterance_ids)))
        return from_rows(Trait, rows)

    def add(self, speaker: str, text: str, at: datetime, source: str, vector: Vector) -> Trait:
        """Store a trait, without secrets."""
        text = self._store.redaction.stored(text)
        with self._db.transaction(self._key):
            row = self._db.row("SELECT channel FROM utterance WHERE conversation = ? AND id = ?", (self._key, source))
            given = self._store.next_id(self._key, "traits")
            trait = Trait(given, speaker, text, at, source, at, channel=row[0] if row else "chat")
            insert_item(self._db, "trait", self._key, trait, vector=self._store.blob(vector))
        return trait

    def update(self, trait: Trait) -> None:
        """Store ``last_at``, ``mentions``, when a trait holds and what ended it."""
        with self._db.transaction(self._key):
            self._db.execute(
                f"UPDATE trait SET {' = ?, '.join(UPDATED)} = ? WHERE conversation = ? AND id = ?",
                (*(stored_value(column, getattr(trait, column)) for column in UPDATED), self._key, trait.id),
            )

    def set_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors computed after their rows, by trait id."""
        with self._db.transaction(self._key):
            for trait, vector in vectors.items():
                values = (self._store.blob(vector), self._key, trait)
                self._db.execute("UPDATE trait SET vector = ? WHERE conversation = ? AND id = ?", values)

    def mark_extracted(self, utterance_id: str) -> bool:
        """Mark an utterance's traits as merged; False if another process was first."""
        with self._db.transaction(self._key):
            self._store.has_succeeded(self._key, TRAITS, utterance_id)
            marked = self._db.execute(
                "UPDATE utterance SET extracted = 1 WHERE conversation = ? AND id = ? AND extracted = 0",
                (self._key, utterance_id),
            )
            return bool(marked)
