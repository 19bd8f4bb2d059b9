"""Weights in 4-bit form (`ld_agent.backbones.local.four_bit_groups`): products with a few rows, and unpacking for many.

A large model has no other copy of them. To read a prompt, each matrix is unpacked into the same buffer, which costs as
much as reading about forty tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ld_agent.backbones.local.four_bit_groups import GROUP, load_groups, unpack

PIECE = 16_384
"""Groups that are unpacked at a time: their weights in float32 stay in the processor's cache."""


class FourBitWeights:
    """The 4-bit forms of a model's weights by name; empty where it has none or torch cannot multiply by them.

    Attributes:
        multiplied: the linear modules that keep plain weights beside their 4-bit form.
    """

    def __init__(self, folder: Path | str | None, compact: bool) -> None:
        loaded = load_groups(folder) if folder is not None else {}
        self._groups = loaded if loaded and _multiplies() else {}
        self._compact = compact
        self._room: Tensor | None = None
        self.multiplied: set[nn.Module] = set()

    def take(self, names: list[str]) -> list[Tensor] | None:
        """Return the groups of the weights of these names; None if one has no 4-bit form."""
        if any(name not in self._groups for name in names):
            return None
        return [self._groups.pop(name) for name in names]

    def matrix(self, parent: nn.Module, path: str, names: list[str]) -> FourBitMatrix | None:
        """Return the modules of these names, which read the same input, as one matrix; None if one has no 4-bit form.

        Where memory counts, they are replaced in ``parent`` by modules without plain weights.
        """
        taken = self.take([f"{path}.{name}.weight" for name in names])
        if taken is None:
            return None
        for name, groups in zip(names, taken, strict=True):
            module = getattr(parent, name)
            if self._compact and type(module) is nn.Linear:
                setattr(parent, name, UnpackedLinear(module, groups, self._place(groups)))
            else:
                self.multiplied.add(module)
        return FourBitMatrix(torch.cat(taken))

    def _place(self, groups: Tensor) -> Tensor:
        """Return the buffer in which all are unpacked."""
        if self._room is None:
            most = max(len(rows) * rows.shape[1] for rows in [groups, *self._groups.values()])
            self._room = torch.empty(most * GROUP, dtype=torch.bfloat16)
        return self._room


class FourBitMatrix:
    """A matrix (out, in) that multiplies a few bfloat16 rows from its 4-bit form."""

    MOST_ROWS = 8
    """Above, products with plain weights are faster."""

    def __init__(self, groups: Tensor) -> None:
        pairs = groups[..., :-4].flatten(1)
        wide = torch.empty(*pairs.shape, 2, dtype=torch.int32)
        wide[..., 0] = pairs & 15
        wide[..., 1] = pairs >> 4
        scale, zero = groups[..., -4:].contiguous().view(torch.float16).float().transpose(0, 1).unbind(-1)
        operators: Any = torch
        self._packed: Tensor = operators._convert_weight_to_int4pack_for_cpu(wide.view(len(pairs), -1), 1)
        self._scale_zero = torch.stack([scale, zero + 8 * scale], -1).to(torch.bfloat16)
        self._multiply = operators._weight_int4pack_mm_for_cpu

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, in) bfloat16 to (rows, out)."""
        product: Tensor = self._multiply(x, self._packed, GROUP, self._scale_zero)
        return product


class UnpackedLinear(nn.Module):
    """``nn.Linear`` on weights that are unpacked for each call; its ``weight`` keeps shape and type but no values.

    Args:
        room: where the weights are unpacked, of any number of modules in turn.
    """

    def __init__(self, linear: nn.Linear, groups: Tensor, room: Tensor) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = nn.Parameter(linear.weight.detach().to("meta"), requires_grad=False)
        self._groups, self._room = groups.view(-1, groups.shape[-1]), room

    def forward(self, x: Tensor) -> Tensor:
        weights = self._room[: self.weight.numel()].view(-1, GROUP)
        for start in range(0, len(weights), PIECE):
            weights[start : start + PIECE] = unpack(self._groups[start : start + PIECE])
        return F.linear(x, weights.view(self.weight.shape))


class UnpackedEmbedding(nn.Module):
    """``nn.Embedding`` that unpacks the vectors asked for; its ``weight`` holds the groups."""

    def __init__(self, groups: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(groups, requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        chosen = self.weight[ids]
        return unpack(chosen.view(-1, chosen.shape[-1])).view(*ids.shape, -1).to(torch.bfloat16)


def _multiplies() -> bool:
    """Whether this torch has both products and they agree; they are not a public interface."""
    groups = torch.arange(32 * 2 * 20, dtype=torch.int32).remainder(256).to(torch.uint8).view(32, 2, 20)
    groups[..., -4:] = torch.tensor([0.5, -4.0], dtype=torch.float16).view(torch.uint8)
    x = torch.linspace(-1, 1, 64)[None].to(torch.bfloat16)
    try:
        product, weight = FourBitMatrix(groups)(x), unpack(groups.view(-1, 20))
    except (AttributeError, RuntimeError):
        return False
    numbers = torch.stack([groups[..., :-4] & 15, groups[..., :-4] >> 4], -1).view(-1, GROUP)
    exact = torch.equal(weight, numbers * 0.5 - 4.0)
    return exact and torch.allclose(product.float(), x.float() @ weight.view(32, 64).T, rtol=0.05, atol=0.5)
