"""Lets one process at a time into a conversation: advisory locks, which the server drops when their process ends.

One connection holds all locks of a process. If another process holds a lock, a separate connection queues for it, so
that processes get their turns in order of arrival.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

PREFIX = 0x4C44_4147 << 32
"""The class of the conversations' locks, which are numbered by their keys."""
PATIENCE_SECONDS = 300
"""How long to wait for another process's turn."""
Connect = Callable[[], "psycopg.Connection[Any]"]


class TurnLocks:
    """The locks held by one process, counting how often each was taken.

    Args:
        connect: opens a separate connection.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._held: dict[int, tuple[int, psycopg.Connection[Any] | None]] = {}
        self._asking: set[int] = set()
        self._shared: psycopg.Connection[Any] | None = None
        self._shared_lock = threading.Lock()

    def acquire(self, key: int, waits: bool) -> bool:
        """See `TurnLock.acquire`; raises psycopg.Error."""
        with self._changed:
            self._changed.wait_for(lambda: key not in self._asking)
            if key in self._held:
                count, holder = self._held[key]
                self._held[key] = count + 1, holder
                return True
            self._asking.add(key)
        holder, got = None, False
        try:
            got = self._tried(key)
            if not got and waits:
                holder, got = self._queued(key), True
            return got
        finally:
            with self._changed:
                self._asking.discard(key)
                if got:
                    self._held[key] = 1, holder
                self._changed.notify_all()

    def release(self, key: int) -> None:
        """Release it once; a lock whose connection was lost is already gone."""
        with self._changed:
            count, holder = self._held.pop(key)
            if count > 1:
                self._held[key] = count - 1, holder
                return
        with suppress(psycopg.Error), self._shared_lock:
            if holder is not None:
                holder.close()
            elif self._shared is not None and not self._shared.closed:
                self._shared.execute("SELECT pg_advisory_unlock(%s)", (PREFIX + key,))

    def close(self) -> None:
        """Release every lock, including those still queued for."""
        with self._changed:
            holders = [holder for _, holder in self._held.values() if holder is not None]
        with self._shared_lock:
            for connection in (*holders, self._shared):
                if connection is not None:
                    connection.close()

    def _queued(self, key: int) -> psycopg.Connection[Any]:
        connection = self._connect()
        try:
            connection.execute(f"SET lock_timeout = {PATIENCE_SECONDS * 1000}".encode())
            connection.execute("SELECT pg_advisory_lock(%s)", (PREFIX + key,))
            return connection
        except BaseException:
            connection.close()
            raise

    def _tried(self, key: int, again: bool = True) -> bool:
        """Try to take the lock; a lost connection is replaced once."""
        with self._shared_lock:
            if self._shared is None or self._shared.closed:
                self._shared = self._connect()
            try:
                row = self._shared.execute("SELECT pg_try_advisory_lock(%s)", (PREFIX + key,)).fetchone()
                return row is not None and bool(row[0])
            except psycopg.OperationalError:
                if not self._shared.broken or not again:
                    raise
        return self._tried(key, again=False)


@dataclass(frozen=True, slots=True)
class ConversationLock:
    """The lock of one conversation; see `ld_agent.storage.database.TurnLock`."""

    locks: TurnLocks
    key: int
    errors: Callable[[], Any]

    def acquire(self, waits: bool) -> bool:
        with self.errors():
            return self.locks.acquire(self.key, waits)

    def release(self) -> None:
        self.locks.release(self.key)
