"""transformers' Trainer with this project's loss, batches and evaluation. Knows no files but checkpoints, and no prompts.

Losses are means over answer tokens: of one optimizer step in training, of the whole file in evaluation, regardless of
batches and processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import EvalLoopOutput

from training.adapters import write_factors
from training.answers import AnswerLogits, Batch, answer_losses
from training.examples import IGNORED, Collator, Example, Examples, LengthGrouped
from training.settings import TrainingSettings

PASSED_ON = (
    "use_cpu num_train_epochs max_steps per_device_train_batch_size per_device_eval_batch_size "
    "gradient_accumulation_steps learning_rate lr_scheduler_type warmup_steps weight_decay "
    "max_grad_norm logging_steps eval_steps save_steps save_total_limit seed"
).split()


def arguments(settings: TrainingSettings) -> TrainingArguments:
    """transformers' arguments of a run."""
    steered = settings.eval_file is not None
    return TrainingArguments(
        output_dir=settings.output_dir,
        eval_strategy="steps" if steered else "no",
        save_strategy="steps",
        load_best_model_at_end=steered,
        metric_for_best_model="eval_loss" if steered else None,
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
        report_to="none",
        ddp_find_unused_parameters=False,
        **{key: getattr(settings, key) for key in PASSED_ON},
        **({"gradient_checkpointing": True} if settings.gradient_checkpointing else {}),
    )


class AnswerTrainer(Trainer):
    """Trains on answers alone.

    Args:
        model: a PEFT model.
        logits: made of the model inside it.
        shown: shows progress.
    """

    def __init__(
        self,
        model: Any,
        settings: TrainingSettings,
        logits: AnswerLogits,
        *,
        collator: Collator,
        train: Sequence[Example],
        evaluation: Sequence[Example] | None,
        shown: TrainerCallback,
    ) -> None:
        # Evaluate by length, which needs little padding; the mean does not depend on the order.
        by_length = None if evaluation is None else Examples(sorted(evaluation, key=len, reverse=True))
        self._order = LengthGrouped(
            [len(example) for example in train], settings.per_device_train_batch_size, settings.seed
        )
        patience = [EarlyStoppingCallback(settings.early_stopping_patience)] if settings.early_stopping_patience else []
        super().__init__(
            model,
            arguments(settings),
            data_collator=collator,
            train_dataset=Examples(train),
            eval_dataset=by_length,
            callbacks=[_Epoch(self._order), shown, *patience],
        )
        self.remove_callback(PrinterCallback)
        self._logits, self._smoothing = logits, settings.label_smoothing_factor
        # Accumulated batches then weight every answer token equally.
        self.model_accepts_loss_kwargs = True
        self._tokens, self._seconds = 0, 0.0

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The mean loss over answer tokens, of ``num_items_in_batch`` of them where the step has several batches."""
        logits, targets, _ = self._logits(model, inputs)
        losses = answer_losses(logits, targets, self._smoothing)
        if num_items_in_batch is None:
            loss = losses.mean()
        else:
            loss = losses.sum() / num_items_in_batch
            if self.args.average_tokens_across_devices:
                loss = loss * self.accelerator.num_processes
        return (loss, {"logits": logits}) if return_outputs else loss

    def training_step(self, model: nn.Module, inputs: Batch, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """As in transformers, also counting tokens and seconds."""
        start = time.perf_counter()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._seconds += time.perf_counter() - start
        tokens = inputs["attention_mask"].sum() if "attention_mask" in inputs else inputs["input_ids"].numel()
        self._tokens += int(tokens) + (int((inputs["labels"] != IGNORED).sum()) if "attention_mask" in inputs else 0)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """As transformers', with tokens a second since the last log, padding included, evaluations not."""
        if "loss" in logs and self._seconds:
            logs["tokens_per_second"] = round(self.accelerator.num_processes * self._tokens / self._seconds, 1)
            self._tokens, self._seconds = 0, 0.0
        super().log(logs, start_time)

    @torch.no_grad()
    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """The mean loss over all answer tokens of a file.

        Examples that fill up the last batch of a launch count once.
        """
        self.model.eval()
        total, count, examples = 0.0, 0.0, 0
        for batch in dataloader:
            inputs = self._prepare_inputs(batch)
            logits, targets, rows = self._logits(self.model, inputs)
            sums = torch.zeros(len(inputs["labels"]), 2, device=logits.device, dtype=torch.float64)
            sums[:, 0].index_add_(0, rows, answer_losses(logits, targets).double())
            sums[:, 1] = (inputs["labels"] != IGNORED).sum(1)
            gathered = self.accelerator.gather_for_metrics(sums)
            total, count = total + float(gathered[:, 0].sum()), count + float(gathered[:, 1].sum())
            examples += len(gathered)
        metrics = {f"{metric_key_prefix}_loss": total / count}
        return EvalLoopOutput(predictions=None, label_ids=None, metrics=metrics, num_samples=examples)

    def take_up(self, checkpoint: Path) -> None:
        """Load the state of a finished run from its last checkpoint, and the weights from its best."""
        from peft import set_peft_model_state_dict
        from safetensors.torch import load_file

        self.state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        best = Path(self.state.best_model_checkpoint or checkpoint)
        set_peft_model_state_dict(self.model, load_file(best / "adapter_model.safetensors"))

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGrouped:
        return self._order

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        if self.args.should_save:
            folder = output_dir or self.args.output_dir
            model = self.accelerator.unwrap_model(self.model)
            write_factors(model, model.state_dict() if state_dict is None else state_dict, Path(folder))


class _Epoch(TrainerCallback):
    """Tells the sampler the current epoch, even if the data loader around it was wrapped or shortened."""

    def __init__(self, order: LengthGrouped) -> None:
        self._order = order

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._order.epoch = int(state.epoch or 0)


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a folder, oldest first. An interrupted one lacks its state, which is written last."""
    numbered = [p for p in folder.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit()]
    return sorted(
        (p for p in numbered if state_of(p) is not None), key=lambda p: int(p.name.removeprefix("checkpoint-"))
    )


def finished(checkpoint: Path) -> bool:
    """Whether the run of a checkpoint had ended, by its steps or by early stopping."""
    state = state_of(checkpoint) or {}
    control = state.get("stateful_callbacks", {}).get("TrainerControl", {}).get("args", {})
    return bool(control.get("should_training_stop")) or state.get("global_step", 0) >= state.get("max_steps", 1)


def state_of(checkpoint: Path) -> dict[str, Any] | None:
    """The trainer's state in a checkpoint; None: it is incomplete."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None
