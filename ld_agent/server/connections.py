"""Closes connections of clients that send nothing, send a request's head one byte at a time, or do not read their answer.

uvicorn waits for them forever. The limit for bodies is in `ld_agent.server.limits`.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def patient(seconds: float) -> type[asyncio.Protocol]:
    """The protocol with so many seconds of patience; uvicorn takes a class."""
    return type("PatientProtocol", (PatientProtocol,), {"patience": seconds})


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for a request's head, and for a client to read on.

    Attributes:
        patience: seconds.
    """

    patience: float
    _waiting: asyncio.TimerHandle | None = None
    _full: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._read_on()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_on()
        self._expect_less_than(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._read_on()
        super().resume_writing()

    def _expect_less_than(self, unsent: int) -> None:
        """Cut the client off unless some of the unsent bytes are gone in time."""

        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left < unsent:
                self._expect_less_than(left)
            else:
                self.transport.abort()

        self._full = self.loop.call_later(self.patience, look)

    def _read_on(self) -> None:
        if self._full is not None:
            self._full.cancel()
            self._full = None

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._is_answering() and not self.transport.is_closing():
            self.transport.close()
