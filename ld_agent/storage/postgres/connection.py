"""Opens a PostgreSQL database: pool, migrations, transactions, and the mapping of its errors to one line. Knows no table but
`conversation`, whose row is the lock on everything that belongs to it, and `meta`.
"""

from __future__ import annotations

import copy
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from ld_agent.errors import StoreError
from ld_agent.storage.address import shown
from ld_agent.storage.database import EVERYONE, NO_TENANT, not_storable
from ld_agent.storage.postgres.errors import failure
from ld_agent.storage.postgres.migrations import MIGRATIONS
from ld_agent.storage.postgres.schema import SCHEMA, STORE_LOCK, confined_role, prepare, version_of
from ld_agent.storage.postgres.turns import TurnLocks
from ld_agent.storage.postgres.values import TextLoader, bound, statement

WAIT_SECONDS = 30.0
CONNECTIONS = 10
PROBE_SECONDS = 1.0
"""How long to wait for a pooled connection before checking whether the server accepts connections at all."""
DEFAULTS = {
    "connect_timeout": 10,
    "application_name": "ld_agent",
    # notice a server that vanished from the network within a minute, not after the system's two hours
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Connection parameters that the address does not set."""
NOBODY = ""
"""A statement that acts for nobody sees no tenant's rows."""
KNOWN_TENANTS = 100_000
"""Number of conversations whose tenant is cached; keys are never reused."""
NEXT_VERSION = "UPDATE conversation SET version = version + 1 WHERE pk = ?"
T = TypeVar("T")


class PostgresConnection:
    """A pool of connections to one database, acting for a tenant; see `ld_agent.storage.database.Database`.

    Args:
        address: a ``postgresql://`` address.
        wait_seconds: how long to wait for a free connection, or for another process's write.
        connections: maximum number of simultaneous connections.
        create: create missing tables.

    Raises:
        StoreError: no server, no access, no store, or one from a newer version.
    """

    integrity_error: type[Exception] = psycopg.IntegrityError

    def __init__(
        self, address: str, wait_seconds: float = WAIT_SECONDS, connections: int = CONNECTIONS, create: bool = True
    ) -> None:
        self.path = shown(address)
        self._wait_seconds = wait_seconds
        self._local = threading.local()
        self.turns = TurnLocks(lambda: psycopg.connect(self._address, autocommit=True))
        self.written: Counter[int] = Counter()
        """How many transactions of this store wrote to each conversation."""
        self._tenant: str | None = None
        self._tenants: dict[int, str] = {}
        self._acting: weakref.WeakKeyDictionary[psycopg.Connection[Any], str] = weakref.WeakKeyDictionary()
        self._address = _completed(address)
        with self.errors():
            with psycopg.connect(self._address, autocommit=True) as db:
                self._set_lock_timeout(db)
                db.execute("SELECT set_config('ld_agent.tenant', %s, false)", (EVERYONE,))
                prepare(db, self.path, create)
                self._role = confined_role(db)
            self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
                self._address,
                min_size=0,
                max_size=connections,
                timeout=wait_seconds,
                num_workers=1,
                open=True,
                configure=self._configure,
                kwargs={"autocommit": True},
                reconnect_timeout=PROBE_SECONDS,
            )

    # ---- opening

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.cursor_factory = psycopg.RawCursor
        connection.execute(f"SET search_path = {SCHEMA}".encode())
        self._set_lock_timeout(connection)
        for name in ("text", "varchar"):
            connection.adapters.register_loader(name, TextLoader)
        if self._role:
            connection.execute(f"SET ROLE {self._role}".encode())

    def _set_lock_timeout(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"SET lock_timeout = {int(self._wait_seconds * 1000)}".encode())

    # ---- transactions

    @contextmanager
    def transaction(self, key: int | None = None, *, alone: bool = False) -> Iterator[None]:
        """See `Database.transaction`. The conversation's row is locked until the end, and its version grows by one."""
        tenant = self._tenant
        if tenant is None and self._current is None:
            tenant = NOBODY if key is None else self._tenant_of(key)
        with self._transaction(lambda db: self._begin_writing(db, key, alone, tenant or NOBODY)):
            if key is not None and key not in self._local.keys:  # inside another transaction, of no conversation so far
                self.of(key).execute(NEXT_VERSION, (key,))
                self._local.keys.add(key)
            yield

    def snapshot(self) -> AbstractContextManager[Any]:
        def begin(db: psycopg.Connection[Any]) -> None:
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._local.tenant = None

        return self._transaction(begin)

    def _begin_writing(self, db: psycopg.Connection[Any], key: int | None, alone: bool, tenant: str) -> None:
        lock = f"pg_advisory_xact_lock{'' if alone else '_shared'}($1)"
        row = db.execute(
            f"SELECT pg_current_xact_id()::text, set_config('ld_agent.tenant', $2, true) FROM (SELECT {lock}) AS locked",
            (STORE_LOCK, bound(tenant)),
        ).fetchone()
        self._local.transaction_id, self._local.tenant = row and row[0], tenant
        if key is not None:
            db.execute(statement(NEXT_VERSION), (key,))
            self._local.keys = {key}

    @contextmanager
    def _transaction(self, begin: Callable[[psycopg.Connection[Any]], object]) -> Iterator[None]:
        if self._current is not None:
            yield
            return

        def begun(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
            connection.execute("BEGIN")
            begin(connection)
            return connection

        self._local.keys, self._local.transaction_id = set(), None
        with self.errors():  # nothing is written yet, so a connection that turns out to be lost is replaced
            connection = self._retried(begun, keep=True)
        self._local.connection = connection
        try:
            yield
            with self.errors():
                self._commit(connection)
        except BaseException:
            with suppress(psycopg.Error):  # a lost connection has nothing to roll back
                connection.execute("ROLLBACK")
            raise
        finally:
            self._local.connection = None
            self._pool.putconn(connection)
        self.written.update(self._local.keys)

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        """Commit. If the connection is lost before the server's answer arrives, ask the server for the outcome."""
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError:
            if not connection.broken or not self._was_committed(self._local.transaction_id):
                raise

    def _was_committed(self, transaction_id: str | None) -> bool:
        deadline = time.monotonic() + self._wait_seconds
        while transaction_id is not None:
            row = self._retried(lambda db: db.execute("SELECT pg_xact_status($1::xid8)", (transaction_id,)).fetchone())
            if row is None or row[0] != "in progress" or time.monotonic() > deadline:
                return row is not None and row[0] == "committed"
            time.sleep(0.02)
        return False

    @property
    def _current(self) -> psycopg.Connection[Any] | None:
        current: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        return current

    def _borrowed(self) -> psycopg.Connection[Any]:
        """A pooled connection, which the caller returns.

        Raises:
            psycopg.OperationalError: the server refuses connections.
            PoolTimeout: all are in use.
        """
        failed = self._failed_connects()
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                return self._pool.getconn(min(PROBE_SECONDS, self._wait_seconds))
            except PoolTimeout:
                if self._failed_connects() > failed:  # the pool does not report the reason
                    psycopg.connect(self._address).close()
                if time.monotonic() >= deadline:
                    raise

    def _failed_connects(self) -> int:
        return self._pool.get_stats().get("connections_errors", 0)

    def _retried(self, use: Callable[[psycopg.Connection[Any]], T], keep: bool = False) -> T:
        """Use a pooled connection, or another one if the server has dropped it.

        Args:
            keep: the caller returns the connection.
        """
        for last in (False, True):
            connection = self._borrowed()
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
        """See `Database.execute`. Outside a transaction, a statement is its own transaction."""
        if self._current is None:
            with self.transaction():
                return self.execute(sql, values)
        with self.errors():
            return self._run(self._current, sql, values).rowcount

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._read(lambda db: self._run(db, sql, values).fetchall())

    def row(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        return self._read(lambda db: self._run(db, sql, values).fetchone())

    def _read(self, query: Callable[[psycopg.Connection[Any]], T]) -> T:
        with self.errors():
            current = self._current
            return query(current) if current is not None else self._retried(query)

    def _run(self, db: psycopg.Connection[Any], sql: str, values: tuple[Any, ...]) -> psycopg.Cursor[Any]:
        self._set_tenant(db)
        cursor = db.cursor(binary=True, row_factory=tuple_row)
        return cursor.execute(statement(sql).encode(), [bound(value) for value in values] or None)

    def version(self, key: int) -> Hashable:
        """Changes when another store object has written to the conversation, or the encoder was changed; None: it was deleted."""
        query = "SELECT version, (SELECT value FROM meta WHERE key = 'encoder') FROM conversation WHERE pk = ?"
        row: tuple[int, str] | None = self.of(key).row(query, (key,))
        return row and (row[0] - self.written[key], row[1])

    # ---- tenants

    def of(self, key: int) -> PostgresConnection:
        return self.acting_for(self._tenant_of(key))

    def acting_for(self, tenant: str) -> PostgresConnection:
        same = copy.copy(self)  # shares pool and transactions
        same._tenant = tenant
        return same

    def _tenant_of(self, key: int) -> str:
        if (known := self._tenants.get(key)) is not None:
            return known
        row = self.acting_for(EVERYONE).row("SELECT tenant FROM conversation WHERE pk = ?", (key,))
        if row is None:
            return NO_TENANT  # deleted: nothing can be read or added
        if len(self._tenants) >= KNOWN_TENANTS:
            self._tenants.clear()
        self._tenants[key] = row[0]
        return str(row[0])

    def _set_tenant(self, db: psycopg.Connection[Any]) -> None:
        """Set the tenant for the next statements: until the end of the transaction or, outside one, until set again."""
        tenant = self._tenant
        if db is self._current:
            if tenant is not None and tenant != self._local.tenant:
                db.execute("SELECT set_config('ld_agent.tenant', $1, true)", (bound(tenant),))
                self._local.tenant = tenant
        elif self._acting.get(db) != (tenant or NOBODY):
            db.execute("SELECT set_config('ld_agent.tenant', $1, false)", (bound(tenant or NOBODY),))
            self._acting[db] = tenant or NOBODY

    # ---- what SQLite writes differently

    def within(self, column: str, placeholder: str) -> str:
        return f"{column} = ANY({placeholder})"

    def elements(self, column: str) -> str:
        return f"json_array_elements_text({column}::json)"

    def for_reading(self) -> PostgresConnection:
        """Returns itself: reads never wait here."""
        return self

    def close(self) -> None:
        self.turns.close()
        self._pool.close()

    def errors(self) -> AbstractContextManager[None]:
        """Map PostgreSQL's exceptions to `StoreError`, naming the database and the remedy, never a password."""
        return _errors(self.path)


def schema_version(address: str) -> tuple[int, int] | None:
    """The version of a store's schema and the newest one, without changing the database; None: it has no store.

    Raises:
        StoreError: as `PostgresConnection`.
    """
    with _errors(shown(address)), psycopg.connect(_completed(address), autocommit=True) as db:
        version = version_of(db, shown(address))
    return None if version is None else (version, len(MIGRATIONS))


def _completed(address: str) -> str:
    try:
        given = conninfo_to_dict(address)
        [int(port) for port in str(given.get("port") or 0).split(",")]
        settings: dict[str, Any] = DEFAULTS | given
        return make_conninfo(**settings)
    except (psycopg.ProgrammingError, ValueError):  # its message may contain a part of the password
        raise StoreError(
            f"{shown(address)}: the address cannot be read; percent-encode special characters in its user and password "
            "(%2F for /, %3A for :, %40 for @)"
        ) from None


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, PoolTimeout, PoolClosed) as exc:
        raise failure(path, exc) from exc
    except UnicodeEncodeError as exc:
        raise not_storable(path, exc) from exc
