"""One caller at a time, in the order of arrival, whether they block a thread or await. Knows nothing of what they do inside.

Callers of one process queue here; with a lock that processes share, so do processes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

from ld_agent.errors import ConversationBusyError
from ld_agent.storage.database import TurnLock


class Turnstile:
    """Lets one caller in; the others queue.

    Args:
        name: what is behind it, for messages.
        waits: a caller queues while another is inside; otherwise it is refused.
        shared: held while a caller is inside, so that no other process is; None: there is no other.
    """

    def __init__(self, name: str, waits: bool, shared: TurnLock | None = None) -> None:
        self._name, self._waits, self._shared = name, waits, shared
        self._lock = threading.Lock()
        self._busy = False
        self._thread: int | None = None  # that the caller inside blocks
        self._loop_thread: int | None = None  # whose event loop the caller inside needs to go on
        self._queue: deque[tuple[Future[None], int | None]] = deque()  # with the thread whose event loop waits

    @contextmanager
    def entered(self, waits: bool | None = None) -> Iterator[None]:
        """Be inside, from a thread.

        Args:
            waits: otherwise than the turnstile does.

        Raises:
            ConversationBusyError: another caller is inside and this one does not wait, or it is itself that caller; or the
                call would block the event loop that the caller inside, or one that waits, needs to go on.
        """
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
        """Be inside, from a coroutine; see `entered`."""
        loop_thread = threading.get_ident()
        if (ticket := self._ticket(self._waits, loop_thread)) is not None:
            try:
                await asyncio.wrap_future(ticket)
            except asyncio.CancelledError:
                if not ticket.cancelled():  # let in and cancelled at one time
                    self._leave()
                raise
        try:
            async with self.aheld():
                yield
        finally:
            self._leave()

    @asynccontextmanager
    async def aheld(self) -> AsyncIterator[None]:
        """Hold the lock that processes share, for what belongs to a turn on either side of it."""
        if self._shared is None:
            yield
            return
        shared, waits = self._shared, self._waits
        if not await _unbroken(shared, lambda: asyncio.to_thread(shared.acquire, False)):
            if not waits:
                raise self._busy_elsewhere()
            own = ThreadPoolExecutor(
                1, "ld-agent-turn"
            )  # the event loop's threads are those that bring turns to an end
            try:
                await _unbroken(shared, lambda: asyncio.get_running_loop().run_in_executor(own, shared.acquire, True))
            finally:
                own.shutdown(wait=False)
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
        """None: the caller is inside; otherwise what it waits for.

        Args:
            loop_thread: whose event loop the caller needs to go on; None: it blocks its own thread.
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
    """Take a lock; if the caller is cancelled meanwhile, it is let go as soon as it is taken."""
    taking = asyncio.ensure_future(acquire())
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(lambda done: shared.release() if not done.exception() and done.result() else None)
        raise
