"""The interface between memory and a database: a store and its shelves. Its rows are defined in
`ld_agent.storage.rows`.

Knows no SQL, no engine and no mechanism. `ld_agent.storage.sql.store` implements it once for SQLite and PostgreSQL; the
contract tests run on each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from ld_agent.storage.columns import Vector
from ld_agent.storage.database import TurnLock
from ld_agent.storage.rows import (
    CATCH_UP,
    PATIENCE,
    TRAITS,
    UNENCODED,
    Draft,
    Failure,
    IndexRow,
    Line,
    Rewriting,
    StoredConversation,
)
from ld_agent.storage.shelves import PersonaShelf, Shelf
from ld_agent.types import Change, Record, Utterance

__all__ = [
    "CATCH_UP",
    "PATIENCE",
    "TRAITS",
    "UNENCODED",
    "Draft",
    "Failure",
    "IndexRow",
    "Line",
    "PersonaShelf",
    "Rewriting",
    "Shelf",
    "Store",
    "StoredConversation",
]


class Store(Protocol):
    """Many conversations, strictly separated: almost every method takes a conversation's key."""

    @property
    def path(self) -> str: ...

    def version(self, key: int) -> Hashable:
        """Changes when another connection has written to a conversation, or changed the encoder."""
        ...

    def close(self) -> None: ...

    def writing(self, key: int | None) -> AbstractContextManager[None]:
        """All writes inside are atomic, and no other process writes in between.

        Args:
            key: the conversation written to; None: any.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """All reads inside see one consistent state, whatever other processes write; read-only."""
        ...

    def turn_lock(self, key: int) -> TurnLock | None:
        """The lock that keeps other processes out of a conversation during a turn; None: the store is for a single
        process."""
        ...

    def conversations(self) -> list[StoredConversation]: ...

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
        """Rename a conversation's agent everywhere, including utterances and traits.

        Data derived from speakers is dropped and recomputed; this counts as a manual change.
        """
        ...

    def counters(self, key: int) -> dict[str, int]:
        """The number of ids of each kind in `COUNTERS` used by a conversation; {}: it was deleted."""
        ...

    def set_counters(self, key: int, counters: Mapping[str, int]) -> None: ...

    def rows(self, key: int, kind: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind of `COLUMNS`, in storage order, or by key if that has no meaning."""
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
        """The number of manual changes to records or traits of a conversation."""
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
        interrupted: bool = False,
    ) -> Utterance:
        """Store one utterance; if the gap before it exceeds β, close the thread's session first (equation 4).

        Args:
            at: when it was said; None: now, but not before the thread's last utterance.
            beta: β in seconds.
            channel: how it reached the memory, one of `CHANNELS`.
            interrupted: it is a reply that ended early.

        Raises:
            InputError: ``at`` lies before the thread's last utterance.
        """
        ...

    def known_sources(self, key: int, sources: Sequence[str]) -> set[str]:
        """Those of some sources of `Line` that are stored."""
        ...

    def add_history(self, key: int, lines: Sequence[Line], beta: float) -> int:
        """Store the messages of an imported history that are not stored yet, atomically; return how many.

        Each chat becomes a thread, and messages older than its last one another thread.

        Args:
            beta: β in seconds.
        """
        ...

    def close_history(self, key: int) -> None:
        """Close the sessions of imported history that are still open."""
        ...

    def to_learn(self, key: int) -> int:
        """The number of imported messages from which nothing was learned yet."""
        ...

    def close_session(self, key: int, thread: str = "") -> int | None:
        """Close the thread's open session; return its number, or None if none is open."""
        ...

    def last_utterance(self, key: int, thread: str | None = None) -> Utterance | None:
        """The last utterance of a thread; None: of any thread, without imported history."""
        ...

    def open_utterances(self, key: int, thread: str | None = "") -> list[Utterance]:
        """The content of the short-term cache M_S: the utterances of the thread's open session; None: of all open
        sessions."""
        ...

    def open_threads(self, key: int) -> list[str]:
        """The threads with an open session."""
        ...

    def utterances(self, key: int) -> list[Utterance]: ...

    def latest_utterances(self, key: int, most: int) -> list[Utterance]:
        """The last utterances of all threads, oldest session first."""
        ...

    def thread_utterances(self, key: int, thread: str) -> list[Utterance]:
        """All utterances of a thread as their speakers know them: the text of those changed by hand is "", and forgotten
        ones are included."""
        ...

    def utterances_by_id(self, key: int, ids: Sequence[str]) -> dict[str, Utterance]:
        """Utterances by id; missing ones are omitted."""
        ...

    def passages_by_id(self, key: int, ids: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        """By id, the passages of those records that have some, as `Shelf.set_passages` takes them."""
        ...

    def session_utterances(self, key: int, session: int) -> list[Utterance]: ...

    def speakers(self, key: int) -> list[str]:
        """Everyone who has spoken, in order."""
        ...

    def first_speaker(self, key: int, but: str) -> str | None:
        """Who spoke first here, except for one speaker; imported lines do not count."""
        ...

    def unextracted(
        self, key: int, *, set_aside: bool = False, imported: bool = False, most: int | None = None
    ) -> list[Utterance]:
        """Utterances whose traits have not been extracted yet.

        Args:
            set_aside: also those whose extraction kept failing.
            imported: those of imported history instead of those said here, in order of time.
            most: at most this many; None: all.
        """
        ...

    def answered(self, key: int, utterance: Utterance) -> str:
        """The text another speaker said right before an utterance in its session; "" for nothing."""
        ...

    def records(self, key: int, *, after: str | None = None, session: int | None = None) -> list[Record]:
        """Records of a conversation in storage order: all, those after a record's id, or those of a session."""
        ...

    def pinned(self, key: int) -> list[Record]: ...

    def note_recalled(self, key: int, reply: str, records: Iterable[str]) -> None:
        """Record which records, by id, were in a reply's prompt."""
        ...

    def recalled_by(self, key: int, reply: str) -> list[Record]:
        """The records of `note_recalled` as they are now, in the order of storing."""
        ...

    def record_bytes(self) -> int:
        """Size of all records in bytes: texts, details of the views, and vectors."""
        ...

    def record_counts(self, key: int) -> dict[str, int]:
        """The number of stored records of each view, by name."""
        ...

    def shelf(self, key: int, view: str) -> Shelf: ...

    def personas(self, key: int) -> PersonaShelf: ...

    def failed(self, key: int, work: str, items: Iterable[str], error: str) -> list[Failure]:
        """Count a failed attempt at pieces of pending work; return those that are set aside as a result."""
        ...

    def failures(self, key: int) -> list[Failure]: ...

    def retry(self, key: int, *, once: bool = False) -> None:
        """Make work that was set aside pending again, and reset its failures.

        Args:
            once: for one more attempt each.
        """
        ...

    def edit(self, key: int, target: str, text: str, vector: Vector, at: datetime) -> None:
        """Replace the text of a record or trait, given its id.

        Raises:
            InputError: there is no such record or trait.
        """
        ...

    def forget(self, key: int, target: str, at: datetime) -> None:
        """Remove a record or trait and all its earlier texts; see `edit`. Traits it superseded become active again."""
        ...

    def rewrite(self, key: int, rewriting: Rewriting, at: datetime) -> None:
        """Carry a change by hand to utterances and records, atomically and logged."""
        ...

    def replace(self, key: int, utterance_ids: Sequence[str]) -> None:
        """Remove utterances from the conversation, with what was learned only from them; they are kept as history."""
        ...

    def pin(self, key: int, target: str, pinned: bool, at: datetime) -> None:
        """Pin or unpin a record or trait; see `edit`."""
        ...

    def changes(self, key: int) -> list[Change]:
        """Manual changes, oldest first."""
        ...

    def check_encoder(self, name: str, dimension: int) -> None:
        """Register the encoder in a new store, or check that it is the registered one. Vectors of other encoders are
        rejected from then on.

        Raises:
            EncoderMismatchError: the vectors were made by another encoder.
        """
        ...

    def change_encoder(self, name: str, dimension: int) -> None:
        """Drop all vectors and register the encoder that will recompute them."""
        ...

    def without_vector(self) -> list[tuple[str, int, str]]:
        """("record" or "trait", key, text) of all rows without vector, in all conversations."""
        ...

    def set_any_vectors(self, vectors: Sequence[tuple[str, int, Vector]]) -> None:
        """Store vectors of `without_vector`, atomically."""
        ...
