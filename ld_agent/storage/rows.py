"""The rows exchanged between memory and a database, and how their columns are stored: times as whole microseconds, lists and
details as JSON text, vectors as float32. Knows no engine and no mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ld_agent.storage.database import Database
from ld_agent.types import Record, Trait, Utterance, iso, utc

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Vector = NDArray[np.float32]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRAITS = "traits"
"""The kind of work that extracts traits; other kinds are named after their view."""
PATIENCE = 3
"""Number of failures after which pending work is set aside."""
CATCH_UP = 3
"""Number of sessions that a newly enabled view digests automatically; a longer history needs ``ld-agent memory
rebuild``."""
ITEMS = "items"
"""The view of what programs store; it expires when they say so, and its lines go with it."""
RECALLS_KEPT = 32
"""Number of recall times kept per record; earlier ones are only counted."""
UNENCODED: Vector = np.empty(0, np.float32)
"""The vector of a record that is not searched by meaning."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation's row. ``key`` is never reused, not even after deletion."""

    key: int
    id: str
    agent: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A record without id, before it is stored; see `Record` for the fields.

    Attributes:
        vector: (dimension,) float32; None: to be encoded when first searched; `UNENCODED`: never.
        verbatim: consists only of words of its sources; otherwise it is trusted no more than anything said in its
            session.
        rewritten: made from earlier records of its view too, and trusted no more than any of them.
        expires: of one of `ITEMS`; None: never. Other records expire by the store's lifetimes.
    """

    text: str
    at: datetime
    session: int
    vector: Vector | None = None
    topics: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    fallback: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    verbatim: bool = False
    rewritten: bool = False
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The parts of a record that an index needs.

    ``at``: seconds since the epoch; ``text`` only where there is no vector.
    """

    key: int
    at: float
    topics: tuple[str, ...]
    vector: Vector | None
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A message of an imported history, before it is stored.

    Attributes:
        source: identifies it in every export that contains it.
        thread: the chat it belongs to.
        at: aware, with the offset of where it was said.
        learned: nothing is to be learned from it.
        edited: when its text was changed where it comes from; None: never, or that is not known.
    """

    source: str
    thread: str
    speaker: str
    text: str
    at: datetime
    learned: bool = False
    edited: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed piece of pending work.

    Attributes:
        work: `TRAITS`, or the view whose work it was.
        item: the utterance's id, or the session's number.
        attempts: number of attempts; from `PATIENCE` on it is set aside.
        error: the last exception, in one line.
    """

    work: str
    item: str
    attempts: int
    error: str

    @property
    def set_aside(self) -> bool:
        return self.attempts >= PATIENCE


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A change by hand, carried to utterances and records.

    Attributes:
        lines: new texts by utterance id; "": the utterance is forgotten, and only its place is left.
        records: as they shall be, with their vectors; with the text "" they are removed.
        forgotten: earlier texts are not logged, and removed from the log.
        relearned: utterances whose traits shall be extracted again.
    """

    lines: Mapping[str, str]
    records: Sequence[tuple[Record, Vector]]
    forgotten: bool = False
    relearned: Sequence[str] = ()


# ---- columns

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "session": ("number", "closed", "thread"),
    "enabled": ("view", "since", "through"),
    "digested": ("view", "session"),
    "utterance": tuple(
        "id session speaker text at extracted replaced channel interrupted source utc_offset edited".split()
    ),
    "observed": ("view", "utterance"),
    "record": tuple("id view session text at topics sources fallback details pinned channel said_by expires".split()),
    "trait": tuple(field.name for field in fields(Trait)),
    "change": ("target", "action", "at", "before"),
    "recall": ("record", "utterance"),
}
"""What is exported of each kind of row, besides its conversation. Times are aware datetimes, lists and mappings are plain,
flags are bool, every other value is text or a whole number; only `NULLABLE_COLUMNS` may be None."""
COUNTERS = ("utterances", "records", "traits")
"""The numbers of ids used by a conversation."""
JSON_COLUMNS = frozenset({"topics", "sources", "details", "said_by", "scopes"})
TIME_COLUMNS = frozenset(
    "at last_at holds_from holds_until otherwise_until expires edited created revoked start end".split()
)
NULLABLE_COLUMNS = frozenset("superseded_by holds_from holds_until otherwise_until expires edited".split())
FLAG_COLUMNS = frozenset({"closed", "extracted", "fallback", "interrupted", "pinned", "replaced"})
NUMBER_COLUMNS = frozenset({"number", "session", "mentions", "since", "through", "utc_offset", *COUNTERS})
T = TypeVar("T", bound="DataclassInstance")


def columns_of(kind: type[DataclassInstance]) -> str:
    """The columns of a type, for SELECT."""
    return ", ".join(field.name for field in fields(kind))


UTTERANCE, RECORD, TRAIT = (columns_of(kind) for kind in (Utterance, Record, Trait))


def microseconds(at: datetime) -> int:
    """Return an aware time as whole microseconds since the epoch."""
    return (at - EPOCH) // timedelta(microseconds=1)


def moment(value: int) -> datetime:
    """Return the aware UTC time of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=value)


