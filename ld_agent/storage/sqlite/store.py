"""The store in one SQLite file. `ld_agent.storage.store` has the statements."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ld_agent.errors import StoreError
from ld_agent.storage.sqlite.connection import BUSY_SECONDS, Connection
from ld_agent.storage.store import Store


class SQLiteStore(Store):
    """See `ld_agent.storage.store.Store`.

    Args:
        path: of the SQLite file; created if missing. ":memory:" keeps nothing.
        busy_seconds: how long to wait for another process's write.

    Raises:
        StoreError: see `Connection`.
    """

    db: Connection

    def __init__(self, path: str | Path, busy_seconds: float = BUSY_SECONDS) -> None:
        super().__init__(Connection(path, busy_seconds))
        if self.db.row("SELECT 1 FROM meta WHERE key = 'erase'"):
            with suppress(StoreError):  # still read by another process, or read-only: the next opening tries again
                self._erase()

    def delete_conversation(self, key: int) -> None:
        """Remove every trace of a conversation and rewrite the file so that no byte of it is left.

        If interrupted between the two, the next opening of the store rewrites the file.

        Raises:
            StoreError: see `Connection.scrub`.
        """
        with self.db.transaction():
            self.db.execute("DELETE FROM conversation WHERE pk = ?", (key,))
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('erase', '')")
        self._erase()

    def _erase(self) -> None:
        self.db.scrub()
        self.db.execute("DELETE FROM meta WHERE key = 'erase'")
