"""Tuning in two processes under torchrun, on CPUs (gloo): the adapter of one process, within rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from training.settings import TrainingSettings

Make = Callable[..., TrainingSettings]


@pytest.mark.slow
def test_two_processes_tune_the_adapter_of_one(settings: Make, tmp_path: Path):
    """With all 24 rows in a step, who has which of them does not matter."""
    whole = {"eval_file": None, "max_steps": 3}
    one = settings(**whole, per_device_train_batch_size=24, output_dir=str(tmp_path / "one"))
    two = settings(**whole, per_device_train_batch_size=12, output_dir=str(tmp_path / "two"))
    _tuned(one, tmp_path / "one.yaml", [sys.executable])
    _tuned(
        two,
        tmp_path / "two.yaml",
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
    )
    alone, shared = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("one", "two"))
    assert alone.keys() == shared.keys()
    assert any(bool(factor.any()) for name, factor in shared.items() if "lora_B" in name)
    assert max(float((alone[name] - shared[name]).abs().max()) for name in alone) < 1e-5


def _tuned(settings: TrainingSettings, config: Path, launcher: list[str]) -> None:
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    done = subprocess.run(
        [*launcher, "-m", "training.train", "extractor", "-c", str(config)], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
