"""The rows that cross the seam between memory and a database. Knows no SQL, no engine and no mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from ld_agent.storage.columns import Vector

TRAITS = "traits"
"""The kind of work that extracts traits; every other kind is named after the view that does it."""
PATIENCE = 3
"""Failures of one piece of pending work after which it is set aside."""
CATCH_UP = 3
"""Sessions that a newly enabled view takes in by itself; a longer past waits for ``ld-agent memory rebuild``."""
UNENCODED: Vector = np.empty(0, np.float32)
"""The vector of a record that nobody looks for by meaning."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation's row. ``key`` is never reused, not even after deletion."""

    key: int
    id: str
    agent: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A record before the store has numbered it; see `Record` for the fields.

    Attributes:
        vector: (dimension,) float32; None: to be encoded when first searched; `UNENCODED`: never.
        verbatim: nothing but the words of its sources; otherwise it is trusted no more than anything said in its session.
        rewritten: made from earlier records of its view too, and trusted no more than any of them.
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


@dataclass(frozen=True, slots=True)
class IndexRow:
    """What an index needs of a record. ``at``: seconds since the epoch; ``text`` only where there is no vector."""

    key: int
    at: float
    topics: tuple[str, ...]
    vector: Vector | None
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A piece of pending work that failed.

    Attributes:
        work: `TRAITS`, or the view that was to take something in.
        item: the utterance's id, or the session's number.
        attempts: how often it was tried; from `PATIENCE` on it is set aside.
        error: what the last attempt raised, in one line.
    """

    work: str
    item: str
    attempts: int
    error: str

    @property
    def set_aside(self) -> bool:
        return self.attempts >= PATIENCE


@dataclass(frozen=True, slots=True)
class Change:
    """What a person changed by hand. ``before`` is empty once the target was forgotten."""

    target: str
    action: str
    at: datetime
    before: str = ""


# ---- a conversation as it is exported and imported

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "session": ("number", "closed", "thread"),
    "enabled": ("view", "since", "through"),
    "digested": ("view", "session"),
    "utterance": ("id", "session", "speaker", "text", "at", "extracted", "replaced", "channel"),
    "observed": ("view", "utterance"),
    "record": (
        "id",
        "view",
        "session",
        "text",
        "at",
        "topics",
        "sources",
        "fallback",
        "details",
        "pinned",
        "channel",
        "said_by",
    ),
    "trait": ("id", "speaker", "text", "at", "source", "last_at", "mentions", "superseded_by", "pinned", "channel"),
    "change": ("target", "action", "at", "before"),
    "recall": ("record", "utterance"),
}
"""What each kind of row holds, besides its conversation. Times are aware datetimes, lists and mappings are plain, flags are
bool, every other value is text or a whole number; only ``superseded_by`` may be None."""
COUNTERS = ("utterances", "records", "traits")
"""How many ids of each a conversation has given out."""
JSON_COLUMNS = frozenset({"topics", "sources", "details", "said_by"})
TIME_COLUMNS = frozenset({"at", "last_at"})
FLAG_COLUMNS = frozenset({"closed", "extracted", "fallback", "pinned", "replaced"})
NUMBER_COLUMNS = frozenset({"number", "session", "mentions", "since", "through", *COUNTERS})
