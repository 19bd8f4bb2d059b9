"""Causal attention over short batches on a CPU, with its gradient written out as plain matrix products.

PyTorch's fused kernel stores no scores, which pays off for long sequences; for the tokens of an utterance, its backward
pass takes up to twice as long as the plain products. Knows transformers' attention interface; nothing of models and data.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

NAME = "ld_agent_causal"
SHORT = 192
"""Maximum number of tokens for which the written-out products are faster; longer batches use PyTorch's kernel."""


def use_causal_attention(model: Any) -> bool:
    """Make a model use `CausalAttention` if that is faster: on a CPU, for models of the Llama family without sliding windows.

    Return whether it does.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    from ld_agent.backbones.local.llama_family import is_plain_llama

    if model.device.type != "cpu" or not is_plain_llama(model) or model.config.attention_dropout:
        return False
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return True


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if attention_mask is not None or key.shape[2] != query.shape[2] or query.shape[2] > SHORT:
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended
    scale = kwargs.get("scaling") or 1 / math.sqrt(query.shape[-1])
    out: Tensor = CausalAttention.apply(query, key, value, scale)  # type: ignore[no-untyped-call]
    return out.transpose(1, 2), None


class CausalAttention(torch.autograd.Function):
    """softmax(scale · Q Kᵀ, no key after its query) V over (rows, heads, tokens, width).

    Keys and values may have fewer heads than queries; each then serves as many consecutive heads of the queries.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        scores = (query @ _repeated(key, query).transpose(-1, -2)).mul_(scale)
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
        weights = torch.softmax(scores.masked_fill_(later, float("-inf")), -1)
        ctx.scale = scale
        ctx.save_for_backward(query, key, value, weights)
        return weights @ _repeated(value, query)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        to_value = weights.transpose(-1, -2) @ gradient
        to_weights = gradient @ _repeated(value, query).transpose(-1, -2)
        to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype).mul_(ctx.scale)
        to_query = to_scores @ _repeated(key, query)
        to_key = to_scores.transpose(-1, -2) @ query
        return to_query, _summed(to_key, key), _summed(to_value, value), None


def _repeated(heads: Tensor, query: Tensor) -> Tensor:
    """Keys or values, repeated for every query head."""
    return heads.repeat_interleave(query.shape[1] // heads.shape[1], 1) if heads.shape[1] < query.shape[1] else heads


def _summed(gradient: Tensor, heads: Tensor) -> Tensor:
    """The gradient of shared heads: the sum over the query heads that share them."""
    rows, count, tokens, width = heads.shape
    return gradient.view(rows, count, -1, tokens, width).sum(2) if gradient.shape[1] > count else gradient
