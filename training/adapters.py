"""Adds LoRA to a base and writes the adapter of a run: PEFT's files in the chosen dtype, with a model card.

Knows PEFT, but nothing about data and training.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ld_agent.errors import ConfigError
from training.settings import TrainingSettings

WEIGHTS = "adapter_model.safetensors"


def with_lora(model: Any, settings: TrainingSettings) -> Any:
    """Return the model with new LoRA factors in float32 and everything else frozen.

    Raises:
        ConfigError: the base lacks a linear module that the settings name; lists those it has.
    """
    from peft import get_peft_model

    adapted = get_peft_model(model, lora_config(model, settings))
    if settings.adapter is not None:
        _start_from(settings.adapter, adapted)
    return adapted


def lora_config(model: Any, settings: TrainingSettings) -> Any:
    """PEFT's configuration of the factors. Sets the seed of their initial values.

    Raises:
        ConfigError: as `with_lora`.
    """
    from peft import LoraConfig

    targets = settings.lora_target_modules
    linear = [path for path, m in model.named_modules() if isinstance(m, nn.Linear) or type(m).__name__ == "Conv1D"]
    for name in targets or ():
        if not any(path.endswith(f".{name}") or path == name for path in linear):
            known = ", ".join(sorted({path.rpartition(".")[2] for path in linear}))
            raise ConfigError(
                f"lora_target_modules names {name!r}, which {settings.model} does not have; it has {known}"
            )
    torch.manual_seed(settings.seed)
    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=list(targets) if targets else "all-linear",
        task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
    )


def _start_from(reference: str, adapted: Any) -> None:
    """Initialise new factors from an adapter.

    Raises:
        ModelError: there is no adapter.
        ConfigError: its LoRA has another shape.
    """
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors.torch import load_file

    from ld_agent.backbones.local.loading import adapter_folder

    folder = adapter_folder("adapter", reference)
    config = adapted.peft_config["default"]
    try:
        given = LoraConfig.from_pretrained(folder)
        weights = load_file(folder / WEIGHTS)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"adapter={reference} cannot be read ({exc}); give the folder of a LoRA adapter") from exc
    for key, actual, wanted in (("lora_r", given.r, config.r), ("lora_alpha", given.lora_alpha, config.lora_alpha)):
        if actual != wanted:
            raise ConfigError(f"adapter={reference} has {key}={actual}, the settings say {wanted}; set {key}={actual}")
    loaded = set_peft_model_state_dict(adapted, weights)
    if loaded.unexpected_keys or any("lora_" in key for key in loaded.missing_keys):
        raise ConfigError(
            f"adapter={reference} was tuned on modules other than those in the settings; set lora_target_modules to its "
            "own, or start a new adapter"
        )


def save_adapter(model: Any, folder: Path, settings: TrainingSettings, card: str) -> None:
    """Write the adapter of a PEFT model into a folder; ``adapter_config.json`` is written last and marks completion."""
    temporary = folder / ".adapter"
    shutil.rmtree(temporary, ignore_errors=True)
    dtype = getattr(torch, settings.adapter_dtype)
    factors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items() if "lora_" in name}
    model.peft_config["default"].base_model_name_or_path = settings.model
    model.save_pretrained(str(temporary), state_dict=factors, save_embedding_layers=False)
    (temporary / "README.md").write_text(card, encoding="utf-8")
    for file in sorted(temporary.iterdir(), key=lambda f: f.name == "adapter_config.json"):
        os.replace(file, folder / file.name)
    temporary.rmdir()
