"""What one conversation has on its shelves: the records of a view, and the traits of every speaker. Knows no SQL, no engine and
no mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from ld_agent.storage.columns import Vector
from ld_agent.storage.rows import Draft, IndexRow
from ld_agent.types import Record, Session, Trait, Utterance


class Shelf(Protocol):
    """The records of one view of one conversation. Record keys ascend in storage order."""

    def enable(self) -> None:
        """Record that the view is enabled; sessions that ended before the first time are not its pending work."""
        ...

    def undigested(self, most: int | None = None, *, backlog: bool = False) -> list[Session]:
        """Closed sessions that the view has not digested and that were not set aside, oldest first.

        Args:
            most: at most this many; None: all.
            backlog: also those that ended before the view was enabled, those set aside and imported ones.
        """
        ...

    def history(self) -> list[int]:
        """The numbers of the imported sessions that the view has not digested and that were not set aside, in order of time."""
        ...

    def lacking(self) -> int:
        """The number of closed sessions that the view has not digested, for whatever reason."""
        ...

    def backlog(self) -> int:
        """The number of undigested sessions that ended before the view was enabled."""
        ...

    def digest(self, session: int, drafts: Sequence[Draft]) -> list[Record]:
        """Store the view's records of a session and mark the session as digested, atomically.

        Returns:
            the stored records; none if another process digested the session first.
        """
        ...

    def unobserved(self, session: int, but_speaker: str) -> list[Utterance]:
        """The utterances of a session that the view has not observed and that were not set aside, oldest first.

        Args:
            but_speaker: the speaker whose utterances are excluded.
        """
        ...

    def observe(self, utterance: Utterance, draft: Draft | None = None) -> Record | None:
        """Mark an utterance as observed and store the view's record of it, if any, atomically.

        Returns:
            the stored record; None where nothing is kept, or another process was first.

        Raises:
            StoreError: the conversation was deleted.
        """
        ...

    def note_verdict(self, utterance_id: str, worth: bool) -> None:
        """Keep the decision of the generator's call about an utterance until it is observed."""
        ...

    def verdicts(self) -> dict[str, bool]:
        """The decisions about utterances that are still to be observed, by utterance id."""
        ...

    def rows_after(self, key: int) -> Iterator[IndexRow]:
        """Rows for an index with keys above ``key``, in ascending order."""
        ...

    def count(self) -> int: ...

    def newest(self, at: datetime | None = None) -> tuple[Record, Vector | None] | None:
        """The latest record with its vector; None: there is none.

        Args:
            at: ignore records younger than this; None: any age.
        """
        ...

    def records(self, keys: Sequence[int]) -> list[Record]:
        """The records with these keys, in this order.

        Raises:
            StoreError: one is gone: the conversation was deleted.
        """
        ...

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors computed after their rows, by record key."""
        ...

    def vectors(self, last_key: int) -> bytes:
        """The vectors of all records up to a key, in order, as little-endian float32; those not encoded are left out."""
        ...

    def note_recall(self, keys: Sequence[int], at: datetime) -> None:
        """Record that records were recalled at a time; idempotent for the same time."""
        ...

    def passage_words(self, keys: Sequence[int]) -> dict[int, str]:
        """The passage words of records that have passages, as JSON text."""
        ...

    def passage_vectors(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The packed vectors of those records that have passages."""
        ...

    def without_passages(self, most: int) -> list[int]:
        """The keys of the latest records that have no passages, at most so many."""
        ...

    def set_passages(self, passages: Mapping[int, tuple[str, bytes]]) -> None:
        """Store passages as (words, vectors) by record key; records deleted in the meantime are skipped."""
        ...

    def with_sources(self, keys: Sequence[int]) -> list[tuple[int, str, list[Utterance]]]:
        """The text and source utterances of records by key, in order."""
        ...

    def snapshot(self) -> tuple[int, bytes] | None:
        """The last index snapshot with its last key; None: there is none, or records have changed since."""
        ...

    def keep_snapshot(self, last_key: int, index: bytes) -> None:
        """Store an index snapshot for the next start; derived data, dropped whenever a record of the shelf is changed
        manually."""
        ...


class PersonaShelf(Protocol):
    """The traits of every speaker of one conversation."""

    def traits(self) -> list[tuple[Trait, Vector | None]]:
        """All traits with their vectors, including superseded ones, in storage order."""
        ...

    def learned_from(self, utterance_ids: Sequence[str]) -> list[Trait]:
        """The traits found in utterances, including superseded ones, in storage order."""
        ...

    def add(self, speaker: str, text: str, at: datetime, source: str, vector: Vector) -> Trait: ...

    def update(self, trait: Trait) -> None:
        """Store ``last_at``, ``mentions``, when a trait holds and what ended it."""
        ...

    def set_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors computed after their rows, by trait id."""
        ...

    def mark_extracted(self, utterance_id: str) -> bool:
        """Mark an utterance's traits as merged; False if another process was first."""
        ...
