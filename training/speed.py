"""Measures the parts of the recipe: alternating steps with and without each part.

    python -m training.speed [STEPS] [lora_sum answers grouping attention]

Prints a line of JSON per part: ratios without to with of processor time, wall time (median over steps) and peak memory.
The rows, batch and LoRA are those of ``ld-agent bench training``. See docs/tuning-speed.md.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

import training.answers
import training.attention
import training.lora_sum
import training.trainer
from ld_agent.config import load_config
from ld_agent.evaluation.bench.training import Recipe, run_settings
from training import recipes
from training.examples import LengthGrouped

MODULE = "training.speed"


class Shuffled(LengthGrouped):
    """Rows in random order, regardless of length."""

    def __iter__(self) -> Iterator[int]:
        order: list[int] = torch.randperm(len(self), generator=torch.Generator().manual_seed(0)).tolist()
        return iter(order)


WITHOUT: Mapping[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "lora_sum": lambda: setattr(training.lora_sum, "quicken", lambda model: 0),
    "answers": lambda: setattr(training.answers.AnswerLogits, "_agrees", lambda self, model: False),
    "grouping": lambda: setattr(training.trainer, "LengthGrouped", Shuffled),
    "attention": lambda: setattr(training.attention, "use_causal_attention", lambda model: False),
}


def compare(part: str, steps: int) -> dict[str, float | str]:
    """Train with and without a part; the first step of both is a warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        settings = run_settings(load_config("default"), Path(folder), steps)
        root = Path(__file__).parents[1]
        with Recipe("nothing", settings, root, MODULE) as whole, Recipe(part, settings, root, MODULE) as without:
            taken: list[list[dict[str, float]]] = [[], []]
            for step in range(steps):
                for side in (0, 1) if step % 2 else (1, 0):
                    taken[side].append((whole, without)[side].take(1))
    used = [sum(step["processor_seconds"] for step in side[1:]) for side in taken]
    wall = [b["seconds"] / a["seconds"] for a, b in zip(taken[0][1:], taken[1][1:], strict=True)]
    peaks = [side[-1]["peak_bytes"] for side in taken]
    return {
        "without": part,
        "processor_time": round(used[1] / used[0], 3),
        "wall_time": round(statistics.median(wall), 3),
        "memory": round(peaks[1] / peaks[0], 3),
    }


def main() -> None:
    """Compare, or be one side of a comparison (``python -m training.speed PART SETTINGS``)."""
    if len(sys.argv) == 3 and sys.argv[1] in WITHOUT:
        WITHOUT[sys.argv[1]]()
        sys.argv[1] = "ours"
        recipes.main()
        return
    steps, *parts = sys.argv[1:] or ["9"]
    for part in parts or [name for name in WITHOUT if name != "nothing"]:
        sys.stdout.write(json.dumps(compare(part, int(steps))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
