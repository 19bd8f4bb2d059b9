"""Opens a PostgreSQL database: pool, migrations, transactions, and the mapping of its errors to one line. Knows no table but
`conversation`, whose row is the lock on everything that belongs to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as failures
from psycopg.rows import tuple_row
from psycopg.types import TypeInfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from ld_agent.errors import StoreError
from ld_agent.storage.address import shown
from ld_agent.storage.postgres_migrations import MIGRATIONS
from ld_agent.storage.postgres_values import PackedVector, bound, statement, value_adapters

SCHEMA = "ld_agent"
STORE_LOCK = 0x4C44_4147
"""The advisory lock of the whole store: whoever writes shares it, who must be alone takes it."""
WAIT_SECONDS = 30.0
CONNECTIONS = 10
CONNECT_SECONDS = 10
T = TypeVar("T")


class PostgresConnection:
    """A pool of connections to one database; see `ld_agent.storage.database.Database`.

    Args:
        address: a ``postgresql://`` address.
        wait_seconds: how long to wait for a free connection, or for another's write.
        connections: at most this many at once.
        create: make the store's tables where they are missing.

    Raises:
        StoreError: no server, no access, no store, one from a newer version, or pgvector is missing.
    """

    integrity_error: type[Exception] = psycopg.IntegrityError

    def __init__(
        self, address: str, wait_seconds: float = WAIT_SECONDS, connections: int = CONNECTIONS, create: bool = True
    ) -> None:
        self.path = shown(address)
        self._wait_seconds = wait_seconds
        self._local = threading.local()
        with self.errors():
            with psycopg.connect(address, autocommit=True, connect_timeout=CONNECT_SECONDS) as db:
                self._prepare(db, create)
                vector = TypeInfo.fetch(db, "vector")
            if vector is None:
                raise StoreError(f"{self.path}: {NO_PGVECTOR}")
            self._adapt = value_adapters(vector)
            self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
                address, min_size=0, max_size=connections, timeout=wait_seconds, num_workers=1, open=True,
                configure=self._configure, kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS},
            )  # fmt: skip

    # ---- opening

    def _prepare(self, db: psycopg.Connection[Any], create: bool) -> None:
        version = self._schema_version(db)
        if version is None and not create:
            raise StoreError(f"no memory in {self.path}; give the --store of an earlier chat or run")
        if version is not None and version > len(MIGRATIONS):
            raise StoreError(
                f"{self.path} was written by a newer ld_agent (schema {version}, this one knows {len(MIGRATIONS)}); "
                "upgrade ld_agent"
            )
        if version == len(MIGRATIONS):
            db.execute(f"SET search_path = {SCHEMA}, public")
            return
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (STORE_LOCK,))
            reached = self._schema_version(db) or 0  # another process may have come first
            self._require_pgvector(db)
            db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            db.execute(f"SET search_path = {SCHEMA}, public")
            for step in MIGRATIONS[reached:]:
                for sql in step:
                    db.execute(sql.encode())
            db.execute(
                "INSERT INTO meta VALUES ('schema', %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (str(len(MIGRATIONS)),),
            )

    def _require_pgvector(self, db: psycopg.Connection[Any]) -> None:
        if db.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
            return
        try:
            db.execute("CREATE EXTENSION vector")
        except psycopg.Error as exc:
            raise StoreError(f"{self.path}: {NO_PGVECTOR}") from exc

    def _schema_version(self, db: psycopg.Connection[Any]) -> int | None:
        [there] = db.execute(f"SELECT to_regclass('{SCHEMA}.meta')").fetchone() or (None,)
        if there is None:
            return None
        row = db.execute(f"SELECT value FROM {SCHEMA}.meta WHERE key = 'schema'").fetchone()
        return int(row[0]) if row else 0

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.cursor_factory = psycopg.RawCursor
        connection.execute(f"SET search_path = {SCHEMA}, public")
        connection.execute(f"SET lock_timeout = {int(self._wait_seconds * 1000)}")
        self._adapt(connection)

    # ---- transactions

    @contextmanager
    def transaction(self, key: int | None = None, *, alone: bool = False) -> Iterator[None]:
        """See `Database.transaction`. The conversation's row is locked until the end, and its version grows by one."""
        with self._transaction(lambda db: self._lock(db, key, alone)) as outermost:
            yield
        if outermost and key is not None:
            self.written(key)

    def written(self, key: int) -> None:
        """Called after each transaction of this connection that wrote to a conversation."""

    def snapshot(self) -> AbstractContextManager[Any]:
        """See `Database.snapshot`."""
        return self._transaction(
            lambda db: db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
        )

    def _lock(self, db: psycopg.Connection[Any], key: int | None, alone: bool) -> None:
        db.execute(f"SELECT pg_advisory_xact_lock{'' if alone else '_shared'}($1)", (STORE_LOCK,))
        if key is not None:
            db.execute("UPDATE conversation SET version = version + 1 WHERE pk = $1", (key,))

    @contextmanager
    def _transaction(self, begin: Callable[[psycopg.Connection[Any]], object]) -> Iterator[bool]:
        if self._current is not None:
            yield False
            return
        with self.errors():
            connection = self._begun(begin)
        self._local.connection = connection
        try:
            yield True
            with self.errors():
                connection.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):  # a lost connection has nothing to take back
                connection.execute("ROLLBACK")
            raise
        finally:
            self._local.connection = None
            self._pool.putconn(connection)

    def _begun(self, begin: Callable[[psycopg.Connection[Any]], object]) -> psycopg.Connection[Any]:
        """A connection inside a transaction. Nothing is written yet, so one that turns out to be lost is replaced."""

        def started(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
            connection.execute("BEGIN")
            begin(connection)
            return connection

        return self._retried(started, keep=True)

    @property
    def _current(self) -> psycopg.Connection[Any] | None:
        current: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        return current

    def _retried(self, use: Callable[[psycopg.Connection[Any]], T], keep: bool = False) -> T:
        """Use a connection of the pool, and another one if the server has dropped it.

        Args:
            keep: the caller gives the connection back.
        """
        for last in (False, True):
            connection = self._pool.getconn()
            try:
                result = use(connection)
            except BaseException as exc:
                lost = connection.broken
                if not lost:
                    with suppress(psycopg.Error):
                        connection.rollback()
                self._pool.putconn(connection)
                if lost and isinstance(exc, psycopg.OperationalError) and not last:
                    self._pool.check()  # the others were dropped as well
                    continue
                raise
            if not keep:
                self._pool.putconn(connection)
            return result
        raise AssertionError("unreachable")

    # ---- statements

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> int:
        """See `Database.execute`. Outside of a transaction it is sent once: whether a lost one was done is not known."""
        with self.errors():
            if (current := self._current) is not None:
                return self._run(current, sql, values).rowcount
            with self._pool.connection() as connection:
                return self._run(connection, sql, values).rowcount

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """See `Database.rows`."""
        return self._read(lambda db: self._run(db, sql, values).fetchall())

    def row(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """See `Database.row`."""
        return self._read(lambda db: self._run(db, sql, values).fetchone())

    def _read(self, query: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self.errors():
            current = self._current
            return query(current) if current is not None else self._retried(query)

    def _run(self, db: psycopg.Connection[Any], sql: str, values: tuple[Any, ...]) -> psycopg.Cursor[Any]:
        cursor = db.cursor(binary=True, row_factory=tuple_row)
        return cursor.execute(statement(sql).encode(), [bound(value) for value in values] or None)

    # ---- what SQLite writes differently

    def within(self, column: str, placeholder: str) -> str:
        """See `Database.within`."""
        return f"{column} = ANY({placeholder})"

    def elements(self, column: str) -> str:
        """See `Database.elements`."""
        return f"json_array_elements_text({column}::json)"

    def vector(self, packed: bytes) -> object:
        """See `Database.vector`."""
        return PackedVector(packed)

    def for_reading(self) -> PostgresConnection:
        """Itself: reads wait for nobody here."""
        return self

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Map PostgreSQL's exceptions to `StoreError`, naming the database and the remedy, never a password."""
        try:
            yield
        except (psycopg.Error, PoolTimeout, PoolClosed) as exc:
            raise StoreError(f"{self.path}: {_remedy(exc)}") from exc
        except UnicodeEncodeError as exc:
            raise StoreError(
                f"{self.path}: {exc.object[:80]!r} holds half a character (a lone surrogate), which cannot be stored; remove it"
            ) from exc


NO_PGVECTOR = (
    "the database lacks the extension pgvector; install it on the server and run CREATE EXTENSION vector as its owner"
)
REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (PoolClosed, "the store was closed; open it again"),
    (PoolTimeout, "no connection became free in time; raise the pool's size or lower the load, then try again"),
    (failures.InvalidPassword, "the password is wrong; correct it in the address or in PGPASSWORD"),
    (failures.InvalidCatalogName, "there is no database of this name on the server; create it with createdb"),
    (failures.LockNotAvailable, "another process kept the store locked; try again when it is done"),
    (failures.DeadlockDetected, "two processes waited for each other; try again, nothing of this was stored"),
    (failures.DiskFull, "the server's disk is full; free some space and try again, nothing that was stored is lost"),
    (failures.ForeignKeyViolation, "the conversation was deleted while in use; reopen it"),
    (failures.InsufficientPrivilege, "this user may not do that; grant it the rights, or use the owner's address"),
    (failures.TooManyConnections, "the server has no connection left; lower the pools' sizes or raise max_connections"),
)


def _remedy(exc: Exception) -> str:
    text = " ".join(str(exc).split())
    if "password authentication failed" in text or "no password supplied" in text:
        return "the password is wrong or missing; give it in the address or in PGPASSWORD"
    if 'database "' in text and "does not exist" in text:
        return "there is no database of this name on the server; create it with createdb"
    for kind, remedy in REMEDIES:
        if isinstance(exc, kind):
            return remedy
    if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
        return f"the server cannot be reached ({text[:200]}); check the address and that it runs, then try again"
    return f"the store failed: {text[:300]}"
