"""Rows of the store that are not types of the dialogue itself."""

from __future__ import annotations

from dataclasses import dataclass

from ld_agent.storage.columns import Vector


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation's row: ``key`` is never given twice, not even after deletion."""

    key: int
    id: str
    agent: str


@dataclass(frozen=True, slots=True)
class IndexRow:
    """What the long-term index needs of a record."""

    key: int
    at: float
    topics: tuple[str, ...]
    vector: Vector | None
    text: str
