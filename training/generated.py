"""A module's own figures while it is tuned: validation prompts are answered as at inference, and the answers measured.

Greedy decoding by the backbone's own loop, on the model as it stands. Knows ids and figures; nothing of steps and files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ld_agent.errors import ConfigError
from ld_agent.evaluation.metrics import accuracy, bleu, rouge
from ld_agent.modules.extractor import parse_traits
from ld_agent.modules.summarizer import cleaned
from training.build import NO_TRAIT
from training.examples import Example
from training.rows import Row
from training.settings import TrainingSettings

FIGURES: Mapping[str, tuple[str, ...]] = {
    "extractor": ("accuracy", "bleu_2", "bleu_3", "rouge_l"),
    "summarizer": ("rouge_1", "rouge_2", "rouge_l"),
    "generator": ("bleu_2", "bleu_3", "rouge_l"),
}


def check_metric(settings: TrainingSettings, module: str) -> None:
    """Check that the best checkpoint is chosen by something that will be measured.

    Raises:
        ConfigError: it is not; says what is.
    """
    measured = ["eval_loss", *(f"eval_{name}" for name in FIGURES[module] if settings.eval_generations)]
    if settings.metric_for_best_model not in measured:
        more = "" if settings.eval_generations else ", and with eval_generations above 0 also those of answers"
        raise ConfigError(
            f"metric_for_best_model={settings.metric_for_best_model} is not measured for the {module}; "
            f"it can be {', '.join(measured)}{more}"
        )


class Generations:
    """Answers some of the validation rows, evenly spread over them.

    Args:
        model: the transformers model itself, with its factors inside.
        most: rows to answer.
        batch: rows answered at once.
    """

    def __init__(
        self, module: str, model: Any, tokenizer: Any, rows: Sequence[Row], examples: Sequence[Example], most: int,
        batch: int,
    ) -> None:  # fmt: skip
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
        """Answers to a share of the prompts, none longer than the longest recorded answer of all of them."""
        prompts = self._prompts[share]
        by_length = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
        texts: dict[int, str] = {}
        for start in range(0, len(prompts), self._batch):
            places = by_length[start : start + self._batch]
            texts.update(zip(places, self._answered([prompts[n] for n in places]), strict=True))
        return [texts[n] for n in range(len(prompts))]

    def figures(self, texts: Sequence[str]) -> dict[str, float]:
        """The module's figures of its answers to all prompts."""
        return figures(self._module, texts, self._targets)

    def _answered(self, prompts: Sequence[list[int]]) -> list[str]:
        from ld_agent.backbones.local.decoding import Row as Sequence_
        from ld_agent.backbones.local.decoding import decode

        rows = [Sequence_(self._start or prompt, self._limit) for prompt in prompts]
        decode(self._steps(prompts), rows, self._choice)
        return [self._tokens.decode(row.out).strip() for row in rows]


def figures(module: str, answers: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
    """Measure answers against targets; the names are `FIGURES`, the values fractions."""
    found: dict[str, float] = {}
    texts = [cleaned(answer) if module == "summarizer" else answer for answer in answers]
    if module == "extractor":
        texts = [traits_said(answer) for answer in answers]
        found["accuracy"] = accuracy([t != NO_TRAIT for t in texts], [t != NO_TRAIT for t in targets]).overall
    references = [[target] for target in targets]
    orders = [n for n in (2, 3) if f"bleu_{n}" in FIGURES[module]]
    measured = bleu(texts, references, orders) if orders else {}
    measured |= rouge(texts, references, [name for name in FIGURES[module] if name.startswith("rouge")])
    found |= {name: measure.overall for name, measure in measured.items()}
    return {name: round(value, 4) if math.isfinite(value) else 0.0 for name, value in found.items()}


def traits_said(answer: str) -> str:
    """The traits of an extractor's answer as one text, or NO_TRAIT."""
    return " ".join(parse_traits(answer, "", lambda trait, utterance: True)) or NO_TRAIT
