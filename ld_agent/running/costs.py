"""What the models cost: calls, tokens and milliseconds of each module, by conversation, since the process began.

Knows no model and no store. A call that fails, or that is interrupted, costs nothing here.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ld_agent.backbones.base import Completion, Request

Asked = Callable[[Sequence[Request]], list[Completion]]
AskedLater = Callable[[Sequence[Request]], Awaitable[list[Completion]]]
KEPT = 10_000
"""Conversations whose costs are kept apart, those that were active last."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one module. ``milliseconds``: waited for its model; what several modules waited for together, by their tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls, self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens, self.milliseconds + other.milliseconds,
        )  # fmt: skip


class Costs:
    """Adds up what conversations cost. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total: dict[str, Cost] = {}
        self._of: OrderedDict[str, dict[str, Cost]] = OrderedDict()

    def metered(self, conversation: str, ask: Asked) -> Asked:
        """What asks a model, with its costs added to those of a conversation."""

        def asked(requests: Sequence[Request]) -> list[Completion]:
            begun = time.perf_counter()
            completions = ask(requests)
            self.add(conversation, requests, completions, time.perf_counter() - begun)
            return completions

        return asked

    def ametered(self, conversation: str, ask: AskedLater) -> AskedLater:
        """`metered` for coroutines."""

        async def asked(requests: Sequence[Request]) -> list[Completion]:
            begun = time.perf_counter()
            completions = await ask(requests)
            self.add(conversation, requests, completions, time.perf_counter() - begun)
            return completions

        return asked

    def add(
        self, conversation: str, requests: Sequence[Request], completions: Sequence[Completion], seconds: float
    ) -> None:
        """Add what requests cost that were answered together."""
        tokens = [c.prompt_tokens + c.completion_tokens for c in completions]
        each = 1000 * seconds / (sum(tokens) or 1)
        with self._lock:
            of_conversation = self._of.setdefault(conversation, {})
            self._of.move_to_end(conversation)
            for request, completion, count in zip(requests, completions, tokens, strict=True):
                cost = Cost(1, completion.prompt_tokens, completion.completion_tokens, each * count)
                for kept in (of_conversation, self._total):
                    kept[request.module] = kept.get(request.module, Cost()) + cost
            while len(self._of) > KEPT:
                self._of.popitem(last=False)

    def total(self) -> dict[str, Cost]:
        """The costs of all conversations, by module."""
        with self._lock:
            return dict(self._total)

    def of(self, conversation: str) -> dict[str, Cost]:
        """The costs of one conversation, by module."""
        with self._lock:
            return dict(self._of.get(conversation, {}))

    def forget(self, conversation: str) -> None:
        """Drop what is known of one conversation; the total stays."""
        with self._lock:
            self._of.pop(conversation, None)
