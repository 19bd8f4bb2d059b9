"""A backbone with scripted answers, for tests of logic rather than language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.errors import BackboneError

Answer = str | Callable[[Request], str]


class ScriptedBackbone:
    """Answer requests from a script for each module; all requests are recorded in ``requests``.

    Args:
        script: answers by module name. A list gives one answer per request until it is exhausted; a string, or a function
            of the request, answers every request.
        context_window: the reported context window in tokens, which are words separated by white space.

    Example:
        >>> backbone = ScriptedBackbone({"generator": ["Hello!"], "extractor": "NO_TRAIT"})
    """

    def __init__(self, script: Mapping[str, Answer | Iterable[str]] | None = None, context_window: int = 4096) -> None:
        self._every: dict[str, Answer] = {}
        self._once: dict[str, list[str]] = {}
        for module, answers in (script or {}).items():
            if isinstance(answers, str) or callable(answers):
                self._every[module] = answers
            else:
                self._once[module] = list(answers)
        self._window = context_window
        self.requests: list[Request] = []
        self.batches: list[int] = []

    @property
    def context_window(self) -> int:
        return self._window

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer from the script.

        Raises:
            BackboneError: the script has no answer left for a module.
        """
        self.batches.append(len(requests))
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Completion:
        self.requests.append(request)
        if self._once.get(request.module):
            text = self._once[request.module].pop(0)
        elif request.module in self._every:
            answer = self._every[request.module]
            text = answer if isinstance(answer, str) else answer(request)
        else:
            raise BackboneError(f"the script has no answer left for {request.module!r}; add one to it")
        if request.on_text is not None:
            for piece in re.findall(r"(?:\A\s*+)?+\S+\s*", text):
                request.on_text(piece)
        return Completion(text, self.count_tokens(request.messages), len(text.split()))

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return sum(len(m.content.split()) + 1 for m in messages)

    def close(self) -> None:
        pass
