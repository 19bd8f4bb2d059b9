"""Deletions that can be undone for a minute; they are executed afterwards, or when the server stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ld_agent.server.errors import ApiError

log = logging.getLogger("ld_agent.server")
SECONDS = 60.0
Target = tuple[str, str]
"""A conversation's id, and the id of a record, trait or utterance in it; "" for all of it."""


class Undoable:
    """The scheduled deletions."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._waiting: dict[Target, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def __contains__(self, target: Target) -> bool:
        return target in self._waiting

    def schedule(self, target: Target, delete: Callable[[], Awaitable[None]]) -> None:
        """Schedule a deletion in a minute."""
        if target not in self._waiting:
            now = asyncio.Event()
            self._waiting[target] = (asyncio.create_task(self._later(target, delete, now)), now)

    def undo(self, target: Target) -> bool:
        """Cancel a deletion; False: it is too late."""
        task, _ = self._waiting.pop(target, (None, None))
        return task is not None and task.cancel()

    async def close(self) -> None:
        """Execute all scheduled deletions now."""
        waiting = list(self._waiting.values())
        for _, now in waiting:
            now.set()
        await asyncio.gather(*(task for task, _ in waiting), return_exceptions=True)

    async def _later(self, target: Target, delete: Callable[[], Awaitable[None]], now: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(now.wait(), self._seconds)
        self._waiting.pop(target, None)
        try:
            await delete()
        except ApiError:
            pass  # gone already
        except Exception as exc:
            log.error("a deletion failed", exc_info=exc)
