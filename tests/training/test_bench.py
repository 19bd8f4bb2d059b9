"""``ld-agent bench training`` on a tiny base: the same rows for every recipe, each in a separate process."""

import json
from pathlib import Path

import pytest
from backbones.tiny_models import save_model

from ld_agent.config import load_config
from ld_agent.errors import ModelError
from ld_agent.evaluation.bench.training import BATCH, bench_training, rows


def test_rows_are_reproducible_and_resemble_the_generators():
    made = list(rows(40))
    assert made == list(rows(40))
    assert len(set(made)) == 40
    shapes = [[m["role"] for m in json.loads(row)["messages"]] for row in made]
    assert all(shape[0] == "system" and shape[-2:] == ["user", "assistant"] for shape in shapes)
    assert len({len(shape) for shape in shapes}) > 3


def test_recipes_are_compared(tmp_path: Path):
    base = save_model(tmp_path / "llama", "LlamaForCausalLM", max_position_embeddings=4096)
    found = bench_training(load_config("default", [f"backbone.model={base}", "backbone.device=cpu"]), steps=3)
    ours, plain = found["ours"], found["plain"]
    assert found["speedup_vs_plain"] == pytest.approx(ours["tokens_per_second"] / plain["tokens_per_second"], rel=0.02)
    assert found["memory_ratio_vs_plain"] == pytest.approx(ours["peak_megabytes"] / plain["peak_megabytes"], rel=0.02)
    assert plain["base"] == "float32"
    assert ours["loss_before"] == pytest.approx(plain["loss_before"], rel=0.02)
    assert ours["loss_after"] != ours["loss_before"]
    assert found["loss_difference_vs_plain"] == pytest.approx(ours["loss_after"] - plain["loss_after"], abs=2e-4)
    assert (found["steps"], found["rows_a_step"]) == (3, BATCH)


def test_a_failing_recipe_reports_the_reason(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(ModelError, match=r"training\.recipes:measured failed"):
        bench_training(load_config("default", ["backbone.model=/no_such_model"]), steps=2)
    assert "no_such_model" in capfd.readouterr().err
