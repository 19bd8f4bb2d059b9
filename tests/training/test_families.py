"""Every family of backbones that ships, on a tiny model of it: it answers through the agent and is tuned."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backbones.tiny_models import TEMPLATE, save_model

from ld_agent import Agent, load_config
from ld_agent.datasets import load_episodes
from ld_agent.evaluation.run_files import read_run
from ld_agent.evaluation.runner import perform
from ld_agent.evaluation.tables.filled import FilledTable
from ld_agent.evaluation.tables.paper_figures import paper_table
from ld_agent.evaluation.tables.runs import collect
from ld_agent.evaluation.tasks.response import ResponseTask
from ld_agent.files import shipped_path
from training.generator import build_generator
from training.rows import write_rows
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


def test_bart_is_tuned_on_ubuntu_irc_and_scored_on_its_answers(
    settings: Callable[..., TrainingSettings], tmp_path: Path
):
    """LD-Agent's Table 5 in small: rows, two steps, and a run that stands in its table."""
    model = save_model(tmp_path / "bart", "BartForConditionalGeneration", None, max_position_embeddings=1024)
    backbone = [f"backbone.model={model}", "backbone.dtype=float32", "backbone.context_window=1024"]
    plain = [*backbone, "modules.generator.max_new_tokens=8", "memory.views=[none]", "personas.cap=0"]
    config = load_config("bare", plain)
    irc = shipped_path("data/samples/ubuntu_irc.jsonl")
    pairs = [("ubuntu_irc", episode) for episode in load_episodes(irc)]
    rows = build_generator(pairs, config)
    write_rows(tmp_path / "rows.jsonl", rows)
    tune(settings(model=str(model), max_steps=2, train_file=str(tmp_path / "rows.jsonl"), eval_file=None), "generator")
    tuned = load_config("bare", [*plain, f"modules.generator.adapter={tmp_path / 'out'}"])
    run = tmp_path / "runs" / "bart"
    perform(ResponseTask(irc, tuned, no_perplexity=True), tuned, "bart", data=irc, out=run, limit=None)
    assert [p.references for p in read_run(run).predictions] == [(pairs[0][1].turns[-1].text,)]
    filled = FilledTable(paper_table("ld-agent-5"), collect(tmp_path / "runs"))
    assert [line.label for line in filled.lines if line.ours and any(line.cells)] == ["ours: bart"]


def counted_reply(model: Path, adapter: Path | None) -> int:
    """Let the agent answer once and return how many tokens its model generated."""
    overrides = ['store.path=":memory:"', f"backbone.model={model}", "backbone.dtype=float32"]
    overrides += ["backbone.context_window=1024", "modules.generator.max_new_tokens=8", "memory.views=[none]"]
    overrides += [f"modules.generator.adapter={adapter}"] if adapter else []
    with Agent.from_config(load_config("bare", overrides)) as agent:
        reply = agent.conversation("ann").respond("I keep bees.", at=datetime(2026, 1, 5, tzinfo=UTC))
        return int(reply.tokens.completion)
