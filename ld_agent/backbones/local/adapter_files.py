"""A LoRA adapter in PEFT's files, checked against its settings and against the base that it is for. Runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ld_agent.errors import ModelError

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter as it was read.

    Attributes:
        module: what uses it, for errors.
        settings: PEFT's.
        factors: A (r, in) and B (out, r) by the path of the linear module that they change.
    """

    module: str
    folder: Path
    settings: Mapping[str, Any]
    factors: Mapping[str, tuple[Tensor, Tensor]]

    def scale(self, path: str) -> float:
        """What B A x is multiplied by."""
        alpha = _by_pattern(self.settings.get("alpha_pattern"), path, self.settings.get("lora_alpha", 8))
        rank = _rank(self.settings, path)
        return float(alpha / (rank**0.5 if self.settings.get("use_rslora") else rank))

    def check_base(self, base: str, linear: Mapping[str, Shape]) -> None:
        """Refuse a base that the adapter was not made for, and an adapter without some of its factors.

        Args:
            base: its name, for errors.
            linear: (out, in) of its linear modules by path.

        Raises:
            ModelError: names the module.
        """
        given = {path: (len(up), down.shape[1]) for path, (down, up) in self.factors.items()}
        made_for = self.settings.get("base_model_name_or_path") or "an unnamed base"
        for path, shape in given.items():
            if linear.get(path) != shape:
                there = f"is {linear[path]}" if path in linear else "is not a linear module"
                raise ModelError(
                    f"adapter {self.module!r} in {self.folder} was made for {made_for}, not for {base}: {path} {there} "
                    f"there, the adapter has {shape}; use the adapter's own base, or tune it for this one"
                )
        if missing := [path for path in linear if path not in given and self._names(path)]:
            raise _damaged(self.module, self.folder, f"has no tensors for {missing[0]}, which its settings name")

    def check_names(self) -> None:
        """What `check_base` does, as far as it can be done without a base: refuse an adapter without any tensor for a name.

        Raises:
            ModelError: gives the name.
        """
        named = self.settings.get("target_modules")
        for name in [] if isinstance(named, str) else named or []:
            if not any(_is_named([name], path) for path in self.factors):
                raise _damaged(self.module, self.folder, f"has no tensors for {name}, which its settings name")

    def _names(self, path: str) -> bool:
        """Whether the settings name a linear module, by PEFT's rules."""
        layers = self.settings.get("layers_to_transform")
        if layers is not None and layers != []:
            number = next((int(part) for part in path.split(".") if part.isdecimal()), None)
            if number not in ([layers] if isinstance(layers, int) else layers):
                return False
        excluded = _is_named(self.settings.get("exclude_modules"), path)
        return _is_named(self.settings.get("target_modules"), path) and not excluded


def read_adapter(
    module: str, folder: Path, accepted: Mapping[str, tuple[object, ...]], refused: Callable[[str], Exception]
) -> Adapter:
    """Read a folder that PEFT wrote.

    Args:
        accepted: the values that some settings may have, None where they may be absent.
        refused: the error for a setting with another value, or for a tensor that is no factor of a linear module.

    Raises:
        ModelError: as `read_settings`; no readable tensors there, or others than the settings say.
    """
    settings, file = read_settings(module, folder), folder / WEIGHTS
    for key, values in accepted.items():
        if settings.get(key) not in values:
            raise refused(f"{key}={settings.get(key)!r}")
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError, RuntimeError, ValueError) as exc:
        raise ModelError(f"adapter {module!r}: {file} cannot be read ({exc}); save the adapter again") from exc
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if (match := TENSOR.fullmatch(name)) is None:
            raise refused(f"the tensor {name}")
        pairs.setdefault(match[1], {})[match[2]] = tensor
    if not pairs:
        raise _damaged(module, folder, "has no tensors")
    for path, pair in pairs.items():
        rank, shapes = _rank(settings, path), {part: tuple(pair[part].shape) for part in sorted(pair)}
        down, up = shapes.get("A", ()), shapes.get("B", ())
        if len(down) != 2 or len(up) != 2 or down[0] != rank or up[1] != rank:
            has = " and ".join(f"{part} {shape}" for part, shape in shapes.items())
            raise _damaged(
                module, folder, f"has {has} for {path}, but its settings say A ({rank}, in) and B (out, {rank})"
            )
    return Adapter(module, folder, settings, {path: (pair["A"], pair["B"]) for path, pair in pairs.items()})


def read_settings(module: str, folder: Path) -> dict[str, Any]:
    """PEFT's settings of a LoRA adapter.

    Raises:
        ModelError: there are none.
    """
    file = folder / SETTINGS
    try:
        settings = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelError(f"adapter {module!r}: {file} cannot be read; give a folder that PEFT saved") from exc
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        kind = settings.get("peft_type") if isinstance(settings, dict) else settings
        raise ModelError(f"adapter {module!r} in {folder} is of type {kind!r}; only LORA is served")
    return settings


def linear_shapes(model: nn.Module) -> dict[str, Shape]:
    """(out, in) of a model's linear modules by path."""
    shapes = {}
    for path, module in model.named_modules():
        if type(module).__name__ == "Conv1D":  # of the GPT-2 family, whose weight is transposed
            shapes[path] = (module.get_parameter("weight").shape[1], module.get_parameter("weight").shape[0])
        elif isinstance(getattr(module, "in_features", None), int):
            shapes[path] = (int(module.out_features), int(module.in_features))
    return shapes


def _damaged(module: str, folder: Path, what: str) -> ModelError:
    return ModelError(f"adapter {module!r}: {folder / WEIGHTS} {what}; save or fetch the adapter again")


def _is_named(names: str | list[str] | None, path: str) -> bool:
    if isinstance(names, str):
        return re.fullmatch(names, path) is not None
    return any(path == name or path.endswith(f".{name}") for name in names or ())


def _rank(settings: Mapping[str, Any], path: str) -> Any:
    return _by_pattern(settings.get("rank_pattern"), path, settings.get("r", 8))


def _by_pattern(patterns: Mapping[str, float] | None, path: str, default: float) -> float:
    for pattern, value in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", path):
            return value
    return default
