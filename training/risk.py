"""Tuning on the metric itself: the loss is the expected error of answers sampled from the model.

Likelihood penalises all wrong words equally and does not judge whole answers. Here the module answers every prompt K
times, and its metric gives the error of each answer. The gradient of the expected error is estimated by REINFORCE with
the mean of the other answers as baseline (Kool et al., 2019), which has no bias:

    ∇R(θ) ≈ 1/K Σₖ (Δₖ − 1/(K−1) Σⱼ≠ₖ Δⱼ) ∇ log p_θ(yₖ | x),   yₖ ~ p_θ(· | x)

p_θ is sampled at a temperature below 1, because answers at inference are greedy and unlikely ones teach little.

Use it after ordinary tuning: a model that samples no good answer has nothing to prefer. Knows answers and their metric,
but nothing about steps and files.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from training.answers import AnswerLogits, Batch, answer_losses
from training.examples import IGNORED, Collator, Example, padded
from training.measures import check_risk, error
from training.settings import TrainingSettings

if TYPE_CHECKING:
    from ld_agent.backbones.local.decoding import Row

PACK = 2048
"""Maximum number of tokens of prompts and answers per forward pass."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt, the distinct answers sampled for it as ids, with counts and errors from 0 to 1."""

    prompt: list[int]
    answers: list[list[int]]
    times: list[int]
    errors: list[float]

    @property
    def length(self) -> int:
        """Tokens of the prompt and of all answers."""
        return len(self.prompt) + sum(map(len, self.answers))

    @property
    def is_informative(self) -> bool:
        """Whether the answers differ in error, so that there is something to learn."""
        return max(self.errors) > min(self.errors)

    @property
    def risk(self) -> float:
        """The mean error of the sampled answers."""
        return sum(n * error for n, error in zip(self.times, self.errors, strict=True)) / sum(self.times)

    @property
    def weights(self) -> list[float]:
        """The weight of each answer's log-likelihood in the gradient: (Δ − the mean of the others) / K."""
        drawn = sum(self.times)
        return [n * (error - self.risk) / (drawn - 1) for n, error in zip(self.times, self.errors, strict=True)]


class Risk:
    """The expected error of a batch.

    Args:
        module: the module whose metric is used; see `training.measures.error`.
        model: the transformers model itself, with its factors inside.
        logits: of that model.

    Attributes:
        tokens: number of tokens in the last batch, including sampled answers.

    Raises:
        ConfigError: no metric of the module's answers tells right from wrong.
    """

    def __init__(
        self, module: str, model: Any, tokenizer: Any, logits: AnswerLogits, collator: Collator,
        settings: TrainingSettings,
    ) -> None:  # fmt: skip
        from ld_agent.backbones.local.chat_tokens import ChatTokens
        from ld_agent.backbones.local.fast_cpu import steps_for
        from ld_agent.backbones.local.loading import choice, decoder_start

        check_risk(settings, module)
        self._module = module
        self._model, self._logits, self._collator = model, logits, collator
        self._samples, self._temperature = settings.risk_samples, settings.risk_temperature
        self._worth, self._seed = settings.risk_no_trait, settings.seed
        self._start, self._choice = decoder_start(model), choice(model, tokenizer)
        self._tokens = ChatTokens(tokenizer, self._start is not None)
        self._steps = steps_for(model, collator.padding_id)
        self.tokens = 0

    def __call__(self, model: nn.Module, batch: Batch, step: int) -> Tensor:
        """Return the mean over the rows of a batch from the collator.

        Args:
            model: the same model, wrapped for this launch.
            step: seed of the answers: the same step samples the same ones.
        """
        drawn = self._drawn(self._recorded(batch), step)
        packs = packed([one for one in drawn if one.is_informative] or drawn[:1])
        device = batch["input_ids"].device
        laid_out = [{key: value.to(device) for key, value in self._laid_out(pack).items()} for pack in packs]
        self.tokens = sum(inputs["input_ids"].numel() for inputs in laid_out)
        # Checkpointing holds the activations of one pack at a time, at the price of a second pass over each. A wrapper for
        # several processes is called once, however many packs each of them has: it counts its calls and joins them.
        parts = [
            checkpoint(self._steered, self._model, inputs, pack, use_reentrant=False)
            for inputs, pack in zip(laid_out[:-1], packs[:-1], strict=True)
        ]
        steered = torch.stack([*parts, self._steered(model, laid_out[-1], packs[-1])]).sum()
        # The value is the risk, the gradient that of the sum above.
        return sum(one.risk for one in drawn) / len(drawn) + (steered - steered.detach()) / len(drawn)

    def _steered(self, model: nn.Module, laid_out: Batch, pack: Sequence[Drawn]) -> Tensor:
        """The log-likelihoods of answers, weighted as in the gradient, and their sum."""
        logits, targets, _ = self._logits(model, laid_out)
        device = logits.device
        lengths = [len(answer) for one in pack for answer in one.answers]
        places = torch.arange(len(lengths), device=device).repeat_interleave(torch.tensor(lengths, device=device))
        likely = torch.zeros(len(lengths), device=device).index_add(
            0, places, -answer_losses(logits / self._temperature, targets)
        )
        return likely @ torch.tensor([weight for one in pack for weight in one.weights], device=device)

    def _recorded(self, batch: Batch) -> list[Example]:
        """The prompt and the recorded answer of each row."""
        examples = []
        for ids, labels, mask in zip(
            batch["input_ids"], batch["labels"], batch.get("attention_mask", batch["input_ids"]), strict=True
        ):
            answered = labels != IGNORED
            end = int(mask.sum()) if self._start is not None else int(answered.int().argmax())
            examples.append(Example(ids[:end].tolist(), labels[answered].tolist()))
        return examples

    def _drawn(self, recorded: Sequence[Example], step: int) -> list[Drawn]:
        from ld_agent.backbones.local.decoding import Row, draw

        limit = 2 * max(len(example.answer) for example in recorded)
        rows = [
            Row(self._start or example.prompt, limit, temperature=self._temperature,
                seed=zlib.crc32(array("l", example.prompt).tobytes(), self._seed + step))
            for example in recorded
        ]  # fmt: skip
        training = self._model.training
        self._model.eval()
        drawn = draw(self._steps([example.prompt for example in recorded]), rows, self._samples, self._choice)
        self._model.train(training)
        return [self._judged(example, answers) for example, answers in zip(recorded, drawn, strict=True)]

    def _judged(self, example: Example, drawn: Sequence[tuple[Row, int]]) -> Drawn:
        end = example.answer[-1]
        answers = [[*row.out, end] if row.stopped else row.out for row, _ in drawn]
        target = self._tokens.decode(example.answer).strip()
        errors = [error(self._module, self._tokens.decode(ids).strip(), target, self._worth) for ids in answers]
        return Drawn(example.prompt, answers, [times for _, times in drawn], errors)

    def _laid_out(self, drawn: Sequence[Drawn]) -> Batch:
        if self._start is not None:
            return self._collator([Example(one.prompt, answer) for one in drawn for answer in one.answers])
        return branched([one.prompt for one in drawn], [one.answers for one in drawn], self._collator.padding_id,
                        self._model.dtype)  # fmt: skip


