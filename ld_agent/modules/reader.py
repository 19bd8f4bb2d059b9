"""The reader: answers a question about the past from one passage, or finds that the passage does not say.

A small model overlooks a fact among the twenty lines of a generator's prompt, or mistakes a neighbouring fact for it. With one
passage at a time, both happen less often. Knows no memory and no ranking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.backbones.base import Message, Request
from ld_agent.modules.base import Models
from ld_agent.types import Utterance

_NOT_SAID = re.compile(r"\bNOT[_ ]?SAID\b", re.IGNORECASE)


class Reader:
    """Asks the ``reader`` module."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def prompt_for(self, question: Utterance, passage: Sequence[Utterance]) -> tuple[Message, ...]:
        """Render a passage, oldest line first, and the question about it."""
        lines = [(said.speaker, said.text) for said in passage]
        return self._models.prompt("reader").render(asker=question.speaker, question=question.text, lines=lines)

    def request(self, question: Utterance, passage: Sequence[Utterance]) -> Request:
        return self._models.request("reader", self.prompt_for(question, passage))


def answer_in(text: str) -> str:
    """Return the answer in what the reader wrote; "" if the passage does not say."""
    return "" if _NOT_SAID.search(text) else text.strip()
