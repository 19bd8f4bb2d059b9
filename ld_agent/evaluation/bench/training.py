"""``ld-agent bench training``: our recipe against the plain one, on one base, with the same rows, batch and LoRA.

Each runs in a process of its own, so that peaks of memory are separate. The rows are prompts of the generator made from the
shipped samples. Knows no tensors; the recipes are `training.recipes`.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.errors import ConfigError
from ld_agent.evaluation.bench.random_memory import START
from ld_agent.evaluation.bench.timing import in_process, machine
from ld_agent.files import shipped_path
from ld_agent.modules.generator import render
from ld_agent.modules.situation import Situation
from ld_agent.running.terminal import errors
from ld_agent.types import Recalled, Record, Utterance

BATCH, LORA_R, LORA_ALPHA, LEARNING_RATE = 8, 8, 16, 5e-4
HELD_OUT = 24
SOURCES = ("three_sessions.jsonl", "three_speakers.jsonl", "msc_session_3.txt", "conversation_chronicles.jsonl")
DTYPES: Mapping[str, str] = {"ours": "auto", "plain": "float32"}


def bench_training(config: Config, steps: int = 8) -> dict[str, Any]:
    """Tune the configured base by both recipes and compare.

    Args:
        steps: optimizer steps of each recipe, of 8 rows.

    Returns:
        ``speedup_vs_plain`` (tokens a second of ours over the plain one's, padding not counted), ``memory_ratio_vs_plain``
        (peaks of the whole processes), ``loss_difference_vs_plain`` (nats a token on rows held out, ours less the plain
        recipe's, with its standard error), and the figures behind them by recipe.
    """
    root = Path(__file__).parents[3]
    if not (root / "training" / "recipes.py").exists():
        raise ConfigError("the installed package does not contain the recipes; run `bench training` in a checkout")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = run_settings(config, Path(folder), steps)
        for name, dtype in DTYPES.items():
            with errors.status(f"measuring the recipe {name} …"):
                chosen = settings | {"dtype": dtype}
                figures[name] = in_process("training.recipes:measured", name, chosen, folder=root, threads=None)
    return _compared(figures, steps)


def run_settings(config: Config, folder: Path, steps: int) -> dict[str, Any]:
    """Write the rows to a folder; return the settings for every recipe."""
    texts = list(rows(BATCH * steps + HELD_OUT))
    train, held_out = folder / "train.jsonl", folder / "held_out.jsonl"
    train.write_text("\n".join(texts[:-HELD_OUT]), encoding="utf-8")
    held_out.write_text("\n".join(texts[-HELD_OUT:]), encoding="utf-8")
    return {
        "model": config.backbone.model,
        "sha256": config.backbone.sha256,
        "trust_remote_code": config.backbone.trust_remote_code,
        "use_cpu": config.backbone.device == "cpu",
        "train_file": str(train),
        "eval_file": str(held_out),
        "output_dir": str(folder),
        "lora_r": LORA_R,
        "lora_alpha": LORA_ALPHA,
        "per_device_train_batch_size": BATCH,
        "learning_rate": LEARNING_RATE,
        **dict.fromkeys(("max_steps", "eval_steps", "save_steps", "logging_steps"), steps),
    }


def _compared(recipes: Mapping[str, Mapping[str, Any]], steps: int) -> dict[str, Any]:
    ours, plain = recipes["ours"], recipes["plain"]
    differences = [a - b for a, b in zip(ours["losses"], plain["losses"], strict=True)]
    return {
        "speedup_vs_plain": round(plain["seconds"] / ours["seconds"], 2),
        "memory_ratio_vs_plain": round(ours["peak_bytes"] / plain["peak_bytes"], 3),
        "loss_difference_vs_plain": round(statistics.mean(differences), 4),
        "loss_difference_standard_error": round(statistics.stdev(differences) / math.sqrt(len(differences)), 4),
        "steps": steps,
        "rows_a_step": BATCH,
        "tokens": ours["tokens"],
        **{
            name: {
                "tokens_per_second": round(of["tokens"] / of["seconds"], 1),
                "peak_megabytes": round(of["peak_bytes"] / 1e6),
                "loss_before": round(statistics.mean(of["losses_before"]), 4),
                "loss_after": round(statistics.mean(of["losses"]), 4),
                "base": of["base"],
            }
            for name, of in recipes.items()
        },
        "machine": machine(),
    }


def rows(count: int) -> Iterator[str]:
    """Make lines of a training file: replies in the shipped samples, each with the generator's prompt after part of the
    running session, with some memories and traits or none. Deterministic.
    """
    rng = random.Random(0)
    said = [
        turn.text for name in SOURCES for e in load_episodes(shipped_path(f"data/samples/{name}")) for turn in e.turns
    ]
    places = list(range(1, len(said)))
    rng.shuffle(places)
    for place in islice(cycle(places), count):
        messages = render(_situation(said, place, rng))
        target = {"role": "assistant", "content": said[place]}
        yield json.dumps({"messages": [*({"role": m.role, "content": m.content} for m in messages), target]})


def _situation(said: Sequence[str], place: int, rng: random.Random) -> Situation:
    spoken = [
        Utterance(f"u{n}", ("Maya", "Sam")[(place - n) % 2 == 0], said[n], START + timedelta(seconds=n), 1)
        for n in range(max(0, place - 1 - rng.randrange(6)), place)
    ]
    events = [(rng.choice(said), START - timedelta(days=9 * n + 1)) for n in range(rng.randrange(3))]
    memories = tuple(Recalled(Record(f"e{n}", "events", *event, 1), 0, 0, 1, 1) for n, event in enumerate(events))
    traits = {name: tuple(rng.sample(said, rng.randrange(1, 4))) for name in ("Sam", "Maya") if rng.random() < 0.6}
    return Situation("Sam", spoken[-1], tuple(spoken[:-1]), memories, traits, ("Maya",))
