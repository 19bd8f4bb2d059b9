"""Weights of 4 bits in groups of 32, as GGUF files have them, in a file of their own next to a model's others.

A 16-bit copy of such weights holds no more than they do. Reading a third of the bytes makes decoding on a CPU that much
faster, and a large model needs no 16-bit copy in memory at all (`fast_cpu.four_bit`).

Nothing is quantised here: a tensor of any other type has no such form. Knows matrices, and which models are computed with
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

LLAMA_FAMILY = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
FILE = "four_bit.safetensors"
GROUP = 32
"""Weights that share a scale; a block of Q4_K has eight groups."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def is_plain_llama(model: Any) -> bool:
    """Whether the CPU engine can run a model: it is of the Llama family and every token attends to all tokens before it."""
    config = model.config
    if type(model).__name__ not in LLAMA_FAMILY or getattr(config, "sliding_window", None):
        return False
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return False
    return bool(config.num_attention_heads % config.num_key_value_heads == 0)


def groups(data: Bytes, kind: str) -> Bytes | None:
    """Return the groups of a matrix in GGUF's blocks, or None for a type without 4-bit groups.

    Args:
        data: (out, bytes of a row).
        kind: GGUF's name of the type; Q4_0, Q4_1 and Q4_K consist of 4-bit groups.

    Returns:
        (out, in/32, 20): 16 bytes with two weights each, the even column in the low half, then scale and zero as
        float16. A weight is its number (0 to 15) · scale + zero.
    """
    if kind == "Q4_K":
        numbers, scale, zero = _of_super_blocks(data.reshape(-1, 144))
    elif kind in ("Q4_0", "Q4_1"):
        blocks = data.reshape(-1, 18 if kind == "Q4_0" else 20)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        zero = blocks[:, 2:4].copy().view(np.float16).astype(np.float32) if kind == "Q4_1" else -8 * scale
        halves = blocks[:, -16:]
        numbers = np.concatenate([halves & 15, halves >> 4], 1)
    else:
        return None
    pairs = numbers[:, ::2] | numbers[:, 1::2] << 4
    numbers_16 = np.concatenate([scale, zero], 1).astype(np.float16).view(np.uint8)
    joined: Bytes = np.concatenate([pairs, numbers_16], 1).reshape(len(data), -1, 20)
    return joined


def _of_super_blocks(blocks: Bytes) -> tuple[Bytes, Floats, Floats]:
    """Numbers (groups, 32), scales and zeros (groups, 1) of Q4_K's blocks."""
    from gguf.quants import Q4_K

    scales_16, low_16 = (blocks[:, at : at + 2].copy().view(np.float16).astype(np.float32) for at in (0, 2))
    part, low_part = Q4_K.get_scale_min(blocks[:, 4:16].copy())
    halves = blocks[:, 16:].reshape(len(blocks), 4, 1, GROUP)
    numbers: Bytes = np.concatenate([halves & 15, halves >> 4], 2).reshape(-1, GROUP)
    return numbers, (scales_16 * part).reshape(-1, 1), -(low_16 * low_part).reshape(-1, 1)


def save_groups(tensors: dict[str, Tensor], folder: Path) -> None:
    """Write groups by the name of their weight."""
    from safetensors.torch import save_file

    if tensors:
        save_file(tensors, folder / FILE)


def load_groups(folder: Path | str) -> dict[str, Tensor]:
    """Return what `save_groups` wrote, by the name of the weight, mapped from the file; empty if it wrote nothing."""
    from safetensors.torch import load_file

    file = Path(folder) / FILE
    return load_file(file) if file.is_file() else {}


def unpack(parts: Tensor) -> Tensor:
    """From groups (n, 20) to weights (n, 32) float32."""
    operators: Any = torch.ops.quantized
    weights: Tensor = operators.embedding_bag_4bit_unpack(parts)
    return weights
