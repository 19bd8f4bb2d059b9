"""What the models cost: calls, tokens and milliseconds of each module since the process began.

Knows no model and no store. A call that fails, or that is interrupted, costs nothing here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ld_agent.backbones.base import Completion, Request

Asked = Callable[[Sequence[Request]], list[Completion]]
AskedLater = Callable[[Sequence[Request]], Awaitable[list[Completion]]]


@dataclass(slots=True)
class Cost:
    """Of one module. ``milliseconds``: waited for its model; what several modules waited for together, by their tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0


class Costs:
    """Adds up what modules cost. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_module: dict[str, Cost] = {}

    def metered(self, ask: Asked) -> Asked:
        """What asks a model, with its costs added."""

        def asked(requests: Sequence[Request]) -> list[Completion]:
            begun = time.perf_counter()
            completions = ask(requests)
            self._add(requests, completions, time.perf_counter() - begun)
            return completions

        return asked

    def ametered(self, ask: AskedLater) -> AskedLater:
        """`metered` for coroutines."""

        async def asked(requests: Sequence[Request]) -> list[Completion]:
            begun = time.perf_counter()
            completions = await ask(requests)
            self._add(requests, completions, time.perf_counter() - begun)
            return completions

        return asked

    def by_module(self) -> dict[str, Cost]:
        with self._lock:
            return dict(self._by_module)

    def _add(self, requests: Sequence[Request], completions: Sequence[Completion], seconds: float) -> None:
        """Add what requests cost that were answered together."""
        tokens = [c.prompt_tokens + c.completion_tokens for c in completions]
        each = 1000 * seconds / (sum(tokens) or 1)
        with self._lock:
            for request, completion, count in zip(requests, completions, tokens, strict=True):
                cost = self._by_module.setdefault(request.module, Cost())
                cost.calls += 1
                cost.prompt_tokens += completion.prompt_tokens
                cost.completion_tokens += completion.completion_tokens
                cost.milliseconds += each * count
