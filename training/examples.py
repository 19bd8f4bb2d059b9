"""Tokenize rows and form batches. Knows tokens, padding and order, but no models or losses.

The token ids come from the backbone's `ChatTokens`, so that training and inference see the same input. An overlong prompt
loses its oldest tokens after the template's opening, as in `LocalBackbone`; a target is never truncated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Sampler

from ld_agent.backbones.local.chat_tokens import ChatTokens, cut_left
from ld_agent.backbones.local.likelihood import padded
from ld_agent.errors import DataFileError
from training.rows import Row

IGNORED = -100
MEGABATCH = 50
"""Number of batches within which rows are sorted by length: few enough to keep the order random."""


@dataclass(frozen=True, slots=True)
class Example:
    """The token ids of a row.

    Attributes:
        cut: number of tokens removed from the prompt.
        spans: where in the prompt further targets are, (start, end) each.
    """

    prompt: Sequence[int]
    answer: Sequence[int]
    cut: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def labels(self) -> list[int]:
        """The ids of all targets, and `IGNORED` elsewhere."""
        labels = [*[IGNORED] * len(self.prompt), *self.answer]
        for start, end in self.spans:
            labels[start:end] = self.prompt[start:end]
        return labels

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


def encode(
    row: Row, tokens: ChatTokens, window: int, decoder_start: Sequence[int] | None, opening: int | None
) -> Example:
    """Tokenize a row.

    Args:
        window: maximum number of tokens of prompt and target together; of each separately for encoder-decoder models.
        decoder_start: ids with which an encoder-decoder model's decoder starts; None: a decoder-only model.
        opening: id that an encoder-decoder model forces at the start of every answer; None: none.

    Raises:
        DataFileError: the target alone fills the window.
    """
    answer = tokens.encode_answer(row.target)
    if opening is not None and answer[:1] != [opening]:
        answer = [opening, *answer]
    ids, head = tokens.encode(row.prompt)
    room = window if decoder_start is not None else window - len(answer)
    if room < 1 or len(answer) > window:
        what = f"the target has {len(answer)} tokens, which leaves no room for a prompt within max_length={window}"
        raise DataFileError(row.path, row.line, f"{what}; raise max_length, or remove the row")
    spans = _further(row, tokens, ids) if decoder_start is None and len(ids) <= room else ()
    kept = cut_left(ids, head, room)  # four bytes a token: there may be millions
    return Example(array("i", kept), array("i", answer), max(0, len(ids) - room), spans)


def _further(row: Row, tokens: ChatTokens, ids: list[int]) -> tuple[tuple[int, int], ...]:
    """Where the further targets of a row stand in its prompt's ids."""
    places = [n for n, message in enumerate(row.prompt) if message.role == "assistant"]
    spans = []
    for place in places[len(places) - row.further :]:
        start = tokens.start_of(row.prompt, place)
        answer = tokens.encode_answer(row.prompt[place].content)
        if ids[start : start + len(answer)] == answer:  # otherwise the template renders it differently from an answer
            spans.append((start, start + len(answer)))
    return tuple(spans)


class Collator:
    """Batch examples, padded on the right to the longest.

    A decoder-only batch needs no attention mask, because no token attends to later ones.

    Attributes:
        padding_id: id of the padding token.
    """

    def __init__(self, padding_id: int, decoder_start: Sequence[int] | None) -> None:
        self.padding_id, self._start = padding_id, decoder_start

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``labels``, (rows, tokens); labels are `IGNORED` outside the answer.

        For an encoder-decoder model, also return ``attention_mask`` and ``decoder_input_ids``.
        """
        if self._start is None:
            return {
                "input_ids": padded([[*e.prompt, *e.answer] for e in examples], self.padding_id),
                "labels": padded([e.labels for e in examples], IGNORED),
            }
        return {
            "input_ids": padded([e.prompt for e in examples], self.padding_id),
            "attention_mask": padded([[1] * len(e.prompt) for e in examples], 0),
            "decoder_input_ids": padded([[*self._start, *e.answer[:-1]] for e in examples], self.padding_id),
            "labels": padded([[*[IGNORED] * (len(self._start) - 1), *e.answer] for e in examples], IGNORED),
        }


class LengthGrouped(Sampler[int]):
    """Yield every index once, in randomly ordered batches of similar length.

    The order depends only on ``seed`` and ``epoch``, so it is the same in resumed runs and in all processes of a launch.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths, self._batch_size, self._seed = lengths, batch_size, seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self.epoch)
        shuffled = torch.randperm(len(self._lengths), generator=generator).tolist()
        size, megabatch = self._batch_size, self._batch_size * MEGABATCH
        batches = []
        for start in range(0, len(shuffled), megabatch):
            by_length = sorted(shuffled[start : start + megabatch], key=lambda i: self._lengths[i])
            batches += [by_length[n : n + size] for n in range(0, len(by_length), size)]
        # A short batch must come last, or the batches after it would be misaligned.
        last = [batches.pop()] if batches and len(batches[-1]) < size else []
        order = torch.randperm(len(batches), generator=generator).tolist()
        yield from (index for batch in [*(batches[n] for n in order), *last] for index in batch)
