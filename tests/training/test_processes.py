"""Tuning with a base spread over two processes by FSDP, on CPUs (gloo): the adapter of one process, within rounding.

Two processes that both hold the base are launched in `test_settings`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]


PAIR = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


@pytest.mark.slow
def test_a_base_spread_over_two_processes_is_tuned_as_in_one(settings: Make, tmp_path: Path):
    """With all 24 rows in a step, who has which does not matter."""
    whole = {"eval_file": None, "max_steps": 3}
    tune(settings(**whole, per_device_train_batch_size=24, output_dir=str(tmp_path / "one")), "extractor")
    chosen = settings(**whole, per_device_train_batch_size=12, output_dir=str(tmp_path / "spread"))
    script = str(Path(__file__).with_name("sharded_on_cpus.py"))
    printed = _tuned(chosen, tmp_path / "spread.yaml", [*PAIR, script])
    alone, shared = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("one", "spread"))
    assert any(bool(factor.any()) for name, factor in alone.items() if "lora_B" in name)
    assert alone.keys() == shared.keys()
    assert max(float((alone[name] - shared[name]).abs().max()) for name in alone) < 1e-5
    shares = re.findall(r"holds (\d+) of (\d+), (\d+) of (\d+) weights", printed)
    assert len(shares) == 2
    assert sum(int(held) for held, *_ in shares) == int(shares[0][1])
    assert all(0.4 < int(held) / int(size) < 0.6 and some == every for held, size, some, every in shares)


def _tuned(settings: TrainingSettings, config: Path, launcher: list[str]) -> str:
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    done = subprocess.run(
        [*launcher, "extractor", "-c", str(config)], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
