"""Causal attention for training on a CPU, its gradient written out as plain matrix products.

PyTorch's fused kernel keeps no scores, which pays over thousands of tokens; its backward pass on a CPU takes three to
thirty times as long as the products themselves over the tens and hundreds of tokens of a dialogue. Knows transformers'
attention interface; nothing of models and data.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

NAME = "ld_agent_causal"
KEPT = 256
"""Tokens up to which a batch's attention weights are kept for the backward pass; over longer ones they are made again."""


def use_causal_attention(model: Any) -> bool:
    """Let a model attend by `CausalAttention` where that is what it computes; returns whether it does now.

    That is so on a CPU for models of the Llama family without sliding windows, whose batches are padded on the right.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    from ld_agent.backbones.local.loading import is_plain_llama

    if model.device.type != "cpu" or not is_plain_llama(model) or model.config.attention_dropout:
        return False
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _given)  # without one transformers drops a mask unsaid
    model.set_attn_implementation(NAME)
    return True


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    if key.shape[2] != query.shape[2] or (attention_mask is not None and attention_mask.dim() != 4):
        raise ValueError(
            "causal attention takes whole batches padded on the right: no mask of tokens and no cache; leave them away"
        )
    scale = kwargs.get("scaling") or 1 / math.sqrt(query.shape[-1])
    out: Tensor = CausalAttention.apply(query, key, value, scale, attention_mask)  # type: ignore[no-untyped-call]
    return out.transpose(1, 2), None


def _given(*, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    return attention_mask


class CausalAttention(torch.autograd.Function):
    """softmax(scale · Q Kᵀ, no key after its query) V over (rows, heads, tokens, width).

    Keys and values may have fewer heads than queries, each then serving as many of them in a row. A mask (rows, 1, tokens,
    tokens) is added to the scores in place of that order: see `training.risk.branched`.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None = None
    ) -> Tensor:
        weights = _weights(query, key, scale, mask)
        ctx.scale, ctx.mask = scale, mask
        ctx.save_for_backward(query, key, value, *([weights] if query.shape[2] <= KEPT else []))
        return weights @ _shared(value, query)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        weights = kept[0] if kept else _weights(query, key, ctx.scale, ctx.mask)
        to_value = weights.transpose(-1, -2) @ gradient
        to_weights = gradient @ _shared(value, query).transpose(-1, -2)
        to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype).mul_(ctx.scale)
        to_query = to_scores @ _shared(key, query)
        to_key = to_scores.transpose(-1, -2) @ query
        return to_query, _summed(to_key, key), _summed(to_value, value), None, None


def _weights(query: Tensor, key: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """(rows, heads, tokens, tokens)."""
    scores = (query @ _shared(key, query).transpose(-1, -2)).mul_(scale)
    if mask is not None:
        return torch.softmax(scores.add_(mask), -1)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
    return torch.softmax(scores.masked_fill_(later, float("-inf")), -1)


def _shared(heads: Tensor, query: Tensor) -> Tensor:
    """Keys or values, once for every head of the queries."""
    return heads.repeat_interleave(query.shape[1] // heads.shape[1], 1) if heads.shape[1] < query.shape[1] else heads


def _summed(gradient: Tensor, heads: Tensor) -> Tensor:
    """The gradient of shared heads: the sum over those who shared them."""
    rows, own, tokens, width = heads.shape
    return gradient.view(rows, own, -1, tokens, width).sum(2) if gradient.shape[1] > own else gradient
