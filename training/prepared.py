"""What a run starts from: the base, its tokenizer, and the rows as ids; and what ``--dry-run`` shows of it. Trains nothing."""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ld_agent.backbones.weights import resolve_model
from ld_agent.datasets.records import built
from ld_agent.errors import ConfigError, ModelError
from ld_agent.running.terminal import console, plain, say
from training.rows import Row, RowFile, read_rows
from training.settings import TrainingSettings

if TYPE_CHECKING:
    from training.answers import AnswerLogits
    from training.examples import Example

SHOWN = 3
"""Rows that a dry run shows."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The inputs of a run: a base, its tokenizer and the rows as ids. ``collator`` makes batches of them."""

    model: Any
    tokenizer: Any
    train: Sequence[Example]
    evaluation: list[Example] | None
    collator: Any


def rows_of(settings: TrainingSettings, module: str) -> tuple[RowFile, list[Row] | None]:
    """The training rows, which are read as they are tokenized, and the evaluation rows.

    Raises:
        ConfigError: no training file is named.
        InputError: as `RowFile`.
    """
    if settings.train_file is None:
        raise ConfigError("train_file is not given; add train_file=FILE, as python -m training.build writes it")
    train = RowFile(settings.train_file, module)
    return train, None if settings.eval_file is None else read_rows(settings.eval_file, module, "evaluation")


def warn_of_prompts(rows: RowFile, module: str) -> None:
    """Say that rows which were read lack what the module is asked with."""
    if rows.unprompted and is_first_process():
        say(
            f"{rows.path} has rows without a system message, with which an agent asks the {module}; "
            f"python -m training.build {module} writes them as it asks"
        )


def prepare(settings: TrainingSettings, rows: Iterable[Row], evaluation: Sequence[Row] | None) -> Prepared:
    """Load the base and tokenize the rows.

    Raises:
        ModelError: the base cannot be loaded.
        DataFileError: a target longer than the window; names file and line.
    """
    from ld_agent.backbones.local.chat_tokens import ChatTokens
    from ld_agent.backbones.local.loading import context_window, decoder_start, load, padding_id
    from training.examples import Collator, encode

    source = resolve_model(settings.model, settings.sha256)
    model, tokenizer = load(settings.model, source, settings.dtype, _device(settings), settings.trust_remote_code)
    if not any(True for _ in model.parameters()):
        raise ModelError(f"model {settings.model!r} has no weights; check the reference")
    seq2seq = bool(model.config.is_encoder_decoder)
    window = min(settings.max_length or sys.maxsize, context_window(model.config, tokenizer))
    start = decoder_start(model)
    opening = model.generation_config.forced_bos_token_id if seq2seq else None
    encode_one = partial(
        encode, tokens=ChatTokens(tokenizer, seq2seq), window=window, decoder_start=start, opening=opening
    )
    train = list(built(rows, encode_one))
    held_out = None if evaluation is None else list(built(evaluation, encode_one))
    if is_first_process() and (cut := sum(example.cut > 0 for example in train)):
        say(f"{cut} of {len(train)} prompts lose their beginning to max_length={window}")
    return Prepared(model, tokenizer, train, evaluation=held_out, collator=Collator(padding_id(tokenizer), start))


def adapted(prepared: Prepared, settings: TrainingSettings) -> tuple[Any, AnswerLogits]:
    """Return the model with its factors, optimised for this machine, and a function for the logits of its answers.

    Raises:
        ConfigError: as `training.adapters.with_lora`.
    """
    from training.adapters import with_lora
    from training.answers import AnswerLogits
    from training.lora_sum import quicken

    logits = AnswerLogits(prepared.model, prepared.model.config.is_encoder_decoder)
    model = with_lora(prepared.model, settings)
    quicken(model)
    return model, logits


def show(settings: TrainingSettings, module: str) -> None:
    """Print what a run with these settings would do: prompts as the model sees them, and counts of tokens.

    Raises: as in `training.train.tune`.
    """
    rows = rows_of(settings, module)
    prepared = prepare(settings, *rows)
    warn_of_prompts(rows[0], module)
    shown, train = partial(console.print, soft_wrap=True), prepared.train
    for number, example in enumerate(train[:SHOWN], 1):
        console.rule(f"row {number}: {len(example.prompt)} prompt tokens, {len(example.answer)} answer tokens")
        shown(plain(prepared.tokenizer.decode(list(example.prompt), skip_special_tokens=False)))
        console.rule("answer", style="dim")
        shown(plain(prepared.tokenizer.decode(list(example.answer), skip_special_tokens=False)))
    console.rule("tokens")
    shown(_counts("prompt", [len(e.prompt) for e in train]))
    shown(_counts("answer", [len(e.answer) for e in train]))
    cut = sum(e.cut > 0 for e in train)
    shown(f"{len(train)} rows, {sum(map(len, train))} tokens per epoch, {cut} prompts truncated")
    batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
    by_epochs = math.ceil(settings.num_train_epochs * math.ceil(len(train) / batch))
    steps = settings.max_steps if settings.max_steps > 0 else by_epochs
    shown(f"{steps} {'step' if steps == 1 else 'steps'} of {batch} rows, {prepared.model.dtype} base {settings.model}")


def _counts(what: str, numbers: Sequence[int]) -> str:
    ordered = sorted(numbers)
    percentile = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    median = statistics.median(ordered)
    return f"{what} tokens: min {ordered[0]}, median {median:.0f}, 95th percentile {percentile}, max {ordered[-1]}"


def is_first_process() -> bool:
    """Whether this process writes files and messages; under ``accelerate launch`` only one does."""
    return os.environ.get("RANK", "0") == "0"


def _device(settings: TrainingSettings) -> str:
    import torch

    if settings.use_cpu:
        return "cpu"
    if torch.cuda.is_available() and (rank := os.environ.get("LOCAL_RANK")):
        return f"cuda:{rank}"
    return "auto"
