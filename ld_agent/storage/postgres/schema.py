"""Creates and upgrades the tables of a PostgreSQL store, and the role to which row-level security applies.

A policy shows the rows of the tenant named by the setting ``ld_agent.tenant``, all rows for `EVERYONE`, and none if it
names nobody. The migrations define the policies.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors as failures

from ld_agent.errors import StoreError
from ld_agent.storage.database import newer_schema
from ld_agent.storage.postgres.migrations import MIGRATIONS

SCHEMA = "ld_agent"
STORE_LOCK = 0x4C44_4147
"""The advisory lock of the whole store: whoever writes shares it, who must be alone takes it."""
ROLE = "ld_agent_rows"
"""The role of a superuser's connections, because policies do not apply to superusers."""


def prepare(db: psycopg.Connection[Any], path: str, create: bool) -> None:
    """Bring the store's tables up to date.

    Args:
        path: how errors name the store.
        create: make the tables where there are none.

    Raises:
        StoreError: no store, or one from a newer version.
    """
    version = version_of(db, path)
    if version is None and not create:
        raise StoreError(f"no memory in {path}; give the --store of an earlier chat or run")
    if version == len(MIGRATIONS):
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (STORE_LOCK,))
        reached = version_of(db, path) or 0  # another process may have come first
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        db.execute(f"SET search_path = {SCHEMA}")
        for step in MIGRATIONS[reached:]:
            for sql in step:
                db.execute(sql.encode())
        db.execute(
            "INSERT INTO meta VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(len(MIGRATIONS)),),
        )


def version_of(db: psycopg.Connection[Any], path: str) -> int | None:
    """The version of the schema; None: there is none.

    Raises:
        StoreError: it is from a newer version.
    """
    [there] = db.execute(f"SELECT to_regclass('{SCHEMA}.meta')").fetchone() or (None,)
    if there is None:
        return None
    row = db.execute(f"SELECT value FROM {SCHEMA}.meta WHERE key = 'schema'").fetchone()
    version = int(row[0]) if row else 0
    if version > len(MIGRATIONS):
        raise newer_schema(path, version, len(MIGRATIONS))
    return version


def confined_role(db: psycopg.Connection[Any]) -> str | None:
    """Return the role that makes policies apply to a superuser's connections; None: they apply to this user already.

    The role is created if missing. It may read and write the tables, but not alter them.
    """
    row = db.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row is None or not row[0]:
        return None
    if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
        with suppress(failures.DuplicateObject, failures.UniqueViolation):  # another process came first
            db.execute(f"CREATE ROLE {ROLE} NOLOGIN NOBYPASSRLS")
    if db.execute(f"SELECT has_table_privilege('{ROLE}', '{SCHEMA}.answer', 'INSERT')").fetchone() != (True,):
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (STORE_LOCK,))
            db.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}")
            db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {ROLE}")
            db.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {ROLE}")
    return ROLE
