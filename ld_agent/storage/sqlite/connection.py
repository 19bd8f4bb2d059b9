"""Opens the SQLite file: pragmas, migrations, and the mapping of its errors to one line. Knows no table but `conversation`."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from ld_agent.errors import StoreError
from ld_agent.storage.database import newer_schema, not_storable
from ld_agent.storage.sqlite.migrations import MIGRATIONS

APPLICATION_ID = 0x4C44_4147  # "LDAG" in the file's header tells a store from any other database
BUSY_SECONDS = 30.0
RETRY_SECONDS = 0.02
DAMAGED = "the store is damaged; restore it from a copy, or save what can be read with `sqlite3 FILE .recover`"
SAFE = "free some space and try again, nothing that was stored is lost"
REMEDIES: tuple[tuple[str | tuple[str, ...], str], ...] = (
    ("SQLITE_NOTADB", "this file is not an ld_agent store; give another --store"),
    ("SQLITE_FULL", f"the disk is full; {SAFE}"),
    ("SQLITE_READONLY", "the store is read-only; make the file and its folder writable"),
    ("SQLITE_CANTOPEN", "the store cannot be opened; check that its folder exists and is writable"),
    (("SQLITE_BUSY", "SQLITE_LOCKED"), "another process kept the store locked; try again when it is done"),
    ("SQLITE_CORRUPT", DAMAGED),
    ("SQLITE_CONSTRAINT_FOREIGNKEY", "the conversation was deleted while in use; reopen it"),
    ("SQLITE_IOERR", f"the disk is full, over its quota or failing ({{}}); {SAFE}"),
)
"""By the beginning of an error's name; {} is what SQLite says."""


class Connection:
    """One SQLite connection that several threads may share; see `ld_agent.storage.database.Database`.

    Args:
        path: the store's file, created if missing. ":memory:" stores nothing.
        busy_seconds: how long to wait for another process's write.

    Raises:
        StoreError: no store, a store from a newer version, or a file that cannot be opened.
    """

    integrity_error: type[Exception] = sqlite3.IntegrityError

    def __init__(self, path: str | Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = str(path)
        self._busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._depth = 0
        with self.errors():
            self._db = self._connect(self.path)
            if self._unwritable():
                self._db.close()
                self._db = self._connect(f"{Path(self.path).absolute().as_uri()}?immutable=1", uri=True)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _connect(self, name: str, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(name, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, uri=uri)

    def _unwritable(self) -> bool:
        """Whether an existing store can only be read as an immutable file, because SQLite cannot write its log.

        Raises:
            StoreError: its log contains data that the file lacks.
        """
        try:
            self._db.execute("SELECT count(*) FROM sqlite_master")
            return False
        except sqlite3.OperationalError as exc:
            file, log = Path(self.path), Path(f"{self.path}-wal")
            if not exc.sqlite_errorname.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")) or not file.is_file():
                raise
            if log.is_file() and log.stat().st_size:
                raise StoreError(
                    f"{self.path} is in a read-only folder and its log {log.name} has yet to be merged into it; "
                    "copy both files to a writable folder"
                ) from exc
            return True

    def _prepare(self) -> None:
        with self.errors():
            # in this order, because another process may be creating the store concurrently
            version = _version(self._db, self.path)
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten, not just unlinked
            self._db.execute("PRAGMA synchronous = FULL")
            if version < len(MIGRATIONS):
                self._write_ahead()
                self._migrate()

    def _write_ahead(self) -> None:
        """Switch the file to a write-ahead log; SQLite's busy timeout does not cover this statement."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as exc:
                if not exc.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _migrate(self) -> None:
        with self.transaction():
            for number in range(self._pragma("user_version") + 1, len(MIGRATIONS) + 1):
                for statement in MIGRATIONS[number - 1].split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {number}")
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    def version(self, key: int) -> Hashable:
        """Changes when another connection has written, to whatever conversation; None: this one was deleted."""
        with self._lock, self.errors():
            stored = self._db.execute("SELECT 1 FROM conversation WHERE pk = ?", (key,)).fetchone()
            return self._pragma("data_version") if stored else None

    @contextmanager
    def transaction(
        self, key: int | None = None, *, alone: bool = False, begin: str = "BEGIN IMMEDIATE"
    ) -> Iterator[None]:
        """See `Database.transaction`. Nobody else writes to the file in between."""
        with self._lock:
            if self._depth:
                yield
                return
            self._depth = 1
            try:
                with self.errors():
                    self._db.execute(begin)
                yield
                with self.errors():
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def snapshot(self) -> AbstractContextManager[None]:
        return self.transaction(begin="BEGIN")

    def execute(self, sql: str, values: tuple[Any, ...] = ()) -> int:
        with self._lock, self.errors():
            return self._db.execute(sql, _bound(values)).rowcount

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._lock, self.errors():
            return self._db.execute(sql, _bound(values)).fetchall()

    def row(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        with self._lock, self.errors():
            return self._db.execute(sql, _bound(values)).fetchone()

    def within(self, column: str, placeholder: str) -> str:
        return f"{column} IN (SELECT value FROM json_each({placeholder}))"

    def elements(self, column: str) -> str:
        return f"json_each({column})"

    def of(self, key: int) -> Connection:
        """Itself: a file has one owner."""
        return self

    def acting_for(self, tenant: str) -> Connection:
        """Itself: a file has one owner."""
        return self

    def for_reading(self) -> Connection:
        """Another connection to the file, for reading while this one writes."""
        return self if self.path == ":memory:" else Connection(self.path, self._busy_seconds)

    def scrub(self) -> None:
        """Rewrite the file and its write-ahead log without deleted data.

        Raises:
            StoreError: another process holds the store open and the log cannot be emptied.
        """
        with self._lock, self.errors():
            self._db.execute("VACUUM")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreError(
                "the rows are deleted, but another process is reading the store, so old text may remain in its log; close "
                "that process, and the next opening of the store erases it",
                self.path,
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def errors(self) -> AbstractContextManager[None]:
        """Map SQLite's exceptions to `StoreError`, with file and remedy."""
        return _errors(self.path)


def version_of(path: Path) -> tuple[int, int]:
    """The version of an existing store's schema and the newest one, without changing the file.

    Raises:
        StoreError: as `Connection`.
    """
    with _errors(str(path)), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return _version(db, str(path)), len(MIGRATIONS)


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise StoreError(_remedy(exc), path) from exc
    except UnicodeEncodeError as exc:
        raise not_storable(path, exc) from exc
    except UnicodeDecodeError as exc:  # of a text, or of what SQLite says about a broken schema
        raise StoreError(DAMAGED, path) from exc


def _version(db: sqlite3.Connection, path: str) -> int:
    tables, version, application = (
        int(db.execute(query).fetchone()[0])
        for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id")
    )
    if version > len(MIGRATIONS) and application == APPLICATION_ID:
        raise newer_schema(path, version, len(MIGRATIONS))
    if (tables or version or application) and application != APPLICATION_ID:
        raise StoreError(f"{path} is a database, but not an ld_agent store; give another --store")
    return version


def _bound(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values with lists as JSON text, which `within` expands."""
    return tuple(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value for value in values)


def _remedy(exc: sqlite3.Error) -> str:
    text = str(exc)
    if "closed database" in text:
        return "the store was closed; open it again"
    name = getattr(exc, "sqlite_errorname", "")
    known = (remedy for begins, remedy in REMEDIES if name.startswith(begins))
    return next(known, "the store failed: {}").format(text)
