"""The decode loops: rows of prompt ids in, rows of generated ids out, for any model that supports single steps.

Works with token ids only; knows nothing about tokenizers, templates or adapters. Rows of different length are padded on
the left and masked, with position ids counted from each row's own first token, so a row's answer depends on its
batch-mates only through the rounding of batched arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from ld_agent.backbones.quiet import first_line
from ld_agent.errors import BackboneError

Given = TypeVar("Given")
REPEATED = 2.0
"""What an id loses of its logit for each time that it continues the answer as it continued a text in ``unlike``."""
CONTEXT = 2
"""Number of ids before one that make it the same continuation; fewer at the beginning, so that openings count as well."""


@dataclass(slots=True)
class Row:
    """One sequence being decoded.

    Attributes:
        prompt: ids that precede the answer in the decoder.
        limit: maximum number of tokens to generate.
        temperature: 0 is greedy.
        top_p: of the sampling; None: the model's own.
        seed: seed of this row's random generator.
        unlike: how other answers continue after up to `CONTEXT` ids (`continuations`); this one should rather differ.
        repetition_penalty: see `_penalised`; 1 is none.
        adapter: name of its adapter; None: the bare base.
        prefix: number of leading ids of ``prompt`` worth caching.
        on_ids: called after every token with all ids generated so far.
        out: the generated ids, without the end token.
        stopped: the model ended the answer itself.
    """

    prompt: list[int]
    limit: int
    temperature: float = 0.0
    top_p: float | None = None
    seed: int = 0
    unlike: Mapping[tuple[int, ...], Sequence[int]] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    adapter: str | None = None
    prefix: int = 0
    on_ids: Callable[[list[int]], None] | None = None
    out: list[int] = field(default_factory=list)
    stopped: bool = False


class Steps(Protocol):
    """A model with the state of one batch."""

    def prefill(self, rows: Sequence[Row]) -> Tensor:
        """Read the prompts; return the logits (rows, vocabulary) of the first generated token."""
        ...

    def step(self, ids: Sequence[int]) -> Tensor:
        """Read one more id per row; return the logits (rows, vocabulary) of the next."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, in this order; a row named twice is duplicated."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """How tokens are chosen from logits: the model's generation config apart from the temperature."""

    end_ids: frozenset[int]
    top_k: int | None = None
    top_p: float | None = None
    processors: Sequence[Callable[[Tensor, Tensor], Tensor]] = ()


@torch.inference_mode()
def decode(steps: Steps, rows: Sequence[Row], choice: Choice) -> None:
    """Fill ``out`` and ``stopped`` of every row.

    Raises:
        BackboneError: the model failed; what ``on_ids`` raises passes through as it is.
    """
    active = list(range(len(rows)))
    generators = [torch.Generator().manual_seed(row.seed) if row.temperature > 0 else None for row in rows]
    logits = _read(steps.prefill, rows)
    while True:
        chosen = _choose(logits, [rows[i] for i in active], [generators[i] for i in active], choice)
        going: list[int] = []
        for place, token in enumerate(chosen):
            row = rows[active[place]]
            if token in choice.end_ids:
                row.stopped = True
                continue
            row.out.append(token)
            if row.on_ids is not None:
                row.on_ids(row.out)
            if len(row.out) < row.limit:
                going.append(place)
        if not going:
            return
        if len(going) < len(active):
            steps.keep(going)
            active = [active[place] for place in going]
        logits = _read(steps.step, [rows[i].out[-1] for i in active])


def _read(forward: Callable[[Sequence[Given]], Tensor], given: Sequence[Given]) -> Tensor:
    try:
        return forward(given)
    except (RuntimeError, ValueError, IndexError) as exc:
        raise BackboneError(
            f"the model failed on a batch of {len(given)} ({type(exc).__name__}: {first_line(exc)}); "
            f"try fewer or shorter requests, or another dtype"
        ) from exc


