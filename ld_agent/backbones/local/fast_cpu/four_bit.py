"""Weights that lie on a 4-bit grid, kept as such: a model from a GGUF file was quantised in groups of 32, and its
16-bit copy holds no more than that. Reading a quarter of the bytes makes decoding on a CPU that much faster.

Nothing is quantised here. A matrix is taken only if every group of 32 weights has at most 16 evenly spaced values
within the rounding of bfloat16; any other is left alone. Knows matrices, and nothing of model families.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FILE = "four_bit.safetensors"
GROUP = 32
ROUNDING = 2.0**-7
"""Twice the largest relative rounding of bfloat16: a weight was rounded, and the ends of its group's grid as well."""


def grid(weight: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the 4-bit form of a matrix (out, in), or None if it has none.

    Returns:
        quanta: (out, in/2) uint8, two 4-bit numbers a byte, the even column in the low half.
        scale_zero: (in/32, out, 2) bfloat16; a weight is (quantum - 8) · scale + zero.
    """
    out, columns = weight.shape
    if columns % (2 * GROUP) or out % 16:
        return None
    groups = weight.float().view(out, columns // GROUP, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low) / 15
    quanta = ((groups - low) / scale.clamp(min=torch.finfo(torch.float32).tiny)).round_()
    error = (quanta * scale + low - groups).abs_().amax(-1)
    if bool((error > ROUNDING * groups.abs().amax(-1)).any()):
        return None
    pairs = quanta.view(out, columns // 2, 2).to(torch.uint8)
    scale_zero = torch.stack([scale, low + 8 * scale], -1).squeeze(2).transpose(0, 1)
    return pairs[..., 0] | pairs[..., 1] << 4, scale_zero.to(torch.bfloat16).contiguous()


def save_grids(model: nn.Module, folder: Path) -> None:
    """Write the 4-bit forms of those linear modules that have one beside the model's other files."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module.bias is None and (found := grid(module.weight.detach())):
            tensors[f"{name}.quanta"], tensors[f"{name}.scale_zero"] = found
    if tensors:
        save_file(tensors, folder / FILE)


class FourBitGrids:
    """The 4-bit forms beside a model's files; empty where there are none or torch cannot multiply by them."""

    def __init__(self, folder: Path | str | None) -> None:
        from safetensors.torch import load_file

        self._tensors: dict[str, Tensor] = {}
        if folder is not None and (file := Path(folder) / FILE).is_file() and _multiplies():
            self._tensors = load_file(file)

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
    """Whether this torch has the 4-bit product and it gives what is written above; it is no public interface."""
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
