"""From a resolved reference to a model in memory, with the facts about it that decoding needs.

The one place that reads a model's config and generation config; every failure of transformers and the hub becomes a
`ModelError` here. Knows nothing of requests or batches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ld_agent.backbones.base import ASKED
from ld_agent.backbones.local.decoding import Choice
from ld_agent.backbones.quiet import first_line, quiet_transformers
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import ModelError

UNKNOWN_WINDOW = 2048
"""Context window of a model whose config and tokenizer name none."""

_WINDOW_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_target_positions")
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(name: str, source: Path | str, dtype: str, device: str, trust_remote_code: bool) -> tuple[Any, Any]:
    """Return (model, tokenizer) ready to answer.

    Args:
        name: the reference as the user wrote it, for messages.

    Raises:
        ModelError: nothing loadable there.
    """
    place = device_named(device)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    with quiet_transformers():
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

        try:
            config = AutoConfig.from_pretrained(source, **options)
            kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            model = kind.from_pretrained(source, config=config, dtype=dtype_on(dtype, place), **options)
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            return model.to(place).eval(), tokenizer
        except Exception as exc:  # transformers, safetensors, the hub client and the driver share no base class
            raise ModelError(_why(name, source, exc)) from exc


def adapter_folder(name: str, reference: str) -> Path:
    """Return the local folder of an adapter, fetched if the reference is a hub id.

    Raises:
        ModelError: there is none.
    """
    try:
        source = resolve_model(reference)
    except ModelError as exc:
        raise ModelError(f"adapter {name!r}: {exc}") from exc
    if isinstance(source, Path):
        return source
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(source, allow_patterns=["adapter_*", f"{ASKED}/adapter_*"]))
    except Exception as exc:  # the hub client's errors share no base with those of its transport
        raise ModelError(
            f"adapter {name!r}: no folder {reference!r}, and no such adapter on the hub ({type(exc).__name__}); "
            f"check the path or name"
        ) from exc


def padding_id(tokenizer: Any) -> int:
    """Return the id that fills up shorter rows; nothing ever attends to it."""
    return next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if isinstance(i, int)), 0)


def context_window(config: Any, tokenizer: Any) -> int:
    """Return the tokens that prompt and answer may have together; the smaller half of an encoder-decoder model."""
    text = config.get_text_config()
    for key in _WINDOW_KEYS:
        value = getattr(text, key, None)
        if isinstance(value, int) and value > 0:
            return value
    longest = tokenizer.model_max_length
    return longest if isinstance(longest, int) and longest < 10**9 else UNKNOWN_WINDOW


def decoder_start(model: Any) -> list[int] | None:
    """Return the ids with which an encoder-decoder model's decoder starts; None for a decoder-only model."""
    if not model.config.is_encoder_decoder:
        return None
    for settings in (model.generation_config, model.config):
        for key in ("decoder_start_token_id", "bos_token_id"):
            if isinstance(start := getattr(settings, key, None), int):
                return [start]
    return [0]


def choice(model: Any, tokenizer: Any) -> Choice:
    """Return how this model's tokens are chosen, from its generation config; beams and its temperature are not used."""
    settings = model.generation_config
    ends: set[int] = set()
    for given in (settings.eos_token_id, tokenizer.eos_token_id):
        ends.update([given] if isinstance(given, int) else given or [])
    return Choice(
        end_ids=frozenset(ends),
        top_k=settings.top_k,
        top_p=settings.top_p,
        processors=_processors(model, settings, sorted(ends)),
    )


def _processors(model: Any, settings: Any, ends: list[int]) -> list[Callable[[Tensor, Tensor], Tensor]]:
    from transformers import (
        ForcedBOSTokenLogitsProcessor,
        MinLengthLogitsProcessor,
        NoRepeatNGramLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
        SuppressTokensLogitsProcessor,
    )

    processors: list[Any] = []
    if (settings.repetition_penalty or 1.0) != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        processors.append(NoRepeatNGramLogitsProcessor(settings.no_repeat_ngram_size))
    if model.config.is_encoder_decoder:
        # These count positions of the decoder's sequence, which means nothing after a long prompt.
        if settings.min_length and ends:
            processors.append(MinLengthLogitsProcessor(settings.min_length, ends))
        if settings.forced_bos_token_id is not None:
            processors.append(ForcedBOSTokenLogitsProcessor(settings.forced_bos_token_id))
    if settings.suppress_tokens:
        processors.append(SuppressTokensLogitsProcessor(settings.suppress_tokens))
    return processors


def device_named(device: str) -> torch.device:
    """The device of a name; ``auto``: an accelerator where there is one.

    Raises:
        ModelError: torch knows no such device.
    """
    try:
        if device != "auto":
            return torch.device(device)
    except RuntimeError as exc:
        raise ModelError(f"device={device!r} is not a device of torch; use auto, cpu, cuda or cuda:0") from exc
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def dtype_on(dtype: str, device: torch.device) -> torch.dtype:
    """The type of a name; ``auto``: 16 bits where a device computes them natively, else float32.

    Raises:
        ModelError: there is no such type.
    """
    if dtype in _DTYPES:
        return _DTYPES[dtype]
    if dtype != "auto":
        raise ModelError(f"dtype={dtype!r} is unknown; use auto, {', '.join(_DTYPES)}")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "cpu":
        able = torch.cpu.get_capabilities()
        native = any(able.get(feature) for feature in ("avx512_bf16", "amx_bf16", "bf16"))
        return torch.bfloat16 if native else torch.float32
    return torch.float16 if device.type == "mps" else torch.float32


def _why(name: str, source: Path | str, exc: Exception) -> str:
    if isinstance(exc, ModelError):
        return str(exc)
    first = first_line(exc)
    if "trust_remote_code" in str(exc):
        return f"model {name!r} comes with its own code; set backbone.trust_remote_code=true if you trust its authors"
    if isinstance(source, str):
        return (
            f"model {name!r} is not on this machine and could not be fetched from the hub ({first}); check the name and the "
            f"connection, fetch it with: hf download {name}, or give a local directory"
        )
    return f"model {name!r} in {source} cannot be loaded ({type(exc).__name__}: {first}); fetch it again"