def _choose(
    logits: Tensor, rows: Sequence[Row], generators: Sequence[torch.Generator | None], choice: Choice
) -> list[int]:
    logits = _processed(logits, rows, choice)
    greedy = logits.argmax(-1).tolist() if None in generators else []
    return [
        _sample(logits[i], row, generator, choice) if generator is not None else greedy[i]
        for i, (row, generator) in enumerate(zip(rows, generators, strict=True))
    ]


def _processed(logits: Tensor, rows: Sequence[Row], choice: Choice) -> Tensor:
    """Logits (rows, vocabulary) after the model's processors and the rows' penalties."""
    if choice.processors:
        processed = []
        for place, row in enumerate(rows):
            ids = torch.tensor([row.prompt + row.out], device=logits.device)
            scores = logits[place : place + 1].float()
            for process in choice.processors:
                scores = process(ids, scores)
            processed.append(scores)
        logits = torch.cat(processed)
    if any(row.unlike for row in rows):
        logits = torch.stack([_varied(logits[i], row, choice.end_ids) for i, row in enumerate(rows)])
    if any(row.repetition_penalty != 1.0 for row in rows):
        logits = torch.stack([_penalised(logits[i], row, choice.end_ids) for i, row in enumerate(rows)])
    return logits


def continuations(answers: Iterable[Sequence[int]]) -> dict[tuple[int, ...], list[int]]:
    """The ids of answers by the ids right before them, at most `CONTEXT`; an id as often as it stands there."""
    found: dict[tuple[int, ...], list[int]] = {}
    for ids in answers:
        for place, token in enumerate(ids):
            found.setdefault(tuple(ids[max(place - CONTEXT, 0) : place]), []).append(token)
    return found


def _varied(logits: Tensor, row: Row, end_ids: frozenset[int]) -> Tensor:
    """Make ids less likely that would continue the answer as other answers, or its own beginning, went on; it may end as they
    did."""
    last = row.out[-CONTEXT:]
    own = [
        token for place, token in enumerate(row.out) if place >= CONTEXT and row.out[place - CONTEXT : place] == last
    ]
    known = [token for token in (*row.unlike.get(tuple(last), ()), *own) if token not in end_ids]
    ids = torch.tensor(known, dtype=torch.long, device=logits.device)
    return logits.index_add(0, ids, logits.new_full((len(ids),), -REPEATED))


def _penalised(logits: Tensor, row: Row, end_ids: frozenset[int]) -> Tensor:
    """Penalise every id in prompt or answer: positive logits are divided by the penalty, others multiplied.

    As in transformers, except for end tokens: they are in every chat prompt, and an answer must be able to end.
    """
    if row.repetition_penalty == 1.0:
        return logits
    seen = torch.tensor(sorted({*row.prompt, *row.out} - end_ids), dtype=torch.long, device=logits.device)
    scores = logits[seen]
    weakened = torch.where(scores > 0, scores / row.repetition_penalty, scores * row.repetition_penalty)
    return logits.scatter(0, seen, weakened)


def _sample(logits: Tensor, row: Row, generator: torch.Generator, choice: Choice) -> int:
    """Sample an id, on the CPU in float32, so that the result does not depend on the batch or the device."""
    scores = logits.float().cpu() / row.temperature
    if choice.top_k:
        floor = scores.topk(min(choice.top_k, len(scores))).values[-1]
        scores = scores.masked_fill(scores < floor, -torch.inf)
    probabilities = scores.softmax(-1)
    top_p = choice.top_p if row.top_p is None else row.top_p
    if top_p is not None and top_p < 1:
        ordered, order = probabilities.sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= top_p
        probabilities[order[beyond]] = 0
    # One random number; torch.multinomial uses one for every id of the vocabulary.
    below = probabilities.double().cumsum(-1)
    number = torch.rand(1, generator=generator, dtype=torch.float64) * below[-1]
    return int(torch.searchsorted(below, number, right=True).clamp_(max=len(below) - 1))
