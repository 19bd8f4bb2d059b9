"""Recognises the models that the CPU engine can run. Looks at a model, and loads none."""

from __future__ import annotations

from typing import Any

LLAMA_FAMILY = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


def is_plain_llama(model: Any) -> bool:
    """Whether a model is of the Llama family and every token attends to all tokens before it."""
    config = model.config
    if type(model).__name__ not in LLAMA_FAMILY or getattr(config, "sliding_window", None):
        return False
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return False
    return bool(config.num_attention_heads % config.num_key_value_heads == 0)
