"""Explains PostgreSQL's exceptions in one line each, with the remedy. Never shows a password."""

from __future__ import annotations

import psycopg
from psycopg import errors as failures
from psycopg_pool import PoolClosed, PoolTimeout

from ld_agent.errors import StoreError

REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (PoolClosed, "the store was closed; open it again"),
    (PoolTimeout, "no connection became free in time; raise the pool's size or lower the load, then try again"),
    (failures.InvalidPassword, "the password is wrong; correct it in the address or in PGPASSWORD"),
    (failures.InvalidCatalogName, "the server has no database of this name; create it with createdb"),
    (failures.LockNotAvailable, "another process kept the store locked; try again when it is done"),
    (failures.DeadlockDetected, "two processes waited for each other; try again, nothing of this was stored"),
    (failures.DiskFull, "the server's disk is full; free some space and try again, nothing that was stored is lost"),
    (failures.ForeignKeyViolation, "the conversation was deleted while in use; reopen it"),
    (failures.InsufficientPrivilege, "this user may not do that; grant it the rights, or use the owner's address"),
    (failures.TooManyConnections, "the server has no free connection; reduce the pool sizes or raise max_connections"),
)


def failure(path: str, exc: Exception) -> StoreError:
    """The error for an exception; what the database itself says may name addresses and what was stored."""
    remedy = _remedy(exc)
    return StoreError(remedy, path) if remedy in dict(REMEDIES).values() else StoreError(f"{path}: {remedy}")


def _remedy(exc: Exception) -> str:
    text = " ".join(str(exc).split())
    if "password authentication failed" in text or "no password supplied" in text:
        return "the password is wrong or missing; give it in the address or in PGPASSWORD"
    if 'database "' in text and "does not exist" in text:
        return "the server has no database of this name; create it with createdb"
    for kind, remedy in REMEDIES:
        if isinstance(exc, kind):
            return remedy
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return f"the server cannot be reached ({text[:200]}); check the address and that it runs, then try again"
    return f"the store failed: {text[:300]}"
