"""Rows as token ids, and batches of them. The ids are the backbone's own (`ChatTokens`), so that training sees what
inference sees. Knows tokens, padding and order; nothing of models and losses.

A prompt that is too long loses its oldest tokens after those that open the template, as in `LocalBackbone`; a target never
loses any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from ld_agent.backbones.chat_tokens import ChatTokens, cut_left
from ld_agent.errors import DataFileError
from training.rows import Row

IGNORED = -100
MEGABATCH = 50
"""Batches among whose rows those of like length are brought together: few enough to leave the order random."""


@dataclass(frozen=True, slots=True)
class Example:
    """A row's ids.

    Attributes:
        cut: tokens that its prompt lost.
        spans: where in the prompt further targets stand, (start, end) each.
    """

    prompt: list[int]
    answer: list[int]
    cut: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def labels(self) -> list[int]:
        """The ids of all targets, and `IGNORED` elsewhere."""
        labels = [IGNORED] * len(self.prompt) + self.answer
        for start, end in self.spans:
            labels[start:end] = self.prompt[start:end]
        return labels

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


class Examples(Dataset[Example]):
    """Examples in the order given."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Example:
        return self.examples[index]


def encode(
    row: Row, tokens: ChatTokens, window: int, decoder_start: Sequence[int] | None, opening: int | None
) -> Example:
    """Tokenize a row.

    Args:
        window: most tokens of prompt and target together; of each by itself for an encoder-decoder model.
        decoder_start: ids with which an encoder-decoder model's decoder starts; None: a decoder-only model.
        opening: id with which an encoder-decoder model makes every answer begin; None: none.

    Raises:
        DataFileError: the target alone fills the window.
    """
    answer = tokens.encode_answer(row.target)
    if opening is not None and answer[:1] != [opening]:
        answer = [opening, *answer]
    ids, head = tokens.encode(row.prompt)
    room = window if decoder_start is not None else window - len(answer)
    if room < 1 or len(answer) > window:
        raise DataFileError(
            row.path, row.line, f"the target has {len(answer)} tokens, which max_length={window} cannot hold with a "
            f"prompt before it; raise max_length, or take the row out"
        )  # fmt: skip
    spans = _further(row, tokens, ids) if decoder_start is None and len(ids) <= room else ()
    return Example(cut_left(ids, head, room), answer, max(0, len(ids) - room), spans)


def _further(row: Row, tokens: ChatTokens, ids: list[int]) -> tuple[tuple[int, int], ...]:
    """Where the further targets of a row stand in its prompt's ids."""
    places = [n for n, message in enumerate(row.prompt) if message.role == "assistant"]
    spans = []
    for place in places[len(places) - row.further :]:
        start = len(tokens.encode_messages(row.prompt[:place]))
        answer = tokens.encode_answer(row.prompt[place].content)
        if ids[start : start + len(answer)] == answer:  # else the template writes it otherwise than it is answered
            spans.append((start, start + len(answer)))
    return tuple(spans)


class Collator:
    """Makes a batch of examples, padded on the right to its longest.

    A decoder-only batch needs no attention mask: nothing attends to what comes after it.

    Attributes:
        padding_id: stands where nothing is.
    """

    def __init__(self, padding_id: int, decoder_start: Sequence[int] | None) -> None:
        self.padding_id, self._start = padding_id, decoder_start

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        """Return ``input_ids`` and ``labels`` (rows, tokens), for an encoder-decoder model also ``attention_mask`` and
        ``decoder_input_ids``; labels are ids where the answer stands and `IGNORED` elsewhere.
        """
        if self._start is None:
            return {
                "input_ids": padded([e.prompt + e.answer for e in examples], self.padding_id),
                "labels": padded([e.labels for e in examples], IGNORED),
            }
        return {
            "input_ids": padded([e.prompt for e in examples], self.padding_id),
            "attention_mask": padded([[1] * len(e.prompt) for e in examples], 0),
            "decoder_input_ids": padded([[*self._start, *e.answer[:-1]] for e in examples], self.padding_id),
            "labels": padded([[IGNORED] * (len(self._start) - 1) + e.answer for e in examples], IGNORED),
        }


class LengthGrouped(Sampler[int]):
    """Every index once, those of a batch of like length, the batches in random order.

    The order depends on ``seed`` and ``epoch`` alone, so that a run taken up again and every process of a launch see it.
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
        # Only the last batch may be short, or all after it would be cut askew.
        last = [batches.pop()] if batches and len(batches[-1]) < size else []
        order = torch.randperm(len(batches), generator=generator).tolist()
        yield from (index for batch in [*(batches[n] for n in order), *last] for index in batch)


def padded(rows: Sequence[Sequence[int]], padding: int) -> Tensor:
    """Rows of ids as one tensor (rows, longest), padded on the right."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])
