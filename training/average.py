"""The mean of several adapters of one base, as one adapter:

    python -m training.average --out runs/mean runs/a=2 runs/b runs/c/checkpoint-50
    python -m training.average --out runs/mean --rank 16 runs/a=7 runs/of-another-rank=3

States of one run, or of runs that started from one adapter, lie close together, and the noise in each of them cancels out
(Wortsman et al., ICML 2022). With ``--rank``, the changes B·A to the base are averaged, which is possible for any
ranks, and the mean is approximated at the given rank. Knows PEFT's files; nothing of models and data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.backbones.weights import file_sha256
from ld_agent.errors import ConfigError, InputError
from training.command import run_command

if TYPE_CHECKING:
    from torch import Tensor

SAME = ("base_model_name_or_path", "target_modules", "use_rslora", "use_dora")
SHAPE = ("r", "lora_alpha")
WEIGHTS, CONFIG, CARD = "adapter_model.safetensors", "adapter_config.json", "README.md"


@dataclass(frozen=True, slots=True)
class Part:
    """An adapter's folder, weight and configuration."""

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


def average(parts: Sequence[Part], out: Path, rank: int | None = None) -> None:
    """Write the weighted mean of adapters. The card is the first one's, plus a section on the others.

    Args:
        rank: average the changes to the base, and write them with this rank; None: average the weights.

    Raises:
        ConfigError: fewer than two adapters, or they differ in base, rank, scale or modules.
        InputError: an adapter cannot be read, or ``out`` exists or cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if len(parts) < 2:
        raise ConfigError("averaging takes at least two adapters; give another")
    first = parts[0]
    for part in parts[1:]:
        for key in SAME if rank else (*SAME, *SHAPE):
            expected, actual = (_value(one.config.get(key)) for one in (first, part))
            if expected != actual:
                raise ConfigError(
                    f"{part.folder} has {key}={actual}, {first.folder} {expected}; "
                    "only adapters of the same shape can be averaged"
                )
    weights = _mean_change(parts, rank) if rank else _mean(parts)
    config = dict(first.config) | ({"r": rank, "lora_alpha": rank} if rank else {})
    if out.exists():
        raise InputError(f"{out} exists; give a new folder")
    try:
        out.mkdir(parents=True)
        save_file(weights, out / WEIGHTS, {"format": "pt"})
        (out / CARD).write_text(_card(parts), "utf-8")
        (out / CONFIG).write_text(json.dumps(config, indent=2), "utf-8")
    except (OSError, SafetensorError) as exc:
        shutil.rmtree(out, ignore_errors=True)
        raise InputError(f"{out} cannot be written ({exc}); give a folder with enough space") from exc


def _mean(parts: Sequence[Part]) -> dict[str, Tensor]:
    """The weighted mean of the adapters' tensors, summed in float32, in the narrowest of their dtypes."""
    mean: dict[str, Tensor] = {}
    dtypes = set()
    for share, weights in _shares(parts):
        for name, tensor in weights.items():
            dtypes.add(tensor.dtype)
            part = tensor.float() * share
            mean[name] = mean[name] + part if name in mean else part
    # Checkpoints are float32; a finished adapter has the requested dtype.
    dtype = min(dtypes, key=lambda dtype: dtype.itemsize)
    return {name: tensor.to(dtype) for name, tensor in mean.items()}


def _mean_change(parts: Sequence[Part], rank: int) -> dict[str, Tensor]:
    """A and B of the mean change, scaled so that alpha / r is 1; by QR and a small SVD, since B·A itself is large.

    Raises:
        ConfigError: the ranks of the adapters add up to less.
    """
    import torch

    stacked: dict[str, list[Tensor]] = {}
    dtypes = set()
    for (share, weights), part in zip(_shares(parts), parts, strict=True):
        scale = share * part.config["lora_alpha"] / part.config["r"]
        for name, tensor in weights.items():
            dtypes.add(tensor.dtype)
            stacked.setdefault(name, []).append(tensor.float() * (scale if ".lora_B." in name else 1.0))
    mean: dict[str, Tensor] = {}
    for name in [name for name in stacked if ".lora_A." in name]:
        other = name.replace(".lora_A.", ".lora_B.")
        down, up = torch.cat(stacked[name], 0), torch.cat(stacked[other], 1)
        if rank > min(down.shape):
            raise ConfigError(f"the adapters' ranks add up to {min(down.shape)}; give --rank {min(down.shape)} or less")
        right, low = torch.linalg.qr(down.T)
        left, high = torch.linalg.qr(up)
        u, s, v = torch.linalg.svd(high @ low.T)
        root = s[:rank].sqrt()
        mean[name] = (root[:, None] * (v[:rank] @ right.T)).contiguous()
        mean[other] = ((left @ u[:, :rank]) * root).contiguous()
    dtype = min(dtypes, key=lambda dtype: dtype.itemsize)
    return {name: tensor.to(dtype) for name, tensor in mean.items()}


def _shares(parts: Sequence[Part]) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """Each adapter's share of the mean, and its tensors."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    total = sum(part.weight for part in parts)
    names = None
    for part in parts:
        try:
            weights = load_file(part.folder / WEIGHTS)
        except (OSError, SafetensorError) as exc:
            raise InputError(f"{part.folder / WEIGHTS} cannot be read ({exc}); give a complete adapter") from exc
        names = names or weights.keys()
        if weights.keys() != names:
            raise ConfigError(
                f"{part.folder} and {parts[0].folder} hold different modules; only adapters of the same shape can be averaged"
            )
        yield part.weight / total, weights


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
        out: Annotated[Path, typer.Option("--out", help="The output folder.")],
        rank: Annotated[
            int | None,
            typer.Option("--rank", min=1, help="Average the changes to the base, and write the mean with this rank."),
        ] = None,
    ) -> None:
        """Combine adapters into one: the mean of their weights, or of their changes to the base."""
        average([read_part(text) for text in adapters], out, rank)

    run_command(run, "training.average")


if __name__ == "__main__":
    main()
