"""Decoding with the Llama family on a CPU, faster than transformers does. `steps_for` is the only way in.

Knows models, weights and the state of one batch; nothing of text, sampling or stopping.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ld_agent.backbones.local.fast_cpu.four_bit import FourBitWeights, UnpackedEmbedding
from ld_agent.backbones.local.fast_cpu.llama import LlamaSteps, is_small, llama_layers
from ld_agent.backbones.local.fast_cpu.packed import pack_linear_modules
from ld_agent.backbones.local.steps import BatchSteps, CausalSteps, PrefixCache, Select, Seq2SeqSteps
from ld_agent.backbones.quiet import return_free_memory

__all__ = ["steps_for"]


def steps_for(model: Any, padding_id: int, *, select: Select, prefixes: PrefixCache, source: Path | str) -> BatchSteps:
    """Choose how a model takes its steps: as written out here, or by transformers' own forward pass.

    Args:
        model: a transformers model, whose weights may be rearranged in place; a large one keeps weights of 4 bits in that
            form only. Adapters may be wrapped around its linear modules before or after this call.
        select: tells the adapters which one each row of the coming forward passes uses.
        prefixes: keeps constant prompt beginnings from batch to batch.
        source: where the model was loaded from.
    """
    frozen = model.device.type == "cpu" and model.dtype == torch.bfloat16
    compact = frozen and not is_small(model) and "fbgemm" in torch.backends.quantized.supported_engines
    weights = FourBitWeights(source if frozen else None, compact)
    if compact:
        _let_go_of_files(model, weights)
    layers = None if model.config.is_encoder_decoder else llama_layers(model, weights)
    if frozen:
        # In a small model, modules that decode from their 4-bit form keep plain weights, which read prompts just as fast.
        pack_linear_modules(model, weights.multiplied)
        return_free_memory()
    if model.config.is_encoder_decoder:
        return lambda prompts: Seq2SeqSteps(model, select, prompts, padding_id)
    kind = CausalSteps if layers is None else partial(LlamaSteps, layers=layers)
    return lambda prompts: kind(model, select, prefixes, padding_id)


def _let_go_of_files(model: Any, weights: FourBitWeights) -> None:
    """Copy what stays plain: a mapped file stays in memory as long as any tensor in it.

    The largest module is packed before anything else takes room.
    """
    head = model.get_output_embeddings()
    pack_linear_modules(model, [module for module in model.modules() if module is not head])
    if groups := weights.take(["model.embed_tokens.weight"]):
        model.model.embed_tokens = UnpackedEmbedding(*groups)
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if parameter.dim() == 1 or isinstance(module, nn.Embedding):
                parameter.data = parameter.data.clone()
