"""Time the steps of one turn."""

from __future__ import annotations

import time


class Stopwatch:
    """Records milliseconds by step; laps with the same name add up."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.milliseconds[name] = round(self.milliseconds.get(name, 0.0) + 1000 * (now - self._last), 3)
        self._last = now
