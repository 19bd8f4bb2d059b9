"""transformers' Trainer with this project's loss, batches and evaluation. Knows no files and no prompts.

Losses are means over answer tokens: of one optimizer step in training, of the whole file in evaluation, regardless of
batches and processes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import EvalLoopOutput

from ld_agent.running.terminal import bars, errors
from training.answers import AnswerLogits, Batch, answer_losses
from training.examples import IGNORED, LengthGrouped
from training.prepared import Prepared, is_first_process
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
        include_num_input_tokens_seen=True,
        **{key: getattr(settings, key) for key in PASSED_ON},
        **({"gradient_checkpointing": True} if settings.gradient_checkpointing else {}),
    )


class AnswerTrainer(Trainer):
    """Trains on answers alone.

    Args:
        model: a PEFT model.
        logits: made of the model inside it.
        prepared: the rows.

    Attributes:
        bar: shows progress on standard error while it is started.
    """

    def __init__(self, model: Any, settings: TrainingSettings, logits: AnswerLogits, prepared: Prepared) -> None:
        # Evaluate by length, which needs little padding; the mean does not depend on the order.
        evaluation = prepared.evaluation and sorted(prepared.evaluation, key=len, reverse=True)
        self._order = LengthGrouped(list(map(len, prepared.train)), settings.per_device_train_batch_size, settings.seed)
        self.bar = bars(shown=is_first_process())
        patience = [EarlyStoppingCallback(settings.early_stopping_patience)] if settings.early_stopping_patience else []
        super().__init__(
            model,
            arguments(settings),
            data_collator=prepared.collator,
            train_dataset=prepared.train,
            eval_dataset=evaluation,
            callbacks=[_Epoch(self._order), _Progress(self.bar), *patience],
        )
        self.remove_callback(PrinterCallback)
        self._logits, self._smoothing = logits, settings.label_smoothing_factor
        # Accumulated batches then weight every answer token equally.
        self.model_accepts_loss_kwargs = True

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

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGrouped:
        return self._order

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        if self.args.should_save:  # without a question to the hub for the size of the vocabulary
            self.accelerator.unwrap_model(self.model).save_pretrained(output_dir, save_embedding_layers=False)


class _Epoch(TrainerCallback):
    """Tells the sampler the current epoch, even if the data loader around it was wrapped or shortened."""

    def __init__(self, order: LengthGrouped) -> None:
        self._order = order

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._order.epoch = int(state.epoch or 0)


class _Progress(TrainerCallback):
    """Advances a bar, and prints losses on standard error."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._task = self._bar.add_task("training", total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar.update(self._task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        shown = {"loss": "loss", "eval_loss": "eval_loss", "train_tokens_per_second": "tokens/s"}
        values = [f"{name} {logs[key]:.4g}" for key, name in shown.items() if key in logs]
        if state.is_world_process_zero and {"loss", "eval_loss"} & {*logs}:
            errors.print(f"step {state.global_step}/{state.max_steps}: {', '.join(values)}", markup=False)
