"""Exports LoRA adapters to servers: for vLLM one folder per module, checked against the server's limits; for llama.cpp one
GGUF file per module, with its tensor names and row order.

Knows PEFT's files, vLLM's limits and the layout of llama.cpp; loads no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.backbones.local.adapter_files import (
    SETTINGS,
    WEIGHTS,
    Adapter,
    linear_shapes,
    read_adapter,
    read_settings,
)
from ld_agent.backbones.local.loading import adapter_folder
from ld_agent.backbones.quiet import quiet_transformers
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import InputError

VLLM_RANK = 16
"""The default ``--max-lora-rank`` of vLLM."""
ACCEPTED: Mapping[str, tuple[object, ...]] = {
    "bias": (None, "none"),
    "modules_to_save": (None, []),
    "use_dora": (None, False),
}
"""PEFT settings and the values that servers accept."""
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""llama.cpp's architecture names by ``model_type`` of transformers."""
Array = NDArray[Any]


def export_for_vllm(adapters: Mapping[str, str], base: str | None, out: Path, most_rank: int = VLLM_RANK) -> str:
    """Write each adapter into a folder named after its module; return the command to serve them.

    Args:
        adapters: adapter references by module.
        base: the server's base model; None: as named by the adapter.
        most_rank: the server's ``--max-lora-rank``.

    Raises:
        InputError: there is nothing to export, ``out`` is not an empty folder, or vLLM cannot load an adapter.
        ModelError: an adapter cannot be found or is not whole.
    """
    from safetensors.torch import save_file

    read = {module: _for_vllm(module, folder, most_rank) for module, folder in _folders(adapters, out).items()}
    for module, adapter in read.items():
        (out / module).mkdir(parents=True)
        factors = {
            f"base_model.model.{path}.lora_{part}.weight": values
            for path, pair in adapter.factors.items()
            for part, values in zip("AB", pair, strict=True)
        }
        save_file(factors, out / module / WEIGHTS, metadata={"format": "pt"})
        targets = adapter.settings.get("target_modules") or []
        written = {**adapter.settings, "target_modules": targets if isinstance(targets, str) else sorted(targets)}
        written |= {} if base is None else {"base_model_name_or_path": base}
        text = json.dumps(written, indent=2, sort_keys=True) + "\n"
        (out / module / SETTINGS).write_text(text, encoding="utf-8")
    named = " ".join(f"{module}={out / module}" for module in read)
    limits = f"--max-loras {len(read)} --max-lora-rank {max(of.settings.get('r', 8) for of in read.values())}"
    return f"vllm serve {base or 'BASE'} --enable-lora {limits} --lora-modules {named}"


def export_for_llama_cpp(adapters: Mapping[str, str], base: str, out: Path) -> str:
    """Write each adapter into ``MODULE.gguf``; return the command to serve them.

    Args:
        adapters: an adapter's reference by module.
        base: reference of the base model, whose shape determines the row order.

    Raises:
        InputError: there is nothing to export, ``out`` is not an empty folder, or llama.cpp does not support an
            adapter.
        ModelError: an adapter or the base cannot be found, or an adapter is not whole or was made for another base.
    """
    folders = _folders(adapters, out)
    shape, linear = _shape(base)
    ready = {}
    for module, folder in folders.items():
        adapter = _read(
            module, folder, "llama.cpp", {**ACCEPTED, "alpha_pattern": (None, {}), "rank_pattern": (None, {})}
        )
        adapter.check_base(base, linear)
        alpha = adapter.scale("") * adapter.settings.get("r", 8)  # llama.cpp scales an adapter by α / rank
        ready[module] = alpha, dict(_gguf_tensors(adapter, shape))
    out.mkdir(parents=True, exist_ok=True)
    for module, (alpha, tensors) in ready.items():
        _write_gguf(out / f"{module}.gguf", module, ARCHITECTURES[shape.model_type], alpha, tensors)
    named = " ".join(f"--lora {out / module}.gguf" for module in folders)
    return f"llama-server -m BASE.gguf --lora-init-without-apply {named}"


def _folders(adapters: Mapping[str, str], out: Path) -> dict[str, Path]:
    """The folder of each module's adapter."""
    if not adapters:
        raise InputError("this config has no adapter to export; set modules.generator.adapter, or use another config")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not an empty folder; give another --out")
    return {module: adapter_folder(module, reference) for module, reference in adapters.items()}


def _read(module: str, folder: Path, server: str, accepted: Mapping[str, tuple[object, ...]]) -> Adapter:
    """An adapter without a setting or tensor that the server does not accept."""
    return read_adapter(module, folder, accepted, lambda what: _refused(module, server, what))


def _refused(module: str, server: str, what: str) -> InputError:
    return InputError(f"the adapter of {module} has {what}, which {server} does not support; tune one without")


def _for_vllm(module: str, folder: Path, most_rank: int) -> Adapter:
    rank = read_settings(module, folder).get("r", 8)
    if rank > most_rank:
        raise InputError(
            f"the adapter of {module} has rank {rank}, the server takes {most_rank}; give --max-rank {rank} and start the "
            f"server with --max-lora-rank {rank}"
        )
    adapter = _read(module, folder, "vLLM", ACCEPTED)
    adapter.check_names()
    return adapter


def _shape(base: str) -> tuple[Any, dict[str, tuple[int, int]]]:
    """The config of a base model, and (out, in) of its linear modules."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with quiet_transformers():
        shape = AutoConfig.from_pretrained(resolve_model(base))
        if shape.model_type not in ARCHITECTURES:
            raise InputError(
                f"{base} is a {shape.model_type} model; adapters are written for {', '.join(ARCHITECTURES)}, use "
                "llama.cpp's convert_lora_to_gguf.py for others"
            )
        with torch.device("meta"):
            return shape, linear_shapes(AutoModelForCausalLM.from_config(shape))


def _gguf_tensors(adapter: Adapter, shape: Any) -> Iterator[tuple[str, Array]]:
    """Tensor names and values for llama.cpp: A is (rank, in), B is (out, rank)."""
    import gguf

    architecture = ARCHITECTURES[shape.model_type]
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[architecture], shape.num_hidden_layers)
    for layer, (down, up) in adapter.factors.items():
        name = names.get_name(f"{layer}.weight", try_suffixes=(".weight",))
        if name is None:
            raise _refused(adapter.module, "llama.cpp", f"a tensor for {layer}")
        yield f"{name}.lora_a", down.float().numpy()
        values = up.float().numpy()
        yield f"{name}.lora_b", _rotated(values, layer, shape) if architecture == "llama" else values


def _rotated(values: Array, layer: str, shape: Any) -> Array:
    """The rows of q and k in llama.cpp's order, which pairs neighbours, while transformers pairs halves of a head."""
    heads = {"q_proj": shape.num_attention_heads, "k_proj": shape.num_key_value_heads}.get(layer.rpartition(".")[2])
    if heads is None:
        return values
    split = values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(values.shape))


def _write_gguf(file: Path, module: str, architecture: str, alpha: float, tensors: Mapping[str, Array]) -> None:
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
