"""Admits one caller at a time, in order of arrival, whether it blocks a thread or awaits. Knows nothing about what
callers do.

Callers of one process queue here, and with a shared lock, so do processes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from ld_agent.errors import ConversationBusyError
from ld_agent.storage.database import TurnLock

T = TypeVar("T")


class Turnstile:
    """Lets one caller in; the others queue.

    Args:
        name: what it guards, for messages.
        waits: whether a caller queues while another is inside, or is refused.
        shared: lock held while a caller is inside, to keep other processes out; None: there is no other process.
    """

    def __init__(self, name: str, waits: bool, shared: TurnLock | None = None) -> None:
        self._name, self._waits, self._shared = name, waits, shared
        self._lock = threading.Lock()
        self._busy = False
        self._thread: int | None = None  # that the caller inside blocks
        self._lent_to: int | None = None  # the thread that works for the caller inside
        self._loop_thread: int | None = None  # whose event loop the caller inside needs to go on
        self._queue: deque[tuple[Future[None], int | None]] = deque()  # with the thread whose event loop waits

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to be let in."""
        return bool(self._queue)

    @contextmanager
    def entered(self, waits: bool | None = None) -> Iterator[None]:
        """Enter from a thread.

        Args:
            waits: overrides the turnstile's setting.

        Raises:
            ConversationBusyError: another caller is inside and this one does not wait, or it is itself that caller; or the
                call would block the event loop that the caller inside, or one that waits, needs to go on.
        """
        if self._lent_to == threading.get_ident():
            yield
            return
        waits = self._waits if waits is None else waits
        self._enter(waits)
        try:
            if self._shared is None:
                yield
                return
            if not self._shared.acquire(waits):
                raise self._busy_elsewhere()
            try:
                yield
            finally:
                self._shared.release()
        finally:
            self._leave()

    @asynccontextmanager
    async def aentered(self) -> AsyncIterator[None]:
        """Enter from a coroutine; see `entered`."""
        loop_thread = threading.get_ident()
        if (ticket := self._ticket(self._waits, loop_thread)) is not None:
            try:
                await asyncio.wrap_future(ticket)
            except asyncio.CancelledError:
                if not ticket.cancelled():  # admitted and cancelled at the same time
                    self._leave()
                raise
        try:
            async with self.aheld():
                yield
        finally:
            self._leave()

    async def alent(self, work: Callable[[], T], in_thread: Callable[[Callable[[], T]], Awaitable[T]]) -> T:
        """Enter from a coroutine for a function that enters by itself; its thread is taken only once it is let in.

        Args:
            in_thread: runs a function in a thread.

        Raises:
            ConversationBusyError: as `entered`.
        """

        def lent() -> T:
            self._lent_to = threading.get_ident()
            try:
                return work()
            finally:
                self._lent_to = None

        async with self.aentered():
            working = asyncio.ensure_future(in_thread(lent))
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                await asyncio.wait([working])  # a thread cannot be cancelled, and nobody else may enter before it ends
                raise

    @asynccontextmanager
    async def aheld(self) -> AsyncIterator[None]:
        """Hold the shared lock, for work that belongs to a turn but runs before or after it."""
        if self._shared is None:
            yield
            return
        shared, waits = self._shared, self._waits
        if not await _unbroken(shared, lambda: asyncio.to_thread(shared.acquire, False)):
            if not waits:
                raise self._busy_elsewhere()
            executor = ThreadPoolExecutor(1, "ld-agent-turn")  # the event loop's threads are needed to finish turns
            try:
                await _unbroken(
                    shared, lambda: asyncio.get_running_loop().run_in_executor(executor, shared.acquire, True)
                )
            finally:
                executor.shutdown(wait=False)
        try:
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(shared.release))

    def _busy_elsewhere(self) -> ConversationBusyError:
        return ConversationBusyError(f"{self._name} is in use by another process; try again when its turn has ended")

    def _enter(self, waits: bool) -> None:
        caller = threading.get_ident()
        with self._lock:
            if self._busy and self._thread == caller:
                waits = False  # it would wait for itself
            if self._busy and caller in (self._loop_thread, *(loop_thread for _, loop_thread in self._queue)):
                raise ConversationBusyError(
                    f"{self._name} is in use by a coroutine of this event loop, which a synchronous call would block for "
                    "ever; await the asynchronous call, or make this one in a thread (asyncio.to_thread)"
                )
        if (ticket := self._ticket(waits)) is not None:
            try:
                ticket.result()
            except BaseException:
                if not ticket.cancel():
                    self._leave()
                raise
        self._thread = caller

    def _ticket(self, waits: bool, loop_thread: int | None = None) -> Future[None] | None:
        """Return None if the caller was admitted, else what it waits for.

        Args:
            loop_thread: the thread whose event loop the caller needs; None: it blocks its own thread.
        """
        with self._lock:
            if not self._busy:
                self._busy, self._loop_thread = True, loop_thread
                return None
            if not waits:
                raise ConversationBusyError(
                    f"{self._name} is in use by another caller; wait for its turn to end, or use another conversation"
                )
            ticket: Future[None] = Future()
            self._queue.append((ticket, loop_thread))
            return ticket

    def _leave(self) -> None:
        with self._lock:
            self._thread = self._loop_thread = None
            while self._queue:
                ticket, loop_thread = self._queue.popleft()
                if ticket.set_running_or_notify_cancel():
                    self._loop_thread = loop_thread
                    ticket.set_result(None)
                    return
            self._busy = False


async def _unbroken(shared: TurnLock, acquire: Callable[[], Awaitable[bool]]) -> bool:
    """Take a lock; if the caller is cancelled while waiting, release the lock as soon as it is taken."""
    taking = asyncio.ensure_future(acquire())
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(lambda done: shared.release() if not done.exception() and done.result() else None)
        raise
