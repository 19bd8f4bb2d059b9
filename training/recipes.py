"""Three ways to tune one base on the same rows, to be measured against each other: ours, the plain one, and TRL's.

Each runs in a process of its own: ``python -m training.recipes NAME SETTINGS`` trains as many steps as standard input says,
answers with the seconds they took, and waits for the next number, so that recipes can take turns on one machine. Knows
nothing of what the figures are for; `ld_agent.evaluation.bench.training` does.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainingArguments

from ld_agent.backbones.quiet import quiet_transformers
from training.adapters import lora_config
from training.curves import Curves
from training.examples import IGNORED, Example
from training.prepared import Prepared, adapted, prepare
from training.rows import read_rows
from training.settings import TrainingSettings
from training.trainer import PASSED_ON, AnswerTrainer

Recipe = Callable[[Prepared, TrainingSettings], Trainer]


def main() -> None:
    """Answer on standard output, one JSON object a line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print to stdout too
    recipe, settings = RECIPES[sys.argv[1]], TrainingSettings.model_validate_json(sys.argv[2])
    try:
        with tempfile.TemporaryDirectory() as folder, quiet_transformers():
            _train(recipe, settings.model_copy(update={"output_dir": folder}), answers)
    except ImportError as exc:
        _say(answers, {"missing": exc.name or str(exc)})
    except Exception as exc:  # whatever it was, report it to the other side of the pipe
        traceback.print_exc()
        _say(answers, {"failed": f"{type(exc).__name__}: {exc}"})


def _train(recipe: Recipe, settings: TrainingSettings, answers: TextIO) -> None:
    prepared = prepare(settings, read_rows(str(settings.train_file)), read_rows(str(settings.eval_file)))
    held_out = prepared.evaluation or []
    figures: dict[str, Any] = {
        "base": f"{prepared.model.dtype}".removeprefix("torch."),
        "tokens": sum(map(len, prepared.train)),
        "losses_before": [_loss(prepared.model, example) for example in held_out],
    }
    trainer = recipe(prepared, settings)
    turns = Turns(answers)
    trainer.add_callback(turns)
    trainer.train()
    figures["losses"] = [_loss(trainer.model, example) for example in held_out]
    _say(answers, turns.taken | figures | {"peak_bytes": turns.peak})


class Turns(TrainerCallback):
    """Lets a trainer take the requested number of steps, and reports how long they took."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._left, self._steps, self._start, self._worked, self.peak = 0, 0, 0.0, 0.0, 0
        self.taken: dict[str, Any] = {"steps": 0, "seconds": 0.0}

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._left == 0:
            _say(self._answers, self.taken)
            self._left = int(sys.stdin.readline() or 0)
            self._steps, self._start, self._worked = 0, time.perf_counter(), time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._left, self._steps = self._left - 1, self._steps + 1
        self.taken = {
            "steps": self._steps,
            "seconds": time.perf_counter() - self._start,
            "processor_seconds": time.process_time() - self._worked,
        }
        self.peak = peak_bytes()


def ours(prepared: Prepared, settings: TrainingSettings) -> Trainer:
    """The recipe of `training.train`."""
    model, logits = adapted(prepared, settings)
    silent = settings.model_copy(update={"eval_file": None})
    curves = Curves(Path(settings.output_dir))
    collator, train = prepared.collator, prepared.train
    return AnswerTrainer(model, silent, logits, collator=collator, train=train, evaluation=None, shown=curves)


def plain(prepared: Prepared, settings: TrainingSettings) -> Trainer:
    """PEFT and Trainer in float32: logits at all positions, batches in random order, padded to their longest."""
    from peft import get_peft_model

    model = get_peft_model(prepared.model, lora_config(prepared.model, settings))
    return Trainer(
        model,
        TrainingArguments(**_arguments(settings)),
        train_dataset=_rows(prepared),
        data_collator=partial(_padded, padding=prepared.collator.padding_id),
    )


def trl(prepared: Prepared, settings: TrainingSettings) -> Trainer:
    """TRL's SFTTrainer with loss on completions only, configured for speed: in the base's bfloat16, without recomputing
    activations, rows grouped by length."""
    from datasets import Dataset
    from datasets.table import InMemoryTable
    from peft import get_peft_model
    from trl import SFTConfig, SFTTrainer

    arguments = _arguments(settings) | {
        "gradient_checkpointing": False,
        "train_sampling_strategy": "group_by_length",
        "dataset_kwargs": {"skip_prepare_dataset": True},  # the labels already exclude everything but the completions
    }
    return SFTTrainer(
        get_peft_model(prepared.model, lora_config(prepared.model, settings)),
        SFTConfig(max_length=None, bf16=prepared.model.dtype == torch.bfloat16, **arguments),
        # With a name of its own: to make one, datasets 5 hashes the table, which fails over pyarrow 26.
        train_dataset=Dataset(InMemoryTable.from_pylist(_rows(prepared)), fingerprint="rows"),
        processing_class=prepared.tokenizer,
    )


RECIPES: dict[str, Recipe] = {"ours": ours, "plain": plain, "trl": trl}


def peak_bytes() -> int:
    """Peak memory of this process: on the GPU if it uses one, else in main memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _arguments(settings: TrainingSettings) -> dict[str, Any]:
    passed_on = {key: getattr(settings, key) for key in PASSED_ON}
    return passed_on | {
        "output_dir": settings.output_dir,
        "save_strategy": "no",
        "use_cpu": settings.use_cpu or not torch.cuda.is_available(),
        "disable_tqdm": True,
        "report_to": "none",
        "dataloader_pin_memory": torch.cuda.is_available(),
    }


def _rows(prepared: Prepared) -> list[dict[str, list[int]]]:
    return [{"input_ids": e.prompt + e.answer, "labels": [IGNORED] * len(e.prompt) + e.answer} for e in prepared.train]


def _padded(rows: Sequence[dict[str, list[int]]], padding: int) -> dict[str, Tensor]:
    from torch.nn.utils.rnn import pad_sequence

    values = {"input_ids": padding, "labels": IGNORED, "attention_mask": 0}
    lists = [row | {"attention_mask": [1] * len(row["input_ids"])} for row in rows]
    return {
        key: pad_sequence([torch.tensor(row[key]) for row in lists], batch_first=True, padding_value=value)
        for key, value in values.items()
    }


@torch.no_grad()
def _loss(model: Any, example: Example) -> float:
    """Mean loss over an example's answer tokens, in nats."""
    model.eval()
    ids = torch.tensor([example.prompt + example.answer], device=model.device)
    logits = model(input_ids=ids).logits[0, len(example.prompt) - 1 : -1]
    return float(F.cross_entropy(logits.float(), ids[0, len(example.prompt) :]))


def _say(answers: TextIO, values: dict[str, Any]) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
