"""The learned check: do these lines support a claim, end it, or say nothing of it? And does a trait last?

The encoder of texts with a LoRA reads lines and claim together, as a cross-encoder for natural language inference;
``python -m training.check`` tunes it. Milliseconds a pair, in batches. Knows no store and no prompt.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.slips import Corrections
from ld_agent.config.sections import MINILM
from ld_agent.errors import ModelError

LABELS = ("supported", "ended", "unsaid")
SUPPORTED, ENDED, UNSAID = range(len(LABELS))
Lines = Sequence[tuple[str, str]]
Pair = tuple[Lines, str]
LONGEST = 192
"""Tokens of lines and claim together; of longer ones, the earliest lines are cut, and of a claim that has more than half, its
beginning."""
LONGEST_LINES, LONGEST_CLAIM = 4_000, 1_000
"""Characters of lines, their end, and of a claim, its beginning, that are split into tokens."""
AT_ONCE = 32
LASTING: Lines = (("", "Does this still matter in a month?"),)
"""What the check reads in place of lines to judge whether a trait lasts: supported, or not."""

ASKED: Lines = (("", "Does this ask for something that was told before?"),)
"""What it reads in place of lines to judge whether an utterance can only be answered from memory: supported, or not."""


def written(lines: Lines) -> str:
    """Lines as the check reads them."""
    return "\n".join(f"{speaker}: {text}" if speaker else text for speaker, text in lines)


def load_base() -> tuple[Any, Any]:
    """The encoder with a head of `LABELS`, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from ld_agent.backbones.quiet import quiet_transformers
    from ld_agent.backbones.weights import resolve_model

    source = resolve_model(MINILM)
    with quiet_transformers():
        model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=len(LABELS))
        return model, AutoTokenizer.from_pretrained(source, truncation_side="left")


@lru_cache(maxsize=2)
def _loaded(folder: str, written_at: int) -> tuple[Any, Any, threading.Lock]:
    """The encoder with the adapter of a folder, its tokenizer, and a lock for both: agents of one process share them."""
    from peft import PeftModel

    model, tokenizer = load_base()
    with warnings.catch_warnings():  # PEFT only warns of an adapter without all its tensors
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)  # PEFT reads an attribute that transformers will rename
        adapted = PeftModel.from_pretrained(model, folder)
    return adapted.merge_and_unload().eval(), tokenizer, threading.Lock()


class StatementCheck:
    """Judges claims about what was said.

    Args:
        adapter: folder of the LoRA, given by a reference like a model's.
        verbatim: see `ChecksSection`.

    Attributes:
        verbatim: events quote, and traits must have the words of their lines.
        corrections: judges what a line takes back.

    Raises:
        ModelError: it cannot be loaded.
    """

    def __init__(self, adapter: str, *, verbatim: bool = False) -> None:
        from ld_agent.backbones.weights import resolve_model

        try:
            folder = str(resolve_model(adapter))
            written_at = max((file.stat().st_mtime_ns for file in Path(folder).glob("adapter*")), default=0)
            self._model, self._tokenizer, self._one_at_a_time = _loaded(folder, written_at)
            self.corrections = Corrections(Path(folder))
        except (OSError, ValueError, RuntimeError, KeyError, UserWarning, UnpicklingError) as exc:
            why = " ".join(str(exc).split())[:200]
            raise ModelError(f"checks.adapter {adapter!r} cannot be loaded: {why}; give the folder of another") from exc
        self.verbatim = verbatim

    def probabilities(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """(n, 3) probabilities of `LABELS` for lines and a claim each."""
        import torch

        order = sorted(range(len(pairs)), key=lambda n: sum(len(text) for _, text in pairs[n][0]))
        found = np.zeros((len(pairs), len(LABELS)), np.float32)
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            with self._one_at_a_time, torch.inference_mode():
                logits = self._model(**self._encoded([pairs[n] for n in rows])).logits
                found[rows] = torch.softmax(logits, dim=-1).numpy()
        return found

    def _encoded(self, pairs: Sequence[Pair]) -> Any:
        return encoded(self._tokenizer, pairs, padding=True, return_tensors="pt")


def encoded(tokenizer: Any, pairs: Sequence[Pair], **options: Any) -> Any:
    """Token ids of lines and claims."""
    return tokenizer(
        [written(lines)[-LONGEST_LINES:] for lines, _ in pairs],
        [claim[:LONGEST_CLAIM] for _, claim in pairs],
        truncation="longest_first",
        max_length=LONGEST,
        **options,
    )
