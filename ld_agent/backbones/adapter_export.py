"""Exports LoRA adapters for a vLLM server: one folder per module, checked against the server's limits.

Knows PEFT's files and vLLM's limits; loads no model.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ld_agent.backbones.local.loading import adapter_folder
from ld_agent.errors import InputError

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
VLLM_RANK = 16
"""The default ``--max-lora-rank`` of vLLM."""
VLLM_TENSOR = re.compile(r"base_model\.model\..+\.lora_(A|B)\.weight")
VLLM_ACCEPTS: Mapping[str, tuple[object, ...]] = {
    "bias": (None, "none"),
    "modules_to_save": (None, []),
    "use_dora": (None, False),
}
"""PEFT settings and the values that vLLM accepts."""


def export_for_vllm(adapters: Mapping[str, str], base: str | None, out: Path, most_rank: int = VLLM_RANK) -> list[str]:
    """Write each adapter into a folder named after its module; return the command to serve them.

    Args:
        adapters: adapter references by module.
        base: the server's base model; None: as named by the adapter.
        most_rank: the server's ``--max-lora-rank``.

    Raises:
        InputError: there is nothing to export, ``out`` is not an empty folder, or vLLM cannot load an adapter.
        ModelError: an adapter cannot be found.
    """
    folders = folders_to_export(adapters, out)
    for module, folder in folders.items():
        _check(module, folder, most_rank)
    for module, folder in folders.items():
        _write(folder, out / module, base)
    named = " ".join(f"{module}={out / module}" for module in folders)
    rank = max(_settings(folder)["r"] for folder in folders.values())
    served = base or "BASE"
    return [
        f"vllm serve {served} --enable-lora --max-loras {len(folders)} --max-lora-rank {rank} --lora-modules {named}"
    ]


def folders_to_export(adapters: Mapping[str, str], out: Path) -> dict[str, Path]:
    """Return the folder of each module's adapter.

    Raises:
        InputError: there is nothing to export, or ``out`` is not an empty folder.
        ModelError: an adapter cannot be found.
    """
    if not adapters:
        raise InputError("this config has no adapter to export; set modules.generator.adapter, or use another config")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not an empty folder; give another --out")
    return {module: adapter_folder(module, reference) for module, reference in adapters.items()}


def checked_settings(
    module: str, folder: Path, server: str, accepted: Mapping[str, tuple[object, ...]]
) -> dict[str, Any]:
    """Return an adapter's PEFT settings.

    Args:
        accepted: settings and the values that the server accepts.

    Raises:
        InputError: the adapter has another value.
    """
    settings = _settings(folder)
    for key, values in accepted.items():
        if settings.get(key) not in values:
            raise InputError(
                f"the adapter of {module} has {key}={settings[key]!r}, which {server} does not support; tune one without"
            )
    return settings


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return settings


def _check(module: str, folder: Path, most_rank: int) -> None:
    from safetensors import safe_open

    settings = _settings(folder)
    if settings["r"] > most_rank:
        raise InputError(
            f"the adapter of {module} has rank {settings['r']}, the server takes {most_rank}; give --max-rank "
            f"{settings['r']} and start the server with --max-lora-rank {settings['r']}"
        )
    checked_settings(module, folder, "vLLM", VLLM_ACCEPTS)
    with safe_open(folder / WEIGHTS, "numpy") as weights:
        names = list(weights.keys())
    if unknown := [name for name in names if not VLLM_TENSOR.fullmatch(name)]:
        raise InputError(f"the adapter of {module} has a tensor that vLLM does not know: {unknown[0]}")


def _write(folder: Path, target: Path, base: str | None) -> None:
    target.mkdir(parents=True)
    shutil.copyfile(folder / WEIGHTS, target / WEIGHTS)
    settings = _settings(folder)
    settings["target_modules"] = sorted(settings["target_modules"])
    if base is not None:
        settings["base_model_name_or_path"] = base
    (target / SETTINGS).write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
