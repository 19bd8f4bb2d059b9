"""A cache of the indexes of many conversations, bounded in memory; drops the least recently used first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar, cast


class Sized(Protocol):
    """Anything with a size in bytes."""

    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)
Key = tuple[int, str]
"""A conversation's key in the store, and the name of the kind of index."""


class IndexCache:
    """Indexes by conversation and view. Thread-safe; never builds the same index twice concurrently.

    The most recently requested index is kept, whatever its size. A dropped one is rebuilt from the store when next
    needed. An index is built while no lock is held; only callers that want the same one wait for it.

    Args:
        most_bytes: maximum size of all indexes together; None: unbounded.
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
        """Bytes of all indexes; growth of the one in use counts from the next request on."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, conversation: int, view: str, make: Callable[[], T]) -> T:
        """Return the index of a conversation and view, building it if necessary.

        Do not call this in a transaction. An index dropped while it is being built is returned to its builder, but not
        kept.
        """
        key = conversation, view
        while True:
            with self._lock:
                if key in self._indexes:
                    return cast(T, self._used(key))
                building = self._making.get(key)
                if building is None:
                    building = self._making[key] = threading.Event()
                    break
            building.wait()
        try:
            index = make()
            with self._lock:
                if self._making.get(key) is building:
                    self._indexes[key] = index
                    self._used(key)
            return index
        finally:
            with self._lock:
                if self._making.get(key) is building:
                    del self._making[key]
            building.set()

    def _used(self, key: Key) -> Sized:
        self._indexes.move_to_end(key)
        for recent in {self._last, key}:  # the last one may have grown
            if recent in self._indexes:
                self._sizes[recent] = self._indexes[recent].nbytes
        self._last = key
        self._evict()
        return self._indexes[key]

    def drop(self, conversation: int) -> None:
        """Drop the indexes of a conversation whose records were changed or deleted."""
        with self._lock:
            for key in [key for key in self._indexes if key[0] == conversation]:
                del self._indexes[key], self._sizes[key]
            for key in [key for key in self._making if key[0] == conversation]:
                del self._making[key]

    def _evict(self) -> None:
        while self._most is not None and len(self._indexes) > 1 and sum(self._sizes.values()) > self._most:
            oldest, _ = self._indexes.popitem(last=False)
            del self._sizes[oldest]
