"""Closes connections that are too many, and those of clients that send nothing, send a request's head one byte at a time, or do
not read their answer.

uvicorn takes any number and waits for them forever. The limit for bodies is in `ld_agent.server.limits`.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS = 800
"""At once; more are closed. Most systems give a process 1024 files."""


def patient(seconds: float) -> type[asyncio.Protocol]:
    """The protocol with so many seconds of patience; uvicorn takes a class."""
    return type("PatientProtocol", (PatientProtocol,), {"patience": seconds})


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which looks after its client every so often.

    Attributes:
        patience: seconds between two looks. A client that got no further in between is cut off.
    """

    patience: float
    _reads = 0
    _next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.abort()
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._next.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._reads += 1
        super().resume_writing()

    def _look_later(self) -> None:
        unsent = self.transport.get_write_buffer_size() if self.flow.write_paused else 0
        answered = self.cycle if self._is_waiting() else self
        self._next = self.loop.call_later(self.patience, self._look, answered, self._reads, unsent)

    def _look(self, answered: object, reads: int, unsent: int) -> None:
        """Close the connection if since the last look no request has come, or none of the unsent bytes was read."""
        if unsent and reads == self._reads and self.transport.get_write_buffer_size() >= unsent:
            self.transport.abort()
        elif self._is_waiting() and answered is self.cycle and not unsent:
            self.transport.close()
        else:
            self._look_later()

    def _is_waiting(self) -> bool:
        """Whether a request is to come."""
        return self.cycle is None or self.cycle.response_complete
