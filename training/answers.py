"""The loss on answers, with logits computed only at their positions.

With a vocabulary of 50,000, the output layer is a large part of a small model and its logits take most of a batch's
memory, while answers are a tenth of the tokens. Knows transformers' calling conventions, but nothing about training.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.examples import IGNORED

Batch = dict[str, Tensor]


class AnswerLogits:
    """Runs a model so that its output layer sees only the positions of answers.

    A hook narrows the input of that layer, so the rest of the forward pass is unchanged: logit caps and scales still
    apply, and wrappers for several processes see the call they expect. A model with another layout of hidden states
    computes all logits, from which the answers' are selected.

    Args:
        model: the transformers model itself, without PEFT or another wrapper.
    """

    def __init__(self, model: nn.Module, encoder_decoder: bool) -> None:
        self._encoder_decoder = encoder_decoder
        self._positions: Tensor | None = None
        self._narrowed = False
        layer = None if encoder_decoder else model.get_output_embeddings()  # type: ignore[operator]
        if layer is not None:
            hook = layer.register_forward_pre_hook(self._narrow)
            if not self._agrees(model):
                hook.remove()

    def __call__(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits (n, vocabulary), targets (n,) and the row of each (n,), for the n answer tokens of a batch."""
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        labels = batch["labels"]
        if self._encoder_decoder:
            positions = labels != IGNORED
            logits = model(**inputs, use_cache=False, return_dict=True).logits[positions]
            return logits, labels[positions], positions.nonzero()[:, 0]
        positions = F.pad(labels[:, 1:] != IGNORED, (0, 1))  # a token is predicted at the previous position
        targets = labels[:, 1:][positions[:, :-1]]
        return self._at(model, inputs, positions), targets, positions.nonzero()[:, 0]

    def _at(self, model: nn.Module, inputs: Batch, positions: Tensor) -> Tensor:
        self._positions, self._narrowed = positions, False
        try:
            logits: Tensor = model(**inputs, use_cache=False, return_dict=True).logits
        finally:
            self._positions = None
        return logits.flatten(0, 1) if self._narrowed else logits[positions]

    def _narrow(self, layer: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """(rows, tokens, width) to (1, n, width)."""
        if self._positions is None or not arguments or arguments[0].shape[:2] != self._positions.shape:
            return None
        self._narrowed = True
        return arguments[0][self._positions][None], *arguments[1:]

    @torch.no_grad()
    def _agrees(self, model: nn.Module) -> bool:
        """Whether a small batch has the same logits with and without the hook."""
        mode = model.training
        model.eval()
        ids = torch.tensor([[1, 2, 3], [3, 1, 2]], device=next(model.parameters()).device)
        positions = torch.tensor([[False, True, False], [True, True, False]], device=ids.device)
        try:
            whole = model(input_ids=ids, use_cache=False, return_dict=True).logits[positions].float()
            narrow = self._at(model, {"input_ids": ids}, positions).float()
        finally:
            model.train(mode)
        bound = 0.05 * whole.abs().max().item()
        return self._narrowed and narrow.shape == whole.shape and bool((narrow - whole).abs().max() <= bound)


def answer_losses(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each answer token in nats, (n,) float32."""
    return F.cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing)
