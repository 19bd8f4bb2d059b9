"""Exports LoRA adapters for llama.cpp: one GGUF file per module, with llama.cpp's tensor names and row order.

Knows PEFT's files and the layout of llama.cpp; loads no model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.backbones.adapter_export import VLLM_ACCEPTS, WEIGHTS, checked_settings, folders_to_export
from ld_agent.backbones.quiet import quiet_transformers
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import InputError

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""llama.cpp's architecture names by ``model_type`` of transformers."""
TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
Array = NDArray[Any]


def export_for_llama_cpp(adapters: Mapping[str, str], base: str, out: Path) -> list[str]:
    """Write each adapter into ``MODULE.gguf``; return the command to serve them.

    Args:
        adapters: an adapter's reference by module.
        base: reference of the base model, whose shape determines the row order.

    Raises:
        InputError: there is nothing to export, ``out`` is not an empty folder, or llama.cpp does not support an
            adapter.
        ModelError: an adapter or the base cannot be found.
    """
    folders = folders_to_export(adapters, out)
    shape = _shape(base)
    ready = {
        module: (_alpha(module, folder), dict(_tensors(module, folder, shape))) for module, folder in folders.items()
    }
    out.mkdir(parents=True, exist_ok=True)
    for module, (alpha, tensors) in ready.items():
        _write(out / f"{module}.gguf", module, ARCHITECTURES[shape.model_type], alpha, tensors)
    named = " ".join(f"--lora {out / module}.gguf" for module in folders)
    return [f"llama-server -m BASE.gguf --lora-init-without-apply {named}"]


def _shape(base: str) -> Any:
    from transformers import AutoConfig

    with quiet_transformers():
        shape = AutoConfig.from_pretrained(resolve_model(base))
    if shape.model_type not in ARCHITECTURES:
        raise InputError(
            f"{base} is a {shape.model_type} model; adapters are written for {', '.join(ARCHITECTURES)}, use "
            "llama.cpp's convert_lora_to_gguf.py for others"
        )
    return shape


def _alpha(module: str, folder: Path) -> float:
    """α, by which llama.cpp scales an adapter: α / rank."""
    accepted = {**VLLM_ACCEPTS, "alpha_pattern": (None, {}), "rank_pattern": (None, {})}
    settings = checked_settings(module, folder, "llama.cpp", accepted)
    return float(settings["lora_alpha"]) * (math.sqrt(settings["r"]) if settings.get("use_rslora") else 1.0)


def _tensors(module: str, folder: Path, shape: Any) -> Iterator[tuple[str, Array]]:
    """Tensor names and values for llama.cpp: A is (rank, in), B is (out, rank)."""
    import gguf
    from safetensors import safe_open

    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[ARCHITECTURES[shape.model_type]], shape.num_hidden_layers)
    with safe_open(folder / WEIGHTS, "numpy") as weights:
        for key in weights.keys():  # noqa: SIM118 - not a mapping
            match = TENSOR.fullmatch(key)
            name = match and names.get_name(f"{match[1]}.weight", try_suffixes=(".weight",))
            if match is None or name is None:
                raise InputError(f"the adapter of {module} has a tensor that llama.cpp does not know: {key}")
            values: Array = weights.get_tensor(key)
            if match[2] == "B" and ARCHITECTURES[shape.model_type] == "llama":
                values = _rotated(values, match[1], shape)
            yield f"{name}.lora_{match[2].lower()}", values


def _rotated(values: Array, layer: str, shape: Any) -> Array:
    """The rows of q and k in llama.cpp's order, which pairs neighbours, while transformers pairs halves of a head."""
    heads = {"q_proj": shape.num_attention_heads, "k_proj": shape.num_key_value_heads}.get(layer.rpartition(".")[2])
    if heads is None:
        return values
    split = values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(values.shape))


def _write(file: Path, module: str, architecture: str, alpha: float, tensors: Mapping[str, Array]) -> None:
    import gguf

    writer = gguf.GGUFWriter(file, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    writer.add_name(module)
    for name in sorted(tensors):
        writer.add_tensor(name, np.asarray(tensors[name], np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
