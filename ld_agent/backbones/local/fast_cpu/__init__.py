"""Decoding with the Llama family on a CPU, faster than transformers does. `steps_for` is the only way in.

Knows models, weights and the state of one batch; nothing of text, sampling or stopping.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from ld_agent.backbones.local.fast_cpu.four_bit import FourBitWeights
from ld_agent.backbones.local.fast_cpu.llama import Layer, LlamaSteps, llama_layers
from ld_agent.backbones.local.fast_cpu.packed import pack_linear_modules
from ld_agent.backbones.local.steps import (
    BatchSteps,
    CausalSteps,
    PrefixCache,
    Select,
    Seq2SeqSteps,
    no_adapters,
)

__all__ = ["steps_for"]


def steps_for(
    model: Any,
    padding_id: int,
    *,
    select: Select = no_adapters,
    prefixes: PrefixCache | None = None,
    source: Path | str | None = None,
) -> BatchSteps:
    """Choose how a model takes its steps: as written out here, or by transformers' own forward pass.

    Args:
        model: a transformers model. Adapters may be wrapped around its linear modules before or after this call.
        select: tells the adapters which one each row of the coming forward passes uses.
        prefixes: keeps constant prompt beginnings from batch to batch; None: nothing is kept.
        source: where the model was loaded from. Its weights are then rearranged in place for decoding. None leaves them
            alone, as a model that is being tuned needs it.
    """
    frozen = source is not None and model.device.type == "cpu" and model.dtype == torch.bfloat16
    weights = FourBitWeights(source if frozen else None)
    layers = None if model.config.is_encoder_decoder else llama_layers(model, weights)
    if frozen:
        # Modules that decode from their 4-bit form keep plain weights, which read prompts just as fast.
        pack_linear_modules(model, ["lm_head"] if _all_four_bit(layers) else None)
    if model.config.is_encoder_decoder:
        return lambda prompts: Seq2SeqSteps(model, select, prompts, padding_id)
    kind = CausalSteps if layers is None else partial(LlamaSteps, layers=layers)
    return lambda prompts: kind(model, select, prefixes or PrefixCache(), padding_id)


def _all_four_bit(layers: list[Layer] | None) -> bool:
    return layers is not None and all(group.four_bit for layer in layers for group in layer.projections)