def packed(drawn: Sequence[Drawn]) -> list[list[Drawn]]:
    """Prompts with their answers in packs of similar length, at most `PACK` tokens each unless a single prompt has
    more."""
    packs: list[list[Drawn]] = []
    for one in sorted(drawn, key=lambda one: one.length, reverse=True):
        if packs and (len(packs[-1]) + 1) * packs[-1][0].length <= PACK:
            packs[-1].append(one)
        else:
            packs.append([one])
    return packs


def branched(
    prompts: Sequence[list[int]], answers: Sequence[Sequence[list[int]]], padding: int, dtype: torch.dtype
) -> Batch:
    """Lay out several answers to each prompt as one row of a decoder-only model, so that the prompt is processed once.

    A row is its prompt without the last token and then, for each answer, that token and the answer without its own last.
    Each answer attends to the prompt and itself, at the positions it would have alone.

    Returns:
        ``input_ids``, ``position_ids`` and ``labels`` (rows, tokens), ``attention_mask`` (rows, 1, tokens, tokens) to be
        added to the scores. Labels stand where the token before foretells them, answer after answer.
    """
    ids, positions, labels, branches = [], [], [], []
    for prompt, wanted_answers in zip(prompts, answers, strict=True):
        *head, last = prompt
        row, places, wanted, branch = list(head), list(range(len(head))), [IGNORED] * (len(head) + 1), [0] * len(head)
        for number, answer in enumerate(wanted_answers, 1):
            row += [last, *answer[:-1]]
            places += range(len(head), len(head) + len(answer))
            wanted += answer
            branch += [number] * len(answer)
        ids.append([*row, padding])  # room for the last label
        positions.append([*places, 0])
        labels.append(wanted)
        branches.append([*branch, -1])
    branch_of = padded(branches, -1)
    seen = (branch_of[:, None, :] == 0) | (branch_of[:, None, :] == branch_of[:, :, None])
    hidden = (~seen[:, None]).logical_or_(torch.ones(branch_of.shape[1], branch_of.shape[1], dtype=torch.bool).triu(1))
    return {
        "input_ids": padded(ids, padding),
        "position_ids": padded(positions, 0),
        "labels": padded(labels, IGNORED),
        "attention_mask": torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min),
    }
