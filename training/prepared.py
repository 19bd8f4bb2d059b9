"""What a run starts from: the base, its tokenizer, and the rows as ids. Trains nothing."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ld_agent.errors import ConfigError, ModelError
from training.rows import Row, RowFile, read_rows
from training.settings import TrainingSettings

if TYPE_CHECKING:
    from training.answers import AnswerLogits
    from training.examples import Example


@dataclass(frozen=True, slots=True)
class Prepared:
    """The inputs of a run: a base, its tokenizer and the rows as ids.

    Attributes:
        train, evaluation: of `training.examples.Example`.
        collator: makes batches of them.
    """

    model: Any
    tokenizer: Any
    train: Sequence[Example]
    evaluation: list[Any] | None
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


def prepare(settings: TrainingSettings, rows: Iterable[Row], evaluation: Sequence[Row] | None) -> Prepared:
    """Load the base and tokenize the rows.

    Raises:
        ModelError: the base cannot be loaded.
        DataFileError: a target longer than the window; names file and line.
    """
    from ld_agent.backbones.local.chat_tokens import ChatTokens
    from ld_agent.backbones.local.loading import context_window, decoder_start
    from ld_agent.datasets.records import built
    from ld_agent.terminal import say
    from training.examples import Collator, encode

    model, tokenizer = _base(settings)
    seq2seq = bool(model.config.is_encoder_decoder)
    window = min(settings.max_length or sys.maxsize, context_window(model.config, tokenizer))
    start = decoder_start(model) if seq2seq else None
    opening = model.generation_config.forced_bos_token_id if seq2seq else None
    tokens = ChatTokens(tokenizer, seq2seq)

    def encoded(of: Iterable[Row]) -> Iterator[Example]:
        encode_one = partial(encode, tokens=tokens, window=window, decoder_start=start, opening=opening)
        for example in built(of, encode_one):  # four bytes a token: there may be millions
            yield replace(example, prompt=array("i", example.prompt), answer=array("i", example.answer))

    train = list(encoded(rows))
    held_out = None if evaluation is None else list(encoded(evaluation))
    if is_first_process() and (cut := sum(example.cut > 0 for example in train)):
        say(f"{cut} of {len(train)} prompts lose their beginning to max_length={window}")
    padding = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if isinstance(i, int)), 0)
    return Prepared(model, tokenizer, train, evaluation=held_out, collator=Collator(padding, start))


def _base(settings: TrainingSettings) -> tuple[Any, Any]:
    """Load the base and its tokenizer."""
    from ld_agent.backbones.local.loading import load
    from ld_agent.backbones.weights import resolve_model

    source = resolve_model(settings.model, settings.sha256)
    model, tokenizer = load(
        settings.model,
        source,
        dtype=settings.dtype,
        device=_device(settings),
        trust_remote_code=settings.trust_remote_code,
    )
    if not any(True for _ in model.parameters()):
        raise ModelError(f"model {settings.model!r} has no weights; check the reference")
    return model, tokenizer


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
