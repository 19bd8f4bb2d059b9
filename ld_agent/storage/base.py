"""The seam between memory and a database: what a store and one shelf of it must do. The rows that cross it stand in
`ld_agent.storage.rows`.

Knows no SQL, no engine and no mechanism. `ld_agent.storage.sql_store` implements it once for SQLite and PostgreSQL; the
contract tests run on each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from ld_agent.storage.columns import Vector
from ld_agent.storage.rows import (
    CATCH_UP,
    PATIENCE,
    TRAITS,
    UNENCODED,
    Change,
    Draft,
    Failure,
    IndexRow,
    StoredConversation,
)
from ld_agent.types import Record, Session, Trait, Utterance

__all__ = [
    "CATCH_UP",
    "PATIENCE",
    "TRAITS",
    "UNENCODED",
    "Change",
    "Draft",
    "Failure",
    "IndexRow",
    "PersonaShelf",
    "Shelf",
    "Store",
    "StoredConversation",
]


class Shelf(Protocol):
    """The records of one view of one conversation. Record keys grow in the order of storing."""

    def enable(self) -> None:
        """Note that the view is enabled, the first time with what had ended before: that is not its pending work."""
        ...

    def undigested(self, most: int | None = None, *, backlog: bool = False) -> list[Session]:
        """Closed sessions that the view has not taken in and that were not set aside, oldest first.

        Args:
            most: at most this many; None: all.
            backlog: also those that ended before the view was enabled, and those set aside.
        """
        ...

    def backlog(self) -> int:
        """How many sessions that ended before the view was enabled it has not taken in."""
        ...

    def digest(self, session: int, drafts: Sequence[Draft]) -> list[Record]:
        """Store what the view remembers of a session and mark the session as digested, atomically.

        Returns:
            the stored records; none if another process digested the session first.
        """
        ...

    def unobserved(self, session: int, but_speaker: str) -> list[Utterance]:
        """The utterances of a session that the view has not taken in and that were not set aside, oldest first.

        Args:
            but_speaker: whose utterances do not count.
        """
        ...

    def observe(self, utterance: Utterance, draft: Draft | None = None) -> Record | None:
        """Mark an utterance as taken in and store what the view keeps of it, atomically.

        Returns:
            the stored record; None where nothing is kept, or another process was first.

        Raises:
            StoreError: the conversation was deleted.
        """
        ...

    def note_verdict(self, utterance_id: str, worth: bool) -> None:
        """Keep what the reply's call decided about an utterance until it is observed."""
        ...

    def verdicts(self) -> dict[str, bool]:
        """The verdicts on utterances that wait to be observed, by utterance id."""
        ...

    def rows_after(self, key: int) -> Iterator[IndexRow]:
        """Rows for an index with keys above ``key``, in ascending order."""
        ...

    def count(self) -> int: ...

    def newest(self, at: datetime | None = None) -> tuple[Record, Vector | None] | None:
        """The record stored last, with its vector; None: there is none.

        Args:
            at: nothing younger than this; None: whatever its age.
        """
        ...

    def records(self, keys: Sequence[int]) -> list[Record]:
        """The records with these keys, in this order.

        Raises:
            StoreError: one is gone: the conversation was deleted.
        """
        ...

    def set_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors made after the rows were, by record key."""
        ...

    def vectors(self, last_key: int) -> bytes:
        """The vectors of all records up to a key, in order, as little-endian float32; those not encoded are left out."""
        ...

    def note_recall(self, keys: Sequence[int], at: datetime) -> None:
        """Note that records were recalled at a time; noting it again for the same time changes nothing."""
        ...

    def passage_words(self, keys: Sequence[int]) -> dict[int, str]:
        """The words of those records that have passages, as JSON text."""
        ...

    def passage_vectors(self, keys: Sequence[int]) -> dict[int, bytes]:
        """The packed vectors of those records that have passages."""
        ...

    def set_passages(self, passages: Mapping[int, tuple[str, bytes]]) -> None:
        """Store passages as (words, vectors) by record key; a record deleted in between gets none."""
        ...

    def with_sources(self, keys: Sequence[int]) -> list[tuple[int, str, list[Utterance]]]:
        """Records by key, each with its text and the utterances that it came from, in order."""
        ...

    def snapshot(self) -> tuple[int, bytes] | None:
        """The index as it was last kept, with the last key in it; None: none was kept, or records changed since."""
        ...

    def keep_snapshot(self, last_key: int, index: bytes) -> None:
        """Keep an index for the next start; derived data, dropped whenever a record of the shelf is changed by hand."""
        ...


class PersonaShelf(Protocol):
    """The traits of every speaker of one conversation."""

    def traits(self) -> list[tuple[Trait, Vector | None]]:
        """Every trait with its vector, superseded ones included, in the order of storing."""
        ...

    def learned_from(self, utterance_ids: Sequence[str]) -> list[Trait]:
        """The traits that utterances revealed, superseded ones included, in the order of storing."""
        ...

    def add(self, speaker: str, text: str, at: datetime, source: str, vector: Vector) -> Trait: ...

    def update(self, trait: Trait) -> None:
        """Store ``last_at``, ``mentions`` and ``superseded_by`` of a trait."""
        ...

    def set_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors made after the rows were, by trait id."""
        ...

    def mark_extracted(self, utterance_id: str) -> bool:
        """Mark an utterance's traits as merged; False if another process was first."""
        ...


