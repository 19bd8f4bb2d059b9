"""The mean of several adapters of one base, as one adapter:

    python -m training.average --out runs/mean runs/a=2 runs/b runs/c/checkpoint-50

States of one run, or of runs that started from one adapter, lie close together, and the noise in each of them cancels out
(Wortsman et al., ICML 2022). Knows PEFT's files; nothing of models and data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.backbones.weights import file_sha256
from ld_agent.errors import ConfigError, InputError
from training.command import run_command

if TYPE_CHECKING:
    from torch import Tensor

SAME = ("base_model_name_or_path", "r", "lora_alpha", "target_modules", "use_rslora", "use_dora")
WEIGHTS, CONFIG, CARD = "adapter_model.safetensors", "adapter_config.json", "README.md"


@dataclass(frozen=True, slots=True)
class Part:
    """An adapter's folder, how much it counts, and its configuration."""

    folder: Path
    weight: float
    config: Mapping[str, Any]


def read_part(text: str) -> Part:
    """Read ``FOLDER`` or ``FOLDER=WEIGHT``.

    Raises:
        ConfigError: the weight is not a number above 0.
        InputError: there is no adapter, or its configuration is broken.
    """
    folder, _, weight = text.partition("=")
    try:
        value = float(weight or 1)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"{text!r} does not have a weight above 0; write FOLDER or FOLDER=2")
    path = Path(folder)
    if not all((path / name).is_file() for name in (WEIGHTS, CONFIG)):
        raise InputError(f"{folder} holds no adapter; give the folder of a LoRA adapter or of a checkpoint")
    try:
        return Part(path, value, dict(json.loads((path / CONFIG).read_text("utf-8"))))
    except (OSError, ValueError, TypeError) as exc:
        raise InputError(f"{path / CONFIG} cannot be read ({exc}); give a complete adapter") from exc


def average(parts: Sequence[Part], out: Path) -> None:
    """Write the weighted mean of adapters. The card is the first one's, plus a section on the others.

    Raises:
        ConfigError: fewer than two adapters, or they differ in base, rank, scale or modules.
        InputError: an adapter cannot be read, or ``out`` exists or cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if len(parts) < 2:
        raise ConfigError("a mean needs two or more adapters; name another one")
    first = parts[0]
    for part in parts[1:]:
        for key in SAME:
            expected, actual = (_value(one.config.get(key)) for one in (first, part))
            if expected != actual:
                raise ConfigError(
                    f"{part.folder} has {key}={actual}, {first.folder} {expected}; only adapters of one shape have a mean"
                )
    weights = _mean(parts)
    if out.exists():
        raise InputError(f"{out} exists; give a new folder")
    try:
        out.mkdir(parents=True)
        save_file(weights, out / WEIGHTS, {"format": "pt"})
        (out / CARD).write_text(_card(parts), "utf-8")
        (out / CONFIG).write_bytes((first.folder / CONFIG).read_bytes())
    except (OSError, SafetensorError) as exc:
        shutil.rmtree(out, ignore_errors=True)
        raise InputError(f"{out} cannot be written ({exc}); give a folder with room") from exc


def _mean(parts: Sequence[Part]) -> dict[str, Tensor]:
    """The weighted mean of the adapters' tensors, summed in float32, in the narrowest dtype that one of them has."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    total = sum(part.weight for part in parts)
    mean: dict[str, Tensor] = {}
    dtypes = set()
    for part in parts:
        try:
            weights = load_file(part.folder / WEIGHTS)
        except (OSError, SafetensorError) as exc:
            raise InputError(f"{part.folder / WEIGHTS} cannot be read ({exc}); give a complete adapter") from exc
        if mean and weights.keys() != mean.keys():
            raise ConfigError(
                f"{part.folder} and {parts[0].folder} hold different modules; only adapters of one shape have a mean"
            )
        for name, tensor in weights.items():
            dtypes.add(tensor.dtype)
            share = tensor.float() * (part.weight / total)
            mean[name] = mean[name] + share if name in mean else share
    # Checkpoints are float32; a finished adapter has the dtype that was asked for.
    dtype = min(dtypes, key=lambda dtype: dtype.itemsize)
    return {name: tensor.to(dtype) for name, tensor in mean.items()}


def _value(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _card(parts: Sequence[Part]) -> str:
    """The first adapter's card, with a section on all of them before its table."""
    first = parts[0].folder
    card = first / CARD
    head, table, rest = (card.read_text("utf-8") if card.is_file() else "").partition("\n| | |\n")
    lines = [
        head,
        "## A mean",
        f"The weights are the mean of these adapters. Everything below describes `{first}`, the first of them.",
        "",
        "| adapter | weight | sha256 |",
        "|---|---|---|",
        *(f"| `{part.folder}` | {part.weight:g} | `{file_sha256(part.folder / WEIGHTS)}` |" for part in parts),
    ]
    return "\n".join(lines) + f"\n{table}{rest}"


def main() -> None:
    """The command."""

    def run(
        adapters: Annotated[list[str], typer.Argument(help="FOLDER or FOLDER=WEIGHT, two or more of one base.")],
        out: Annotated[Path, typer.Option("--out", help="The folder of the mean.")],
    ) -> None:
        """Make one adapter of several: the mean of their weights."""
        average([read_part(text) for text in adapters], out)

    run_command(run, "training.average")


if __name__ == "__main__":
    main()
