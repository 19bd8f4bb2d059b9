"""The store in plain SQL that every engine understands: many conversations, strictly separated. Knows nothing of models,
prompts or scores, and no engine; almost every method takes a conversation's key.

Every write that belongs together is one transaction, and every write can be repeated: a session is closed once, a view
digests a session once and an utterance's traits are merged once, whoever comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ld_agent.storage.database import EVERYONE
from ld_agent.storage.edits import Edits
from ld_agent.storage.personas import PersonaShelf
from ld_agent.storage.rows import RECORD, from_row, insert
from ld_agent.storage.shelf import Shelf
from ld_agent.types import Record


class Store(Edits):
    """What is stored of conversations. An engine's store says what a version is and how a conversation is deleted.

    The parts: `ld_agent.storage.conversations`, then `utterances`, then `edits`, then records here; those of a view are on its
    `Shelf`, the traits on the `PersonaShelf`.
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

    def pinned(self, key: int) -> list[Record]:
        return self._records(key, "conversation = ? AND pinned = 1", key)

    def note_recalled(self, key: int, reply: str, records: Iterable[str]) -> None:
        """Record which records, by id, were in a reply's prompt."""
        with self.db.transaction(key):
            for record in records:
                row = {"conversation": key, "record": record, "utterance": reply}
                insert(self.db.of(key), "recall", row, unless_there=True)

    def recalled_by(self, key: int, reply: str) -> list[Record]:
        """The records of `note_recalled` as they are now, in the order of storing."""
        recalled = "SELECT record FROM recall WHERE conversation = ?1 AND utterance = ?2"
        return self._records(key, f"conversation = ?1 AND id IN ({recalled})", key, reply)

    def _records(self, key: int, where: str, *values: Any) -> list[Record]:
        rows = self.db.of(key).rows(f"SELECT {RECORD} FROM record WHERE {where} ORDER BY pk", values)
        records, lapsed = [from_row(Record, row) for row in rows], self.lapsed(key)
        return [record for record in records if record.id not in lapsed]

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

    def record_counts(self, key: int) -> dict[str, int]:
        """The number of stored records of each view, by name."""
        query = "SELECT view, count(*) FROM record WHERE conversation = ? GROUP BY view ORDER BY view"
        return dict(self.db.of(key).rows(query, (key,)))
