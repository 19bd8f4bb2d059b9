"""Tuning that starts from an adapter, as the paper's ablations start from a model tuned on context only."""

from collections.abc import Callable
from pathlib import Path

import pytest
from training_parts import log_of

from ld_agent.errors import ConfigError, ModelError
from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]


def first_loss(folder: Path) -> float:
    return float(next(row["eval_loss"] for row in log_of(folder) if row["eval_loss"]))


def test_the_loss_starts_at_that_of_the_adapter(settings: Make, tmp_path: Path):
    tune(settings(max_steps=30, output_dir=str(tmp_path / "first")), "generator")
    tune(settings(max_steps=2, output_dir=str(tmp_path / "afresh")), "generator")
    tune(settings(max_steps=2, adapter=str(tmp_path / "first"), output_dir=str(tmp_path / "on")), "generator")
    assert first_loss(tmp_path / "on") < 0.7 * first_loss(tmp_path / "afresh")


def test_an_adapter_of_another_shape_is_rejected(settings: Make, tmp_path: Path):
    tune(settings(max_steps=2, output_dir=str(tmp_path / "first"), lora_target_modules=["q_proj"]), "generator")
    before = {"adapter": str(tmp_path / "first"), "output_dir": str(tmp_path / "on")}
    for changes, message in (
        ({"lora_r": 4}, "lora_r=8"),
        ({"lora_alpha": 8}, "lora_alpha=32"),
        ({"lora_target_modules": ["q_proj", "v_proj"]}, "lora_target_modules"),
    ):
        with pytest.raises(ConfigError, match=message):
            tune(settings(**before | changes), "generator")
    with pytest.raises(ModelError, match="nowhere"):
        tune(settings(adapter=str(tmp_path / "nowhere")), "generator")
    assert not (tmp_path / "on").exists()
