"""Row-level security: the tenant and the role that a statement acts for. The migrations define the policies.

A policy shows the rows of the tenant named by the setting ``ld_agent.tenant``, all rows for `EVERYONE`, and none if it
names nobody.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as failures
from psycopg import sql as composed

if TYPE_CHECKING:
    from ld_agent.storage.postgres.connection import PostgresConnection

ROLE = "ld_agent_rows"
"""The role of a superuser's connections, because policies do not apply to superusers."""
SET_TENANT = "SELECT set_config('ld_agent.tenant', $1, false)"
SET_TENANT_LOCALLY = "SELECT set_config('ld_agent.tenant', $1, true)"


class TenantConnection:
    """A connection that acts for one tenant; see `ld_agent.storage.database.Database`."""

    def __init__(self, whole: PostgresConnection, tenant: str) -> None:
        self._whole, self._tenant = whole, tenant
        self.path, self.integrity_error = whole.path, whole.integrity_error

    def of(self, key: int) -> TenantConnection:
        return self._whole.of(key)

    def acting_for(self, tenant: str) -> TenantConnection:
        return self._whole.acting_for(tenant)

    def transaction(self, key: int | None = None, *, alone: bool = False) -> AbstractContextManager[None]:
        return self._whole.transaction(key, alone=alone, tenant=self._tenant)

    def snapshot(self) -> AbstractContextManager[None]:
        return self._whole.snapshot()

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> int:
        return self._whole.execute(sql, values, self._tenant)

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._whole.rows(sql, values, self._tenant)

    def row(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        return self._whole.row(sql, values, self._tenant)

    def within(self, column: str, placeholder: str) -> str:
        return self._whole.within(column, placeholder)

    def elements(self, column: str) -> str:
        return self._whole.elements(column)

    def vector(self, packed: bytes) -> object:
        return self._whole.vector(packed)

    def for_reading(self) -> TenantConnection:
        return self

    def close(self) -> None:
        self._whole.close()


def confined_role(db: psycopg.Connection[Any], schema: str, lock: int) -> str | None:
    """Return the role that makes policies apply to a superuser's connections; None: they apply to this user already.

    The role is created if missing. It may read and write the tables, but not alter them.
    """
    row = db.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row is None or not row[0]:
        return None
    if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
        with suppress(failures.DuplicateObject, failures.UniqueViolation):  # another process came first
            db.execute(f"CREATE ROLE {ROLE} NOLOGIN NOBYPASSRLS")
    if db.execute(f"SELECT has_table_privilege('{ROLE}', '{schema}.answer', 'INSERT')").fetchone() != (True,):
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            _grant(db, schema)
    return ROLE


def _grant(db: psycopg.Connection[Any], schema: str) -> None:
    extension = db.execute(
        "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
    ).fetchone()
    for name in {schema, *(extension or ())}:
        db.execute(composed.SQL(f"GRANT USAGE ON SCHEMA {{}} TO {ROLE}").format(composed.Identifier(name)))
    db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {ROLE}")
    db.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {ROLE}")
