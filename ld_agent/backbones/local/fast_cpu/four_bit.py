"""Products of a few rows with a matrix in 4-bit form (`ld_agent.backbones.local.four_bit_grid`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ld_agent.backbones.local.four_bit_grid import GROUP, load_grids


class FourBitWeights:
    """The 4-bit forms of a model's weights; empty where it has none or torch cannot multiply by them."""

    def __init__(self, folder: Path | str | None) -> None:
        grids = load_grids(folder) if folder is not None else {}
        self._tensors = grids if grids and _multiplies() else {}

    def take(self, names: list[str]) -> FourBitMatrix | None:
        """Return the modules of these names, which read the same input, as one matrix; None if one has no grid."""
        keys = [(f"{name}.quanta", f"{name}.scale_zero") for name in names]
        if any(quanta not in self._tensors for quanta, _ in keys):
            return None
        quanta = torch.cat([self._tensors.pop(key) for key, _ in keys])
        return FourBitMatrix(quanta, torch.cat([self._tensors.pop(key) for _, key in keys], 1).contiguous())


class FourBitMatrix:
    """A matrix (out, in) that multiplies a few bfloat16 rows from its 4-bit form."""

    MOST_ROWS = 8
    """Above, unpacking costs more than the smaller weights save."""

    def __init__(self, quanta: Tensor, scale_zero: Tensor) -> None:
        wide = torch.empty(*quanta.shape, 2, dtype=torch.int32)
        wide[..., 0] = quanta & 15
        wide[..., 1] = quanta >> 4
        operators: Any = torch
        self._packed: Tensor = operators._convert_weight_to_int4pack_for_cpu(wide.view(len(quanta), -1), 1)
        self._scale_zero = scale_zero
        self._multiply = operators._weight_int4pack_mm_for_cpu

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, in) bfloat16 to (rows, out)."""
        product: Tensor = self._multiply(x, self._packed, GROUP, self._scale_zero)
        return product


def _multiplies() -> bool:
    """Whether this torch has the 4-bit product and computes what `grid` describes; it is not a public interface."""
    quanta = torch.arange(32 * 32, dtype=torch.int32).view(32, 32).remainder(256).to(torch.uint8)
    scale_zero = torch.linspace(0.5, 1, 2 * 32 * 2).view(2, 32, 2).to(torch.bfloat16)
    x = torch.linspace(-1, 1, 64)[None].to(torch.bfloat16)
    try:
        product = FourBitMatrix(quanta, scale_zero)(x)
    except (AttributeError, RuntimeError):
        return False
    numbers = torch.stack([quanta & 15, quanta >> 4], -1).view(32, 2, GROUP).float() - 8
    wide = scale_zero.float().permute(1, 0, 2)
    weight = (numbers * wide[..., :1] + wide[..., 1:]).view(32, 64)
    return torch.allclose(product.float(), x.float() @ weight.T, rtol=0.05, atol=0.5)
