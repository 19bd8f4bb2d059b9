"""Loads a base in 4 bits with bitsandbytes (QLoRA: NF4, double quantisation, computation in bfloat16). Knows no rows
and no factors."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ld_agent.errors import ConfigError, ModelError
from training.settings import TrainingSettings


def load_quantised(settings: TrainingSettings, source: Path | str, device: str) -> tuple[Any, Any]:
    """Return (model, tokenizer), the model frozen and ready for factors.

    Args:
        source: the resolved location of ``settings.model``.

    Raises:
        ConfigError: bitsandbytes or a GPU is missing.
        ModelError: the base cannot be loaded.
    """
    if find_spec("bitsandbytes") is None:
        raise ConfigError("load_in_4bit=true needs bitsandbytes; pip install bitsandbytes, or set load_in_4bit=false")
    if settings.use_cpu or not torch.cuda.is_available():
        raise ConfigError("load_in_4bit=true needs a GPU, and there is none to use; set load_in_4bit=false")
    from peft import prepare_model_for_kbit_training
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        BitsAndBytesConfig,
    )

    options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
    four_bit = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    try:
        config = AutoConfig.from_pretrained(source, **options)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        place = {"": device if device != "auto" else "cuda:0"}
        model = kind.from_pretrained(
            source, config=config, quantization_config=four_bit, device_map=place, dtype=torch.bfloat16, **options
        )
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except Exception as exc:  # transformers, the hub client, bitsandbytes and the driver share no base class
        first = (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]
        raise ModelError(
            f"model {settings.model!r} cannot be loaded in 4 bits ({first}); try load_in_4bit=false"
        ) from exc
    ready = prepare_model_for_kbit_training(model, use_gradient_checkpointing=settings.gradient_checkpointing)
    return ready, tokenizer
