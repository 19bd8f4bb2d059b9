"""``--dry-run``: show prompts as the model sees them, token counts and a time estimate, without training."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from ld_agent.terminal import console
from training.answers import AnswerLogits, Batch, answer_losses
from training.prepared import Prepared, adapted, prepare, rows_of
from training.settings import TrainingSettings

SHOWN = 3
"""Rows that are shown."""
LONGEST_TRIAL = 10.0
"""Maximum number of seconds for timing one batch."""


def show(settings: TrainingSettings, module: str) -> None:
    """Print what a run with these settings would do.

    Raises: as in `training.train.tune`.
    """
    prepared = prepare(settings, *rows_of(settings, module))
    for number, example in enumerate(prepared.train[:SHOWN], 1):
        console.rule(f"row {number}: {len(example.prompt)} prompt tokens, {len(example.answer)} answer tokens")
        _print(prepared.tokenizer.decode(example.prompt, skip_special_tokens=False))
        console.rule("answer", style="dim")
        _print(prepared.tokenizer.decode(example.answer, skip_special_tokens=False))
    console.rule("tokens")
    _print(_counts("prompt", [len(e.prompt) for e in prepared.train]))
    _print(_counts("answer", [len(e.answer) for e in prepared.train]))
    cut = sum(e.cut > 0 for e in prepared.train)
    _print(f"{len(prepared.train)} rows, {sum(prepared.train.lengths)} tokens per epoch, {cut} prompts truncated")
    model, logits = adapted(prepared, settings)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
    each_epoch = math.ceil(len(prepared.train) / batch)
    steps = settings.max_steps if settings.max_steps > 0 else math.ceil(settings.num_train_epochs * each_epoch)
    seconds = _seconds_a_token(model, logits, prepared, settings) * sum(prepared.train.lengths) / each_epoch
    _print(f"{trained:,} trainable parameters, {model.dtype} base {settings.model}")
    _print(
        f"{steps} steps of {batch} rows, {seconds:.2f} s each: about {_duration(steps * seconds)} without evaluation"
    )


def _seconds_a_token(model: Any, logits: AnswerLogits, prepared: Prepared, settings: TrainingSettings) -> float:
    """Time forward and backward passes per token on rows of median length, on a whole batch if that is fast enough."""
    lengths = prepared.train.lengths
    ordered = sorted(range(len(lengths)), key=lambda place: lengths[place])
    size = min(settings.per_device_train_batch_size, len(ordered))
    start = (len(ordered) - size) // 2
    examples = [prepared.train[place] for place in ordered[start : start + size]]
    model.train()
    _pass_seconds(model, logits, prepared.collator(examples[:1]))  # warm up
    one = _pass_seconds(model, logits, prepared.collator(examples[:1]))
    if one * size > LONGEST_TRIAL:
        return one / len(examples[0])
    return _pass_seconds(model, logits, prepared.collator(examples)) / sum(map(len, examples))


def _pass_seconds(model: Any, logits: AnswerLogits, batch: Batch) -> float:
    batch = {key: value.to(model.device) for key, value in batch.items()}
    start = time.perf_counter()
    chosen, targets, _ = logits(model, batch)
    torch.autograd.backward(answer_losses(chosen, targets).mean())
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _counts(what: str, numbers: Sequence[int]) -> str:
    ordered = sorted(numbers)
    percentile = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    median = statistics.median(ordered)
    return f"{what} tokens: min {ordered[0]}, median {median:.0f}, 95th percentile {percentile}, max {ordered[-1]}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min"
        if minutes
        else f"{seconds:.0f} s"
    )


def _print(text: str) -> None:
    from ld_agent.terminal import plain

    console.print(plain(text), soft_wrap=True)
