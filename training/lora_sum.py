"""LoRA's linear layer with its gradients written out: y = W x + (α/r) B (A x), the base W frozen.

PEFT converts the input to the factors' float32 and keeps each product for the backward pass. Here everything is
computed in the base's precision and only x and A x are kept; the factors' gradients are float32, so that small updates
are not lost. Knows PEFT's layer, but nothing about models and data.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn


def quicken(model: nn.Module) -> int:
    """Make every plain linear LoRA layer compute as above; return how many there are.

    PEFT still handles quantised bases, several adapters at once, dropout, DoRA and anything else that changes the sum.
    """
    from peft.tuners.lora.layer import Linear

    plain = [m for m in model.modules() if type(m) is Linear and _is_plain(m)]
    for layer in plain:
        layer.forward = MethodType(_forward, layer)
    return len(plain)


def _is_plain(layer: Any) -> bool:
    [name, *more] = layer.lora_A
    return (
        type(layer.base_layer) is nn.Linear
        and not more
        and not layer.lora_variant
        and isinstance(layer.lora_dropout[name], nn.Identity)
        and not layer.lora_bias[name]
        and not layer.fan_in_fan_out
        and layer.base_layer.weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
    )


def _forward(layer: Any, x: Tensor) -> Tensor:
    base = layer.base_layer
    if layer.disable_adapters or layer.merged:
        return base(x)  # type: ignore[no-any-return]
    [name] = layer.lora_A
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
    return LoraSum.apply(x, base.weight, base.bias, down, up, layer.scaling[name])  # type: ignore[no-untyped-call, no-any-return]


class LoraSum(torch.autograd.Function):
    """(…, in) to (…, out); W (out, in) and its bias get no gradient, A (r, in) and B (out, r) get theirs."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scale: float
    ) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        inner = flat @ down.to(x.dtype).T
        out = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
        out.addmm_(inner, (scale * up).to(x.dtype).T)
        ctx.save_for_backward(flat, inner, weight, down, up)
        ctx.scale, ctx.shape = scale, x.shape
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        flat, inner, weight, down, up = ctx.saved_tensors
        gradient = gradient.reshape(-1, gradient.shape[-1])
        behind = gradient @ (ctx.scale * up).to(gradient.dtype)
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = (gradient @ weight).addmm_(behind, down.to(gradient.dtype)).view(ctx.shape)
        to_down = (behind.T @ flat).to(down.dtype)
        to_up = (gradient.T @ inner).to(up.dtype).mul_(ctx.scale)
        return to_x, None, None, to_down, to_up, None
