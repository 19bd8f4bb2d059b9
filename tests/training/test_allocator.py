"""Freed memory is kept between steps and returned periodically; tested in separate processes."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from training import trainer
from training.settings import TrainingSettings
from training.train import tune

PIECES = """
import torch
from training.allocator import give_back_freed_memory, keep_freed_memory

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS"))

assert keep_freed_memory()
before = resident()
pieces = [torch.ones(2**20) for _ in range(64)]
between = pieces[::16]
del pieces
kept = resident() - before
give_back_freed_memory()
left = resident() - before
assert all(bool((piece == 1).all()) for piece in between)
print(kept, left)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps what it likes")
def test_freed_memory_is_kept_and_given_back():
    out = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True).stdout
    kept, left = map(int, out.split())  # megabytes; 256 were in use, 16 still are
    assert kept > 200
    assert left < 60


def test_a_run_gives_back_every_few_steps(
    settings: Callable[..., TrainingSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(trainer, "STEPS_TO_TRIM", 2)
    monkeypatch.setattr(trainer, "give_back_freed_memory", lambda: given_back.append(1))
    tune(settings(max_steps=5), "extractor")
    assert len(given_back) == 2
