"""The indexes of many conversations within a bound of memory: the least recently used goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar, cast


class Sized(Protocol):
    """What has a size in bytes."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)
Key = tuple[int, str]
"""A conversation's key in the store, and a name: each stands for one kind of index."""


class IndexCache:
    """Indexes by conversation and view. Safe to use from several threads; never makes one index twice at the same time.

    The index asked for last stays, whatever its size. One that goes is made again from the store when next needed. Nobody
    waits here for the store: an index is made while no lock is held, and only those who want the same one wait for it.

    Args:
        most_bytes: bound of all indexes together; None: no bound.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = most_bytes
        self._indexes: OrderedDict[Key, Sized] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._last: Key = (0, "")
        self._making: dict[Key, threading.Event] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def nbytes(self) -> int:
        """Bytes of all indexes; what the one in use has grown by counts from the next request on."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, conversation: int, view: str, make: Callable[[], T]) -> T:
        """Return the index of a conversation and view, made now if there is none; not to be called in a transaction.

        One that is dropped while it is made is handed out to its maker, and not kept.
        """
        key = conversation, view
        while True:
            with self._lock:
                if key in self._indexes:
                    return cast(T, self._used(key))
                made = self._making.get(key)
                if made is None:
                    made = self._making[key] = threading.Event()
                    break
            made.wait()
        try:
            index = make()
            with self._lock:
                if self._making.get(key) is made:
                    self._indexes[key] = index
                    self._used(key)
            return index
        finally:
            with self._lock:
                if self._making.get(key) is made:
                    del self._making[key]
            made.set()

    def _used(self, key: Key) -> Sized:
        self._indexes.move_to_end(key)
        for recent in (self._last, key):  # the last one may have grown since
            if recent in self._indexes:
                self._sizes[recent] = self._indexes[recent].nbytes
        self._last = key
        self._evict()
        return self._indexes[key]

    def drop(self, conversation: int) -> None:
        """Forget the indexes of a conversation, whose records were changed or deleted."""
        with self._lock:
            for key in [key for key in self._indexes if key[0] == conversation]:
                del self._indexes[key], self._sizes[key]
            for key in [key for key in self._making if key[0] == conversation]:
                del self._making[key]

    def _evict(self) -> None:
        while self._most is not None and len(self._indexes) > 1 and sum(self._sizes.values()) > self._most:
            oldest, _ = self._indexes.popitem(last=False)
            del self._sizes[oldest]
