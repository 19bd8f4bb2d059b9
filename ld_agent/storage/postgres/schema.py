"""Creates and upgrades the tables of a PostgreSQL store."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql as composed

from ld_agent.errors import StoreError
from ld_agent.storage.database import newer_schema
from ld_agent.storage.postgres.errors import NO_PGVECTOR
from ld_agent.storage.postgres.migrations import MIGRATIONS

SCHEMA = "ld_agent"
STORE_LOCK = 0x4C44_4147
"""The advisory lock of the whole store: whoever writes shares it, who must be alone takes it."""


def prepare(db: psycopg.Connection[Any], path: str, create: bool) -> None:
    """Bring the store's tables up to date.

    Args:
        path: how errors name the store.
        create: make the tables where there are none.

    Raises:
        StoreError: no store, one from a newer version, or pgvector is missing.
    """
    version = _schema_version(db)
    if version is None and not create:
        raise StoreError(f"no memory in {path}; give the --store of an earlier chat or run")
    if version is not None and version > len(MIGRATIONS):
        raise newer_schema(path, version, len(MIGRATIONS))
    if version == len(MIGRATIONS):
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (STORE_LOCK,))
        reached = _schema_version(db) or 0  # another process may have come first
        _require_pgvector(db, path)
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        db.execute(search_path(db))
        for step in MIGRATIONS[reached:]:
            for sql in step:
                db.execute(sql.encode())
        db.execute(
            "INSERT INTO meta VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(len(MIGRATIONS)),),
        )


def _require_pgvector(db: psycopg.Connection[Any], path: str) -> None:
    if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
        return
    try:
        db.execute("CREATE EXTENSION vector")
    except psycopg.Error as exc:
        raise StoreError(f"{path}: {NO_PGVECTOR}") from exc


def search_path(db: psycopg.Connection[Any]) -> composed.Composed:
    """The statement that sets where names are looked up: in the store's schema, and wherever pgvector lives."""
    row = db.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
    ).fetchone()
    schemas = [SCHEMA, row[0] if row else "public"]
    return composed.SQL("SET search_path = {}").format(composed.SQL(", ").join(map(composed.Identifier, schemas)))


def _schema_version(db: psycopg.Connection[Any]) -> int | None:
    [there] = db.execute(f"SELECT to_regclass('{SCHEMA}.meta')").fetchone() or (None,)
    if there is None:
        return None
    row = db.execute(f"SELECT value FROM {SCHEMA}.meta WHERE key = 'schema'").fetchone()
    return int(row[0]) if row else 0
