"""``--dry-run``: show prompts as the model sees them, and token counts, without training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ld_agent.terminal import console
from training.prepared import prepare, rows_of
from training.settings import TrainingSettings

SHOWN = 3
"""Rows that are shown."""


def show(settings: TrainingSettings, module: str) -> None:
    """Print what a run with these settings would do.

    Raises: as in `training.train.tune`.
    """
    prepared = prepare(settings, *rows_of(settings, module))
    for number, example in enumerate(prepared.train[:SHOWN], 1):
        console.rule(f"row {number}: {len(example.prompt)} prompt tokens, {len(example.answer)} answer tokens")
        _print(prepared.tokenizer.decode(list(example.prompt), skip_special_tokens=False))
        console.rule("answer", style="dim")
        _print(prepared.tokenizer.decode(list(example.answer), skip_special_tokens=False))
    console.rule("tokens")
    _print(_counts("prompt", [len(e.prompt) for e in prepared.train]))
    _print(_counts("answer", [len(e.answer) for e in prepared.train]))
    cut = sum(e.cut > 0 for e in prepared.train)
    _print(f"{len(prepared.train)} rows, {sum(map(len, prepared.train))} tokens per epoch, {cut} prompts truncated")
    batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
    by_epochs = math.ceil(settings.num_train_epochs * math.ceil(len(prepared.train) / batch))
    steps = settings.max_steps if settings.max_steps > 0 else by_epochs
    _print(f"{steps} steps of {batch} rows, {prepared.model.dtype} base {settings.model}")


def _counts(what: str, numbers: Sequence[int]) -> str:
    ordered = sorted(numbers)
    percentile = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    median = statistics.median(ordered)
    return f"{what} tokens: min {ordered[0]}, median {median:.0f}, 95th percentile {percentile}, max {ordered[-1]}"


def _print(text: str) -> None:
    from ld_agent.terminal import plain

    console.print(plain(text), soft_wrap=True)
