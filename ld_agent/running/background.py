"""Runs background work in one thread, in order. Knows nothing about what the work is."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress

from ld_agent.errors import LDAgentError


class Background:
    """One daemon thread that runs queued work. Work that fails stays pending in the store, where the next turn finds it.

    A program that ends without closing it waits for the piece of work at hand: killed inside a model, the process would abort.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: dict[str, Callable[[], None]] = {}
        self._closed = False
        self._busy = False
        self._thread: threading.Thread | None = None

    def put(self, name: str, work: Callable[[], None]) -> None:
        """Queue a piece of work; it replaces a queued piece of the same name that has not started."""
        with self._changed:
            if self._closed:
                return
            self._work[name] = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ld-agent-background", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._changed.notify_all()

    def wait(self) -> None:
        """Block until the queue is empty."""
        with self._changed:
            while self._work or self._busy:
                self._changed.wait()

    def close(self) -> None:
        """Finish the current piece of work and drop the rest."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
            thread = self._thread
        atexit.unregister(self.close)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._work and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                work = self._work.pop(next(iter(self._work)))
                self._busy = True
            with suppress(LDAgentError):  # counted where it failed, and still pending
                work()
