"""Metrics of a module's answers during tuning: validation prompts are answered as at inference.

Uses the backbone's greedy decoding on the current model. Knows ids and metrics, but nothing about steps and files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training.examples import Example
from training.measures import measured
from training.rows import Row


class Generations:
    """Answers an evenly spread sample of the validation rows.

    Args:
        model: the transformers model itself, including its factors.
        most: number of rows to answer.
        batch: rows per batch.
    """

    def __init__(
        self,
        module: str,
        model: Any,
        tokenizer: Any,
        *,
        rows: Sequence[Row],
        examples: Sequence[Example],
        most: int,
        batch: int,
    ) -> None:
        from ld_agent.backbones.local.chat_tokens import ChatTokens
        from ld_agent.backbones.local.fast_cpu import steps_for
        from ld_agent.backbones.local.loading import choice, decoder_start, padding_id

        chosen = [n * len(rows) // min(most, len(rows)) for n in range(min(most, len(rows)))]
        self._module, self._batch = module, batch
        self._targets = [rows[n].target for n in chosen]
        self._prompts = [examples[n].prompt for n in chosen]
        self._limit = max(len(examples[n].answer) for n in chosen)
        self._start, self._choice = decoder_start(model), choice(model, tokenizer)
        self._tokens = ChatTokens(tokenizer, self._start is not None)
        self._steps = steps_for(model, padding_id(tokenizer))

    def texts(self, share: slice = slice(None)) -> list[str]:
        """Answers to a share of the prompts, limited to the length of the longest recorded answer."""
        prompts = self._prompts[share]
        by_length = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
        texts: dict[int, str] = {}
        for start in range(0, len(prompts), self._batch):
            places = by_length[start : start + self._batch]
            texts.update(zip(places, self._answered([prompts[n] for n in places]), strict=True))
        return [texts[n] for n in range(len(prompts))]

    def figures(self, texts: Sequence[str]) -> dict[str, float]:
        """The module's metrics of its answers to all prompts."""
        return measured(self._module, texts, self._targets)

    def _answered(self, prompts: Sequence[list[int]]) -> list[str]:
        from ld_agent.backbones.answer_text import answer_text
        from ld_agent.backbones.local.decoding import Row as Sequence_
        from ld_agent.backbones.local.decoding import decode

        rows = [Sequence_(self._start or prompt, self._limit) for prompt in prompts]
        decode(self._steps(prompts), rows, self._choice)
        return [answer_text(self._tokens.decode(row.out).strip()) for row in rows]
