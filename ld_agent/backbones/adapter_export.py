"""Exports LoRA adapters to servers: for vLLM one folder per module, checked against the server's limits; for llama.cpp one
GGUF file per module, with its tensor names and row order.

Knows PEFT's files, vLLM's limits and the layout of llama.cpp; loads no model.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.backbones.local.loading import adapter_folder
from ld_agent.backbones.quiet import quiet_transformers
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import InputError

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
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
        ModelError: an adapter cannot be found.
    """
    folders = _folders(adapters, out)
    settings = {module: _vllm_settings(module, folder, most_rank) for module, folder in folders.items()}
    for module, folder in folders.items():
        (out / module).mkdir(parents=True)
        shutil.copyfile(folder / WEIGHTS, out / module / WEIGHTS)
        written = settings[module] | {"target_modules": sorted(settings[module]["target_modules"])}
        written |= {} if base is None else {"base_model_name_or_path": base}
        text = json.dumps(written, indent=2, sort_keys=True) + "\n"
        (out / module / SETTINGS).write_text(text, encoding="utf-8")
    named = " ".join(f"{module}={out / module}" for module in folders)
    limits = f"--max-loras {len(folders)} --max-lora-rank {max(of['r'] for of in settings.values())}"
    return f"vllm serve {base or 'BASE'} --enable-lora {limits} --lora-modules {named}"


def export_for_llama_cpp(adapters: Mapping[str, str], base: str, out: Path) -> str:
    """Write each adapter into ``MODULE.gguf``; return the command to serve them.

    Args:
        adapters: an adapter's reference by module.
        base: reference of the base model, whose shape determines the row order.

    Raises:
        InputError: there is nothing to export, ``out`` is not an empty folder, or llama.cpp does not support an
            adapter.
        ModelError: an adapter or the base cannot be found.
    """
    folders = _folders(adapters, out)
    shape = _shape(base)
    ready = {
        module: (_alpha(module, folder), dict(_gguf_tensors(module, folder, shape)))
        for module, folder in folders.items()
    }
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


def _settings(module: str, folder: Path, server: str, accepted: Mapping[str, tuple[object, ...]]) -> dict[str, Any]:
    """An adapter's PEFT settings, none of them with a value that the server does not accept."""
    settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    for key, values in accepted.items():
        if settings.get(key) not in values:
            raise InputError(
                f"the adapter of {module} has {key}={settings[key]!r}, which {server} does not support; tune one without"
            )
    return settings


def _tensors(module: str, folder: Path, server: str) -> Iterator[tuple[str, str, Array]]:
    """The path of each adapted layer, "A" or "B", and the factor."""
    from safetensors import safe_open

    with safe_open(folder / WEIGHTS, "numpy") as weights:
        for key in weights.keys():  # noqa: SIM118 - not a mapping
            match = TENSOR.fullmatch(key)
            if match is None:
                raise InputError(f"the adapter of {module} has a tensor that {server} does not know: {key}")
            yield match[1], match[2], weights.get_tensor(key)


def _vllm_settings(module: str, folder: Path, most_rank: int) -> dict[str, Any]:
    settings = _settings(module, folder, "vLLM", ACCEPTED)
    if (rank := settings["r"]) > most_rank:
        raise InputError(
            f"the adapter of {module} has rank {rank}, the server takes {most_rank}; give --max-rank {rank} and start the "
            f"server with --max-lora-rank {rank}"
        )
    for _ in _tensors(module, folder, "vLLM"):
        pass
    return settings


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
    accepted = {**ACCEPTED, "alpha_pattern": (None, {}), "rank_pattern": (None, {})}
    settings = _settings(module, folder, "llama.cpp", accepted)
    return float(settings["lora_alpha"]) * (math.sqrt(settings["r"]) if settings.get("use_rslora") else 1.0)


def _gguf_tensors(module: str, folder: Path, shape: Any) -> Iterator[tuple[str, Array]]:
    """Tensor names and values for llama.cpp: A is (rank, in), B is (out, rank)."""
    import gguf

    architecture = ARCHITECTURES[shape.model_type]
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[architecture], shape.num_hidden_layers)
    for layer, part, values in _tensors(module, folder, "llama.cpp"):
        name = names.get_name(f"{layer}.weight", try_suffixes=(".weight",))
        if name is None:
            raise InputError(f"the adapter of {module} has a tensor that llama.cpp does not know: {layer}")
        rotated = part == "B" and architecture == "llama"
        yield f"{name}.lora_{part.lower()}", _rotated(values, layer, shape) if rotated else values


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
