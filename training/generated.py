"""A module's own figures while it is tuned: validation prompts are answered as at inference, and the answers measured.

Greedy decoding by the backbone's own loop, on the model as it stands. Knows ids and figures; nothing of steps and files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from training.attention import NAME
from training.examples import Example
from training.measures import measured
from training.rows import Row

if TYPE_CHECKING:
    from ld_agent.backbones.decoding import Steps


class Generations:
    """Answers some of the validation rows, evenly spread over them.

    Args:
        model: the transformers model itself, with its factors inside.
        most: rows to answer.
        batch: rows answered at once.
    """

    def __init__(
        self, module: str, model: Any, tokenizer: Any, rows: Sequence[Row], examples: Sequence[Example], most: int,
        batch: int,
    ) -> None:  # fmt: skip
        from ld_agent.backbones.chat_tokens import ChatTokens
        from ld_agent.backbones.loading import choice, decoder_start

        chosen = [n * len(rows) // min(most, len(rows)) for n in range(min(most, len(rows)))]
        self._module, self._model, self._batch = module, model, batch
        self._targets = [rows[n].target for n in chosen]
        self._prompts = [examples[n].prompt for n in chosen]
        self._limit = max(len(examples[n].answer) for n in chosen)
        self._start = decoder_start(model) if model.config.is_encoder_decoder else None
        self._choice = choice(model, tokenizer)
        self._tokens = ChatTokens(tokenizer, self._start is not None)
        self._padding = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if isinstance(i, int)), 0)

    def texts(self, share: slice = slice(None)) -> list[str]:
        """Answers to a share of the prompts, none longer than the longest recorded answer of all of them."""
        prompts = self._prompts[share]
        by_length = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
        texts: dict[int, str] = {}
        for start in range(0, len(prompts), self._batch):
            places = by_length[start : start + self._batch]
            texts.update(zip(places, self._answered([prompts[n] for n in places]), strict=True))
        return [texts[n] for n in range(len(prompts))]

    def figures(self, texts: Sequence[str]) -> dict[str, float]:
        """The module's figures of its answers to all prompts."""
        return measured(self._module, texts, self._targets)

    def _answered(self, prompts: Sequence[list[int]]) -> list[str]:
        from ld_agent.backbones.decoding import Row as Sequence_
        from ld_agent.backbones.decoding import decode

        rows = [Sequence_(self._start or prompt, self._limit) for prompt in prompts]
        with stepping(self._model, prompts, self._padding) as steps:
            decode(steps, rows, self._choice)
        return [self._tokens.decode(row.out).strip() for row in rows]


@contextmanager
def stepping(model: Any, prompts: Sequence[list[int]], padding: int) -> Iterator[Steps]:
    """The steps of a model that is being tuned, as the backbone takes them.

    Args:
        model: the transformers model itself, with its factors inside.
        prompts: of the rows; an encoder-decoder model's encoder reads them.
    """
    from ld_agent.backbones.four_bit import FourBitGrids
    from ld_agent.backbones.llama import LlamaSteps, llama_layers
    from ld_agent.backbones.steps import CausalSteps, PrefixCache, Seq2SeqSteps

    def select(adapters: Sequence[str | None]) -> None:
        """The factors are in the model itself."""

    if model.config.is_encoder_decoder:
        yield Seq2SeqSteps(model, select, list(prompts), padding)
    elif (layers := llama_layers(model, FourBitGrids(None))) is not None:
        yield LlamaSteps(model, select, PrefixCache(), padding, layers)
    else:
        with _attending(model):
            yield CausalSteps(model, select, PrefixCache(), padding)


@contextmanager
def _attending(model: Any) -> Iterator[None]:
    """Let a model attend as it was loaded to: the attention of training takes no cache and no mask."""
    own = getattr(model.config, "_attn_implementation", None)
    if own != NAME:
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(own)
