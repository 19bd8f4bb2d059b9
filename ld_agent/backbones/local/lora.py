"""LoRA adapters in PEFT's format on one shared base, chosen per row of a batch.

Reads the files that PEFT writes and computes ``base(x) + scale · B A x`` with each row's own A and B. Knows modules and
tensors, and nothing of prompts or decoding. PEFT itself is not needed to run an adapter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ld_agent.errors import ModelError

_KEY = re.compile(r"base_model\.model\.(.+)\.(lora_A|lora_B)(?:\.default)?\.weight")
PIECE = 64
"""Tokens of a prompt for which an adapter's part is computed at a time."""
_UNSUPPORTED = {"use_dora": False, "modules_to_save": None, "bias": "none", "lora_bias": False}


@dataclass(frozen=True, slots=True)
class Factors:
    """One adapter's part in one linear module, float32: ``down`` (r, in) and ``up`` (out, r) with the scale in it."""

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
        self._model, self._base_name = model, base_name
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
            ModelError: no readable LoRA adapter there, one of a kind that cannot be chosen per row, or one made for
                another base.
        """
        settings = _settings(name, folder)
        weights = _weights(name, folder)
        made_for = settings.get("base_model_name_or_path") or "an unnamed base"
        pairs: dict[str, dict[str, Tensor]] = {}
        for key, tensor in weights.items():
            match = _KEY.fullmatch(key)
            if match is None:
                raise ModelError(
                    f"adapter {name!r} in {folder} holds {key}, which cannot be chosen per row; "
                    f"train LoRA on linear modules only"
                )
            pairs.setdefault(match[1], {})[match[2]] = tensor
        modules = {}
        for path, pair in pairs.items():
            module = self._linear(path)
            shape = None if module is None or len(pair) < 2 else _shape(module)
            if module is None or shape != (pair["lora_B"].shape[0], pair["lora_A"].shape[1]):
                actual = "is not a linear module there" if module is None else f"is {shape} there"
                wanted = tuple(pair[part].shape for part in sorted(pair))
                raise ModelError(
                    f"adapter {name!r} in {folder} was made for {made_for}, not for {self._base_name}: "
                    f"{path} {actual}, the adapter has {wanted}; use the adapter's own base, or tune it for this one"
                )
            modules[path] = module
        for path, module in modules.items():
            adapted = self._adapted(path, module)
            down, up = pairs[path]["lora_A"].float(), pairs[path]["lora_B"].float() * _scale(settings, path)
            adapted.factors[name] = Factors(down.to(self._device), up.to(self._device))
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

    def _linear(self, path: str) -> nn.Module | None:
        if path in self._modules:
            return self._modules[path]
        try:
            module = self._model.get_submodule(path)
        except AttributeError:
            return None
        return module if getattr(module, "weight", None) is not None and _is_linear(module) else None

    def _adapted(self, path: str, module: nn.Module) -> AdaptedLinear:
        if isinstance(module, AdaptedLinear):
            return module
        adapted = AdaptedLinear(module)
        parent, _, child = path.rpartition(".")
        setattr(self._model.get_submodule(parent), child, adapted)
        self._modules[path] = adapted
        return adapted


def _is_linear(module: nn.Module) -> bool:
    return hasattr(module, "in_features") or type(module).__name__ == "Conv1D"


def _shape(module: nn.Module) -> tuple[int, int]:
    base = module.base if isinstance(module, AdaptedLinear) else module
    rows, columns = base.get_parameter("weight").shape
    # Conv1D of the GPT-2 family keeps its weight transposed; PEFT's factors are the same either way.
    return (columns, rows) if type(base).__name__ == "Conv1D" else (rows, columns)


def _stacked(factors: dict[str, Factors], rows: tuple[str | None, ...]) -> tuple[Tensor | None, Tensor | None]:
    used = [factors[row] for row in rows if row in factors]
    if not used:
        return None, None
    rank = max(len(one.down) for one in used)
    down = used[0].down.new_zeros(len(rows), used[0].down.shape[1], rank)
    up = used[0].up.new_zeros(len(rows), rank, used[0].up.shape[0])
    for number, row in enumerate(rows):
        if row is not None and row in factors:
            one = factors[row]
            down[number, :, : len(one.down)] = one.down.T
            up[number, : len(one.down)] = one.up.T
    return down, up


def _settings(name: str, folder: Path) -> dict[str, Any]:
    file = folder / "adapter_config.json"
    try:
        settings = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelError(f"adapter {name!r}: {file} cannot be read; give a folder that PEFT saved") from exc
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        kind = settings.get("peft_type") if isinstance(settings, dict) else settings
        raise ModelError(f"adapter {name!r} in {folder} is of type {kind!r}; only LORA is served")
    for key, plain in _UNSUPPORTED.items():
        if settings.get(key, plain) not in (plain, None, []):
            raise ModelError(
                f"adapter {name!r} in {folder} has {key}={settings[key]!r}, which cannot be chosen per row; "
                f"train it with {key}={plain!r}"
            )
    return settings


def _weights(name: str, folder: Path) -> dict[str, Tensor]:
    file = folder / "adapter_model.safetensors"
    try:
        return load_file(file)
    except (OSError, SafetensorError, RuntimeError, ValueError) as exc:
        raise ModelError(f"adapter {name!r}: {file} cannot be read ({exc}); save the adapter again") from exc


def _scale(settings: dict[str, Any], path: str) -> float:
    rank = _by_pattern(settings.get("rank_pattern"), path, settings["r"])
    alpha = _by_pattern(settings.get("alpha_pattern"), path, settings.get("lora_alpha", 8))
    return float(alpha / (rank**0.5 if settings.get("use_rslora") else rank))


def _by_pattern(patterns: dict[str, float] | None, path: str, default: float) -> float:
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", path):
            return value
    return default
