"""LoRA adapters in PEFT's format on one shared base, chosen per row of a batch.

Computes ``base(x) + scale · B A x`` with each row's own A and B. Knows modules and tensors, and nothing of prompts or
decoding. PEFT itself is not needed to run an adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ld_agent.backbones.local.adapter_files import linear_shapes, read_adapter
from ld_agent.errors import ModelError

PIECE = 64
"""Tokens of a prompt for which an adapter's part is computed at a time."""
ACCEPTED: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("use_dora", "lora_bias"), (None, False)),
    "modules_to_save": (None, []),
    "bias": (None, "none"),
}
"""PEFT settings and the values with which an adapter can be chosen per row."""


@dataclass(frozen=True, slots=True)
class Factors:
    """One adapter's part in one linear module, float32: ``down`` (in, r) and ``up`` (r, out) with the scale in it."""

    down: Tensor
    up: Tensor


class AdaptedLinear(nn.Module):
    """A linear module with the factors of any number of adapters; each row of a batch uses one or none.

    `LoraAdapters.select` sets ``down`` (rows, in, r) and ``up`` (rows, r, out), or rows = 1 where all rows agree.
    """

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base
        self.factors: dict[str, Factors] = {}
        self.down: Tensor | None = None
        self.up: Tensor | None = None

    @property
    def weight(self) -> Tensor:
        return self.base.get_parameter("weight")

    def forward(self, x: Tensor) -> Tensor:
        """(rows, tokens, in) or (rows·tokens, in) to the same with ``out`` last."""
        out: Tensor = self.base(x)
        self.add_to(out, x)
        return out

    def add_to(self, out: Tensor, x: Tensor) -> None:
        """Add each row's adapter output for ``x`` to ``out``, in float32 as PEFT does.

        A long prompt is processed in pieces: intermediate results then stay in the processor's cache and need no fresh pages,
        which takes a fifth of the time. In the base's 16 bits it would be faster still, but the extractor got a
        little worse.
        """
        if self.down is None or self.up is None:
            return
        if len(self.down) == 1:
            tokens, values = out.view(-1, out.shape[-1]), x.reshape(-1, x.shape[-1])
            for start in range(0, len(tokens), PIECE):
                piece = values[start : start + PIECE].float()
                tokens[start : start + PIECE].add_((piece @ self.down[0]) @ self.up[0])
        else:
            rows = x.float().reshape(len(self.down), -1, x.shape[-1])
            out.add_(torch.bmm(torch.bmm(rows, self.down), self.up).view(out.shape))


class LoraAdapters:
    """Named adapters on a model; a linear module is wrapped in place once an adapter needs it."""

    def __init__(self, model: nn.Module, base_name: str) -> None:
        self._model, self._base_name, self._linear = model, base_name, linear_shapes(model)
        self._device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._modules: dict[str, AdaptedLinear] = {}
        self._names: set[str] = set()
        self._selected: tuple[str | None, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._names)

    def add(self, name: str, folder: Path) -> None:
        """Read an adapter from a folder written by PEFT.

        Raises:
            ModelError: no readable or whole LoRA adapter there, one of a kind that cannot be chosen per row, or one made
                for another base.
        """

        def refused(what: str) -> ModelError:
            why = "which cannot be chosen per row; train plain LoRA, on linear modules only"
            return ModelError(f"adapter {name!r} in {folder} has {what}, {why}")

        adapter = read_adapter(name, folder, ACCEPTED, refused)
        adapter.check_base(self._base_name, self._linear)
        for path, (down, up) in adapter.factors.items():
            scaled = up.float() * adapter.scale(path)
            transposed = (factor.T.contiguous().to(self._device) for factor in (down.float(), scaled))
            self._adapted(path).factors[name] = Factors(*transposed)
        self._names.add(name)
        self._selected = ()

    def select(self, rows: Sequence[str | None]) -> None:
        """Let row i of the following forward passes use adapter ``rows[i]``; None is the bare base."""
        chosen = tuple(rows)
        if len(set(chosen)) == 1:
            chosen = chosen[:1]
        if chosen == self._selected:
            return
        for module in self._modules.values():
            module.down, module.up = _stacked(module.factors, chosen)
        self._selected = chosen

    def _adapted(self, path: str) -> AdaptedLinear:
        if path not in self._modules:
            parent, _, child = path.rpartition(".")
            self._modules[path] = AdaptedLinear(self._model.get_submodule(path))
            setattr(self._model.get_submodule(parent), child, self._modules[path])
        return self._modules[path]


def _stacked(factors: dict[str, Factors], rows: tuple[str | None, ...]) -> tuple[Tensor | None, Tensor | None]:
    used = [factors[row] for row in rows if row in factors]
    if not used:
        return None, None
    if len(rows) == 1:  # nothing to copy: adapters change with every request
        return used[0].down[None], used[0].up[None]
    rank = max(len(one.up) for one in used)
    down = used[0].down.new_zeros(len(rows), len(used[0].down), rank)
    up = used[0].up.new_zeros(len(rows), rank, used[0].up.shape[1])
    for number, row in enumerate(rows):
        if row is not None and row in factors:
            one = factors[row]
            down[number, :, : len(one.up)] = one.down
            up[number, : len(one.up)] = one.up
    return down, up
