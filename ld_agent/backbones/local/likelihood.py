"""How likely a model finds given answers: one forward pass over prompt and answer, no token generated.

Knows transformers' calling conventions and token ids; nothing of text, adapters or corpora.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Negative log-likelihood of an answer in nats, over its tokens and the one that ends it."""

    nats: float
    tokens: int


@torch.inference_mode()
def causal_likelihoods(
    model: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], padding_id: int
) -> list[Likelihood]:
    """Likelihoods under a decoder-only model, of non-empty prompts and answers (rows, tokens).

    Padded on the right, where nothing attends, so no mask is needed. Logits are computed from the shortest prompt's end
    on only, so rows of like prompt length cost least.
    """
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    ids = padded(rows, padding_id, model.device)
    start = min(map(len, prompts)) - 1
    extra: dict[str, Any] = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        extra["logits_to_keep"] = torch.arange(start, ids.shape[1], device=ids.device)
    logits = model(input_ids=ids, use_cache=False, return_dict=True, **extra).logits
    first = start if extra else 0
    return [
        _likelihood(logits[row, len(prompt) - 1 - first :], answer)
        for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]


@torch.inference_mode()
def seq2seq_likelihoods(
    model: Any,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    padding_id: int,
    start: Sequence[int],
    opening: int | None,
) -> list[Likelihood]:
    """Likelihoods under an encoder-decoder model.

    Args:
        start: ids with which the decoder starts.
        opening: id with which generation is made to begin; as it is given, it does not count.
    """
    given = [[*start, *([opening] if opening is not None and answer[0] != opening else [])] for answer in answers]
    inputs = [[*before, *answer[:-1]] for before, answer in zip(given, answers, strict=True)]
    logits = model(
        input_ids=padded(prompts, padding_id, model.device),
        attention_mask=padded([[1] * len(prompt) for prompt in prompts], 0, model.device),
        decoder_input_ids=padded(inputs, padding_id, model.device),
        use_cache=False,
        return_dict=True,
    ).logits
    return [
        _likelihood(logits[row, len(before) - 1 :], answer)
        for row, (before, answer) in enumerate(zip(given, answers, strict=True))
    ]


def _likelihood(logits: Tensor, answer: Sequence[int]) -> Likelihood:
    """From logits (tokens or more, vocabulary), the first of which foretell the answer's first token."""
    targets = torch.tensor(answer, device=logits.device)
    loss = F.cross_entropy(logits[: len(answer)].float(), targets, reduction="sum")
    return Likelihood(float(loss), len(answer))


def padded(rows: Sequence[Sequence[int]], padding: int, device: torch.device | None = None) -> Tensor:
    """Return rows of ids as one tensor (rows, longest), padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows], device=device)
