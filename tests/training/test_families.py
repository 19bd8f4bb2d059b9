"""Every family of backbones that ships, on a tiny model of it: it answers through the agent and is tuned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backbones.tiny_models import TEMPLATE, save_model

from ld_agent import Agent, load_config
from training.settings import TrainingSettings
from training.train import tune

FAMILIES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "glm": "GlmForCausalLM",
    "gemma": "GemmaForCausalLM",
    "blenderbot": "BlenderbotForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_the_family_answers_is_tuned_and_loads_its_adapter(
    family: str, settings: Callable[..., TrainingSettings], tmp_path: Path
):
    kind = FAMILIES[family]
    encoder_decoder = kind.endswith("ConditionalGeneration")
    model = save_model(tmp_path / family, kind, None if encoder_decoder else TEMPLATE, max_position_embeddings=1024)
    tune(settings(model=str(model), max_steps=2), "generator")
    plain, tuned = (counted_reply(model, adapter) for adapter in (None, tmp_path / "out"))
    assert plain > 0
    assert tuned > 0


def counted_reply(model: Path, adapter: Path | None) -> int:
    """Let the agent answer once and return how many tokens its model generated."""
    overrides = ['store.path=":memory:"', f"backbone.model={model}", "backbone.dtype=float32"]
    overrides += ["backbone.context_window=1024", "modules.generator.max_new_tokens=8", "memory.views=[none]"]
    overrides += [f"modules.generator.adapter={adapter}"] if adapter else []
    with Agent.from_config(load_config("bare", overrides)) as agent:
        reply = agent.conversation("ann").respond("I keep bees.", at=datetime(2026, 1, 5, tzinfo=UTC))
        return int(reply.tokens.completion)
