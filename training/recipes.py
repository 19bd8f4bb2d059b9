"""Two ways to tune one base on the same rows, to be measured against each other: ours, and the plain one.

Knows nothing of what the figures are for; `ld_agent.evaluation.bench.training` runs each in a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from transformers import DataCollatorForSeq2Seq, Trainer, TrainerCallback, TrainingArguments

from ld_agent.backbones.quiet import quiet_transformers
from training.adapters import lora_config
from training.examples import Example
from training.prepared import Prepared, adapted, prepare
from training.rows import read_rows
from training.settings import TrainingSettings
from training.trainer import PASSED_ON, AnswerTrainer

Recipe = Callable[[Prepared, TrainingSettings], Trainer]


def measured(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Train by a recipe with some settings; return seconds of its steps, tokens, losses on rows held out, and peak memory."""
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        settings = TrainingSettings.model_validate({**values, "output_dir": folder})
        prepared = prepare(settings, read_rows(str(settings.train_file)), read_rows(str(settings.eval_file)))
        held_out = prepared.evaluation or []
        before = [_loss(prepared.model, example) for example in held_out]
        trainer, clock = RECIPES[name](prepared, settings), Clock()
        trainer.add_callback(clock)
        trainer.train()
        return {
            "base": f"{prepared.model.dtype}".removeprefix("torch."),
            "tokens": sum(map(len, prepared.train)),
            "seconds": clock.seconds,
            "losses_before": before,
            "losses": [_loss(trainer.model, example) for example in held_out],
            "peak_bytes": clock.peak,
        }


class Clock(TrainerCallback):
    """Measures the steps of a trainer: their seconds, without what comes before the first, and the peak memory at the last."""

    def __init__(self) -> None:
        self.seconds, self.peak, self._start = 0.0, 0, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._start = self._start or time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds, self.peak = time.perf_counter() - self._start, peak_bytes()


def ours(prepared: Prepared, settings: TrainingSettings) -> Trainer:
    """The recipe of `training.train`."""
    model, logits = adapted(prepared, settings)
    silent = settings.model_copy(update={"eval_file": None})
    return AnswerTrainer(model, silent, logits, replace(prepared, evaluation=None))


def plain(prepared: Prepared, settings: TrainingSettings) -> Trainer:
    """PEFT and Trainer in float32: logits at all positions, batches in random order, padded to their longest."""
    from peft import get_peft_model

    rows = [
        {"input_ids": [*e.prompt, *e.answer], "attention_mask": [1] * len(e), "labels": e.labels}
        for e in prepared.train
    ]
    arguments = TrainingArguments(
        **{key: getattr(settings, key) for key in PASSED_ON if key != "use_cpu"},
        output_dir=settings.output_dir,
        save_strategy="no",
        use_cpu=settings.use_cpu or not torch.cuda.is_available(),
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=torch.cuda.is_available(),
    )
    model = get_peft_model(prepared.model, lora_config(prepared.model, settings))
    tokenizer = prepared.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorForSeq2Seq(tokenizer))


RECIPES: dict[str, Recipe] = {"ours": ours, "plain": plain}


def peak_bytes() -> int:
    """Peak memory of this process: on the GPU if it uses one, else in main memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


@torch.no_grad()
def _loss(model: Any, example: Example) -> float:
    """Mean loss over an example's answer tokens, in nats."""
    model.eval()
    ids = torch.tensor([[*example.prompt, *example.answer]], device=model.device)
    logits = model(input_ids=ids).logits[0, len(example.prompt) - 1 : -1]
    return float(F.cross_entropy(logits.float(), ids[0, len(example.prompt) :]))
