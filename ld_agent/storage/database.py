"""The interface of an engine's connection for the shared SQL. Knows no table and no engine.

The statements are written once, in the SQL that SQLite and PostgreSQL share, with SQLite's placeholders (``?``, ``?1``); what
the engines write differently is a method here. A list among the values is the right side of `within`.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ld_agent.errors import StoreError

EVERYONE = "*/"
"""Represents all tenants, for work across them. No tenant's name contains a slash."""
NO_TENANT = "/"
"""The tenant of conversations whose ids name no tenant."""


def tenant_of(conversation_id: str) -> str:
    """The tenant who owns a conversation: the first part of ``TENANT/PERSON``."""
    tenant, slash, _ = conversation_id.partition("/")
    return tenant if slash and tenant else NO_TENANT


def newer_schema(path: str, version: int, known: int) -> StoreError:
    """The error for a store whose schema this program does not know."""
    return StoreError(
        f"{path} was written by a newer ld_agent (schema {version}, this one knows {known}); upgrade ld_agent"
    )


def not_storable(path: str, exc: UnicodeEncodeError) -> StoreError:
    """The error for a text with a lone surrogate."""
    return StoreError(
        f"{path}: {exc.object[:80]!r} holds half a character (a lone surrogate), which cannot be stored; remove it"
    )


class TurnLock(Protocol):
    """A lock that lets one process at a time take turns in a conversation. It is reentrant within a process."""

    def acquire(self, waits: bool) -> bool:
        """Acquire the lock; False: another process holds it. With ``waits``, wait until that process releases it or ends."""

    def release(self) -> None: ...


class Database(Protocol):
    """A connection shared by several threads."""

    path: str
    """The location of the data, for messages: never contains a password."""
    integrity_error: type[Exception]
    """The engine's exception for a duplicate key."""

    def transaction(self, key: int | None = None, *, alone: bool = False) -> AbstractContextManager[None]:
        """All writes inside are atomic; nested calls join the same transaction.

        Args:
            key: the conversation that is written to; nobody else writes to it in between.
            alone: nobody writes to any conversation in between.
        """

    def snapshot(self) -> AbstractContextManager[None]:
        """All reads inside see one consistent state, whatever other processes write; read-only."""

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> int:
        """Run one writing statement; returns the number of rows it changed."""

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query."""

    def row(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """The first row of a query, or None."""

    def version(self, key: int) -> Hashable:
        """Changes when another connection has written to a conversation; None: it was deleted."""

    def of(self, key: int) -> Database:
        """The same connection, acting for the tenant who owns the conversation; it cannot reach other tenants' rows."""

    def acting_for(self, tenant: str) -> Database:
        """The same connection, acting for a tenant or for `EVERYONE`. Without this it reaches no tenant's rows, or those of
        the tenant for whom the current transaction acts."""

    def within(self, column: str, placeholder: str) -> str:
        """SQL: whether a column's value is in a list that is given as a value."""

    def elements(self, column: str) -> str:
        """SQL: the elements of a column of JSON lists, as rows of the column ``value``."""

    def for_reading(self) -> Database:
        """A connection to the same data whose reads never wait for this one's writes; this one where that is so already."""

    def close(self) -> None: ...