def json_text(value: Any) -> str:
    """Return a value as JSON, the same text for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def vector_bytes(vector: Vector) -> bytes:
    """Return a (dimension,) vector as little-endian float32."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def vector_from(blob: bytes | None) -> Vector | None:
    """Return the (dimension,) vector of `vector_bytes`; None, not yet encoded, stays None."""
    return None if blob is None else np.frombuffer(blob, dtype="<f4")


def plain_value(column: str, stored: Any) -> Any:
    """A column's value as the package uses it, from what a table holds."""
    return READ[column](stored) if stored is not None and column in READ else stored


def _from_json(stored: str) -> Any:
    value = json.loads(stored)
    return tuple(value) if isinstance(value, list) else value


READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(TIME_COLUMNS, moment),
    **dict.fromkeys(JSON_COLUMNS, _from_json),
    **dict.fromkeys(FLAG_COLUMNS, bool),
}


def stored_value(column: str, value: Any) -> Any:
    """What `plain_value` reads, as a statement's parameter."""
    if column in TIME_COLUMNS:
        return None if value is None else microseconds(value)
    if column in JSON_COLUMNS:
        return json_text(dict(value) if column == "details" else value)
    return value


def from_row(kind: type[T], row: Sequence[Any]) -> T:
    """An object of a type from its columns."""
    return kind(*(plain_value(column.name, stored) for column, stored in zip(fields(kind), row, strict=True)))


def from_rows(kind: type[T], rows: Iterable[Sequence[Any]]) -> list[T]:
    """`from_row` of each."""
    return [from_row(kind, row) for row in rows]


def insert_item(db: Database, table: str, key: int, item: DataclassInstance, **more: Any) -> None:
    """Store an item of a conversation, with further columns of its row."""
    columns = {column.name: getattr(item, column.name) for column in fields(item)}
    insert(db, table, {"conversation": key, **columns, **more})


def insert(db: Database, table: str, row: Mapping[str, Any], *, unless_there: bool = False) -> int:
    """Store one row; returns 1, or 0 where it was there already."""
    places = ", ".join("?" * len(row))
    conflict = " ON CONFLICT DO NOTHING" if unless_there else ""
    values = tuple(stored_value(column, value) for column, value in row.items())
    return db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places}){conflict}", values)


# ---- a record's recalls, in its details: ``recalls``, the times of the latest, and ``recalled_before``, how many were earlier


def with_recall(details: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """Details after one more recall; idempotent for the same time."""
    times = sorted({*details.get("recalls", ()), iso(at)})
    counted, kept = times[:-RECALLS_KEPT], times[-RECALLS_KEPT:]
    noted = dict(details) | {"recalls": kept}
    if counted:
        noted["recalled_before"] = details.get("recalled_before", 0) + len(counted)
    return noted


def recalls_before(details: Mapping[str, Any], at: datetime) -> tuple[int, datetime | None]:
    """How often a record was recalled before a time, and when last; recalls at that time or later do not count."""
    times = [time for time in details.get("recalls", ()) if time < iso(at)]
    return details.get("recalled_before", 0) + len(times), utc(times[-1]) if times else None