class Store(Protocol):
    """Many conversations, strictly apart: every method but the first few takes a conversation's key."""

    @property
    def path(self) -> str: ...

    def version(self, key: int) -> Hashable:
        """Changes when another connection has written to a conversation, or changed the encoder."""
        ...

    def close(self) -> None: ...

    def writing(self, key: int | None) -> AbstractContextManager[None]:
        """Everything written inside is stored together or not at all, and no other process writes in between.

        Args:
            key: the conversation that is written to; None: any.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment, whatever other processes write; for reading only."""
        ...

    def conversations(self) -> list[StoredConversation]: ...

    def conversation_id(self, key: int) -> str:
        """The id of a conversation; "": there is none of this key."""
        ...

    def find_conversation(self, conversation_id: str) -> StoredConversation | None: ...

    def open_conversation(self, conversation_id: str, agent: str) -> StoredConversation:
        """Find a conversation or create it.

        Raises:
            InputError: it exists with an agent of another name.
        """
        ...

    def delete_conversation(self, key: int) -> None:
        """Remove every trace of a conversation."""
        ...

    def rename_agent(self, key: int, name: str) -> None:
        """Give a conversation's agent another name: in its utterances and traits, and wherever else it is noted.

        What is derived from who said what is dropped and made again, and counts as a change by hand.
        """
        ...

    def counters(self, key: int) -> dict[str, int]:
        """How many ids of each kind in `COUNTERS` a conversation has given out; {}: it was deleted."""
        ...

    def set_counters(self, key: int, counters: Mapping[str, int]) -> None: ...

    def rows(self, key: int, kind: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind of `COLUMNS`: in the order of storing, or of their keys where that has no meaning."""
        ...

    def add_row(self, key: int, kind: str, row: Mapping[str, Any]) -> None:
        """Store a row of `rows`, unchecked.

        Raises:
            RepeatedRowError: the conversation has it already.
        """
        ...

    def is_stored(self, key: int) -> bool: ...

    def counts(self, key: int) -> dict[str, int]:
        """How many sessions, utterances, records and active traits a conversation has."""
        ...

    def edits(self, key: int) -> int:
        """How often records or traits of a conversation were changed by hand."""
        ...

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
    ) -> Utterance:
        """Store one utterance; where the gap before it exceeds β, close its thread's session first (equation 4).

        Args:
            at: when it was said; None: now, and never before what was said last in the thread.
            beta: β in seconds.
            channel: how it reached the memory, one of `CHANNELS`.

        Raises:
            InputError: ``at`` lies before the thread's last utterance.
        """
        ...

    def close_session(self, key: int, thread: str = "") -> int | None:
        """Close the thread's open session; returns its number, or None where none is open."""
        ...

    def last_utterance(self, key: int, thread: str | None = None) -> Utterance | None:
        """What was said last in a thread; None: in any."""
        ...

    def open_utterances(self, key: int, thread: str | None = "") -> list[Utterance]:
        """What the short-term cache M_S holds: the utterances of the thread's open session; None: of all open ones."""
        ...

    def open_threads(self, key: int) -> list[str]:
        """The threads with an open session."""
        ...

    def utterances(self, key: int) -> list[Utterance]: ...

    def thread_utterances(self, key: int, thread: str) -> list[Utterance]:
        """Everything that was said in a thread, in all of its sessions."""
        ...

    def utterances_by_id(self, key: int, ids: Sequence[str]) -> dict[str, Utterance]:
        """Utterances by id; one that is not stored is left out."""
        ...

    def passages_by_id(self, key: int, ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        """By id, the passages of those records that have some, as `Shelf.set_passages` takes them."""
        ...

    def session_utterances(self, key: int, session: int) -> list[Utterance]: ...

    def speakers(self, key: int) -> list[str]:
        """Everyone who has spoken, in order."""
        ...

    def unextracted(self, key: int, *, set_aside: bool = False) -> list[Utterance]:
        """Utterances whose traits have not been extracted yet.

        Args:
            set_aside: also those whose extraction kept failing.
        """
        ...

    def answered(self, key: int, utterance: Utterance) -> str:
        """What another speaker said right before an utterance in its session; "" for nothing."""
        ...

    def records(self, key: int, *, after: str | None = None, session: int | None = None) -> list[Record]:
        """Records of a conversation in the order of storing: all, those after a record's id, or those of a session."""
        ...

    def pinned(self, key: int) -> list[Record]: ...

    def note_recalled(self, key: int, reply: str, records: Iterable[str]) -> None:
        """Note, by their ids, which records a reply's prompt had."""
        ...

    def recalled_by(self, key: int, reply: str) -> list[Record]:
        """The records of `note_recalled` as they are now, in the order of storing."""
        ...

    def record_bytes(self) -> int:
        """Bytes of all records: texts, what views keep with them, and vectors."""
        ...

    def record_counts(self, key: int) -> dict[str, int]:
        """How many records each view has stored, by its name."""
        ...

    def shelf(self, key: int, view: str) -> Shelf: ...

    def personas(self, key: int) -> PersonaShelf: ...

    def failed(self, key: int, work: str, items: Iterable[str], error: str) -> list[Failure]:
        """Count a failed attempt of pieces of pending work; returns those that are set aside by it."""
        ...

    def failures(self, key: int) -> list[Failure]: ...

    def retry(self, key: int, *, once: bool = False) -> None:
        """Make what was set aside pending again, forgetting its failures.

        Args:
            once: for one more attempt each.
        """
        ...

    def edit(self, key: int, target: str, text: str, vector: Vector, at: datetime) -> None:
        """Replace the text of a record or trait, by its id.

        Raises:
            InputError: there is no such record or trait.
        """
        ...

    def forget(self, key: int, target: str, at: datetime) -> None:
        """Remove a record or trait and every earlier text of it; see `edit`. What it superseded is active again."""
        ...

    def replace(self, key: int, utterance_ids: Sequence[str]) -> None:
        """Take utterances out of the conversation, with what was learned from them alone; they stay as history."""
        ...

    def pin(self, key: int, target: str, pinned: bool, at: datetime) -> None:
        """Pin or unpin a record or trait; see `edit`."""
        ...

    def changes(self, key: int) -> list[Change]:
        """What was changed by hand, oldest first."""
        ...

    def check_encoder(self, name: str, dimension: int) -> None:
        """Note the encoder in a new store; in any other check that it is the same. No other's vectors are accepted from then on.

        Raises:
            EncoderMismatchError: the vectors were made by another encoder.
        """
        ...

    def change_encoder(self, name: str, dimension: int) -> None:
        """Drop every vector and note the encoder that makes them again."""
        ...

    def without_vector(self) -> list[tuple[str, int, str]]:
        """("record" or "trait", key, text) of all rows to be encoded, of all conversations."""
        ...

    def set_any_vectors(self, vectors: Sequence[tuple[str, int, Vector]]) -> None:
        """Store vectors of `without_vector`, atomically."""
        ...
