"""Settings for tuning tiny models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_parts import Commands, toy_rows, write

from training.settings import TrainingSettings


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(monkeypatch, capsys)


@pytest.fixture
def settings(tmp_path: Path, tiny_llama: Path) -> Callable[..., TrainingSettings]:
    """Create settings for a run on the toy rows, with output in ``tmp_path / "out"``."""
    train = write(tmp_path / "train.jsonl", toy_rows())
    evaluation = write(tmp_path / "eval.jsonl", toy_rows(7))

    def make(**changes: Any) -> TrainingSettings:
        values: dict[str, Any] = {
            "model": str(tiny_llama),
            "dtype": "float32",
            "use_cpu": True,
            "train_file": str(train),
            "eval_file": str(evaluation),
            "output_dir": str(tmp_path / "out"),
            "max_steps": 8,
            "learning_rate": 0.02,
            "per_device_train_batch_size": 4,
            "logging_steps": 1,
            "eval_steps": 2,
            "save_steps": 2,
            "adapter_dtype": "float32",
        }
        return TrainingSettings.model_validate(values | changes)

    return make
