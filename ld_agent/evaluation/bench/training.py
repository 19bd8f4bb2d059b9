"""``ld-agent bench training``: our recipe against the plain one and TRL's, on one base, with the same rows, batch and LoRA.

Every recipe runs in a process of its own, so that peaks of memory are separate. The recipes alternate, so that other
load on the machine slows all of them equally. The rows are prompts of the generator made from the shipped samples.
Knows no tensors; the recipes are `training.recipes`.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.errors import ConfigError, ModelError
from ld_agent.evaluation.bench.random_memory import START
from ld_agent.evaluation.bench.timing import machine
from ld_agent.files import shipped_path
from ld_agent.modules.generator import Situation, render
from ld_agent.terminal import errors
from ld_agent.types import Recalled, Record, Utterance

BATCH, LORA_R, LORA_ALPHA, LEARNING_RATE = 8, 8, 16, 5e-4
HELD_OUT = 24
A_TURN = 2
"""Number of steps a recipe takes before the next one continues."""
SOURCES = ("three_sessions.jsonl", "three_speakers.jsonl", "msc_session_3.txt", "conversation_chronicles.jsonl")
DTYPES: Mapping[str, str] = {"ours": "auto", "plain": "float32", "trl": "auto"}
Recipe = Callable[[int], dict[str, Any]]
MISSING = "not measured: pip install 'ld_agent[bench]'"


def bench_training(config: Config, steps: int = 8) -> dict[str, Any]:
    """Tune the configured base by every recipe and compare.

    Args:
        steps: optimizer steps of each recipe, of 8 rows.

    Returns:
        ``speedup_vs_plain`` and ``speedup_vs_trl`` (tokens a second of ours over theirs, padding not counted),
        ``memory_ratio_vs_plain`` (peaks of the whole processes), ``loss_difference_vs_plain`` (nats a token on rows held
        out, ours less the plain recipe's, with its standard error), and the figures behind them by recipe. Without TRL
        its figures are null.
    """
    root = Path(__file__).parents[3]
    if not (root / "training" / "recipes.py").exists():
        raise ConfigError("the installed package does not contain the recipes; run `bench training` in a checkout")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        settings = run_settings(config, Path(folder), steps)
        running: dict[str, Recipe] = {}
        figures: dict[str, dict[str, Any]] = {}
        for name, dtype in DTYPES.items():
            errors.print(f"loading: {name}", markup=False)
            trained = stack.enter_context(recipe(name, settings | {"dtype": dtype}, root))
            if "missing" not in trained(0):
                running[name], figures[name] = trained, {"seconds": 0.0}
        for done in range(0, steps, A_TURN):
            for name, trained in running.items():
                took = trained(min(A_TURN, steps - done))
                figures[name] = took | {"seconds": figures[name]["seconds"] + took["seconds"]}
                told = f"{name}: {min(done + A_TURN, steps)} of {steps} steps, {figures[name]['seconds']:.1f} s"
                errors.print(told, markup=False)
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
    ours, plain, other = recipes["ours"], recipes["plain"], recipes.get("trl")
    differences = [a - b for a, b in zip(ours["losses"], plain["losses"], strict=True)]
    return {
        "speedup_vs_plain": round(plain["seconds"] / ours["seconds"], 2),
        "speedup_vs_trl": round(other["seconds"] / ours["seconds"], 2) if other else None,
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
        **({} if other else {"trl": MISSING}),
        "machine": machine(),
    }


@contextmanager
def recipe(name: str, settings: Mapping[str, Any], root: Path) -> Iterator[Recipe]:
    """Start a recipe in its own process; yield a function that trains some steps (0: loads) and returns the recipe's report."""
    process = subprocess.Popen(
        [sys.executable, "-m", "training.recipes", name, json.dumps(settings)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if errors.is_terminal else subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )

    def trained(steps: int) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        if steps:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
        if not answer or "failed" in answer:
            reason = answer.get("failed") or "it exited without an answer"
            raise ModelError(f"the recipe {name} failed ({reason}); check its output, or run it again")
        return answer

    try:
        yield trained
    finally:
        process.kill()
        process.communicate()


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
