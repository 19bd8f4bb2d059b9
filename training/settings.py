"""Settings of a tuning run: a YAML file with its base, and ``key=value`` assignments.

Keys of transformers keep their names. ``configs/training/default.yaml`` explains every key. Knows names, types and
ranges; `training.train` applies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ld_agent.config.sections import AtLeastOne, Count, Positive, Section, Share
from ld_agent.config.settings import SettingsFiles

NotNegative = Annotated[float, Field(ge=0)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]


class TrainingSettings(Section):
    """One tuning run. Keys not described here are those of ``transformers.TrainingArguments``.

    Attributes:
        model: the base, a reference as in an agent's config; the adapter names it as its base.
        sha256: expected digest of the base's weight file; null: not checked.
        dtype: of the frozen base; ``auto`` is bfloat16 where the processor computes it natively, else float32.
        train_file, eval_file: made by ``training.build``; without ``eval_file`` the last state is kept, with it the
            lowest validation loss.
        output_dir: the adapter's folder.
        adapter: an adapter to continue from, of this base and with these LoRA settings; null: a new one.
        lora_target_modules: names of linear modules; null: all but the output layer, whatever the architecture.
        max_length: tokens of prompt and target together (encoder-decoder: of the prompt); null: the model's window.
            A longer prompt loses its beginning, a target never anything.
        adapter_dtype: of the saved weights. They are trained in float32.
        early_stopping_patience: evaluations without a better loss after which training ends; null: it never does.
    """

    model: str
    sha256: str | None = None
    trust_remote_code: bool = False
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    use_cpu: bool = False

    train_file: str | None = None
    eval_file: str | None = None
    output_dir: str

    adapter: str | None = None
    lora_r: AtLeastOne = 8
    lora_alpha: Positive = 32
    lora_dropout: BelowOne = 0.0
    lora_target_modules: tuple[str, ...] | None = None
    max_length: AtLeastOne | None = None
    adapter_dtype: Literal["float32", "bfloat16", "float16"] = "float16"

    num_train_epochs: Positive = 3.0
    max_steps: int = -1
    per_device_train_batch_size: AtLeastOne = 8
    per_device_eval_batch_size: AtLeastOne = 16
    gradient_accumulation_steps: AtLeastOne = 1
    gradient_checkpointing: bool = False
    learning_rate: Positive = 5e-5
    lr_scheduler_type: str = "linear"
    warmup_steps: NotNegative = 0
    weight_decay: NotNegative = 0.0
    max_grad_norm: NotNegative = 1.0
    label_smoothing_factor: Share = 0.0
    logging_steps: AtLeastOne = 10
    eval_steps: AtLeastOne = 100
    save_steps: AtLeastOne = 100
    save_total_limit: AtLeastOne = 2
    early_stopping_patience: AtLeastOne | None = None
    seed: Count = 42

    @model_validator(mode="after")
    def _best_is_saved(self) -> TrainingSettings:
        if self.eval_file is not None and self.save_steps % self.eval_steps:
            raise ValueError(
                f"save_steps={self.save_steps} is not a multiple of eval_steps={self.eval_steps}; make it one"
            )
        if self.max_steps == 0 or self.max_steps < -1:
            raise ValueError(f"max_steps={self.max_steps}; give the number of steps, or -1 to go by num_train_epochs")
        if self.early_stopping_patience is not None and self.eval_file is None:
            raise ValueError("early_stopping_patience needs an eval_file; give one, or set it to null")
        return self


def load_settings(path: str | Path, overrides: Sequence[str] = ()) -> TrainingSettings:
    """Read a settings file, given by its path or a name in ``configs/training``, and apply ``key=value`` assignments in order.

    Raises:
        ConfigError: no such file or base, text that is not YAML, an unknown key or a value out of range; names the key.
    """
    return SETTINGS.load(path, overrides)


SETTINGS = SettingsFiles(TrainingSettings, "configs/training", "learning_rate=1e-4")
