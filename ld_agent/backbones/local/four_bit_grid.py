"""Weights that lie on a 4-bit grid, in a file of their own next to a model's others.

A model from a GGUF file was quantised in groups of 32, and its 16-bit copy holds no more than that. Reading a quarter
of the bytes makes decoding on a CPU that much faster (`fast_cpu.four_bit`).

Nothing is quantised here. A matrix is taken only if every group of 32 weights has at most 16 evenly spaced values
within the rounding of bfloat16; any other is left alone. Knows matrices, and nothing of model families.
"""

from __future__ import annotations

from pathlib import Path

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
    """Write the 4-bit forms of those linear modules that have one."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module.bias is None and (quantised := grid(module.weight.detach())):
            tensors[f"{name}.quanta"], tensors[f"{name}.scale_zero"] = quantised
    if tensors:
        save_file(tensors, folder / FILE)


def load_grids(folder: Path | str) -> dict[str, Tensor]:
    """Return what `save_grids` wrote, by ``MODULE.quanta`` and ``MODULE.scale_zero``; empty if it wrote nothing."""
    from safetensors.torch import load_file

    file = Path(folder) / FILE
    return load_file(file) if file.is_file() else {}
