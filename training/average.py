"""The mean of several adapters of one base, as one adapter:

    python -m training.average --out runs/mean runs/a=2 runs/b runs/c/checkpoint-50

States of one run, or of runs that went on from one adapter, lie close together, and what is noise in each of them cancels
out (Wortsman et al., ICML 2022). Knows PEFT's files; nothing of models and data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ld_agent.backbones.weights import file_sha256
from ld_agent.errors import ConfigError, InputError
from training.command import run_command

SAME = ("base_model_name_or_path", "r", "lora_alpha", "target_modules", "use_rslora", "use_dora")
WEIGHTS, CONFIG, CARD = "adapter_model.safetensors", "adapter_config.json", "README.md"


@dataclass(frozen=True, slots=True)
class Part:
    """An adapter's folder and how much it counts."""

    folder: Path
    weight: float

    @property
    def config(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / CONFIG).read_text("utf-8")))


def read_part(text: str) -> Part:
    """Read ``FOLDER`` or ``FOLDER=WEIGHT``.

    Raises:
        ConfigError: the weight is no number above 0.
        InputError: no adapter is there.
    """
    folder, _, weight = text.partition("=")
    try:
        value = float(weight or 1)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"{text!r} has no weight above 0; write FOLDER or FOLDER=2")
    part = Part(Path(folder), value)
    if not all((part.folder / name).is_file() for name in (WEIGHTS, CONFIG)):
        raise InputError(f"{folder} holds no adapter; give the folder of a LoRA adapter or of a checkpoint")
    return part


def average(parts: Sequence[Part], out: Path) -> None:
    """Write the weighted mean of adapters. The card is the first one's, with what it was averaged with.

    Raises:
        ConfigError: fewer than two adapters, or they differ in base, rank, scale or modules.
        InputError: ``out`` is there already, or cannot be written.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    if len(parts) < 2:
        raise ConfigError("a mean needs two adapters or more; name another one")
    first = parts[0]
    for part in parts[1:]:
        for key in SAME:
            was, found = (_value(one.config.get(key)) for one in (first, part))
            if was != found:
                raise ConfigError(f"{part.folder} has {key}={found}, {first.folder} {was}; only like ones have a mean")
    total = sum(part.weight for part in parts)
    mean: dict[str, torch.Tensor] = {}
    dtypes = set()
    for part in parts:
        try:
            weights = load_file(part.folder / WEIGHTS)
        except (OSError, SafetensorError) as exc:
            raise InputError(f"{part.folder / WEIGHTS} cannot be read ({exc}); give a whole adapter") from exc
        if mean and weights.keys() != mean.keys():
            raise ConfigError(f"{part.folder} and {first.folder} hold different modules; only like ones have a mean")
        for name, tensor in weights.items():
            dtypes.add(tensor.dtype)
            share = tensor.float() * (part.weight / total)
            mean[name] = mean[name] + share if name in mean else share
    # Checkpoints are float32; an adapter that is done says what is wanted.
    dtype = min(dtypes, key=lambda found: found.itemsize)
    try:
        out.mkdir(parents=True)
        save_file({name: tensor.to(dtype) for name, tensor in mean.items()}, out / WEIGHTS, {"format": "pt"})
        (out / CARD).write_text(_card(parts), "utf-8")
        (out / CONFIG).write_bytes((first.folder / CONFIG).read_bytes())
    except FileExistsError as exc:
        raise InputError(f"{out} exists; give a folder that does not") from exc
    except OSError as exc:
        raise InputError(f"{out} cannot be written ({exc.strerror}); give a folder with room") from exc


def _value(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _card(parts: Sequence[Part]) -> str:
    """The first adapter's card with a section on the others, before its table."""
    first = parts[0].folder
    own = (
        (first / CARD).read_text("utf-8")
        if (first / CARD).is_file()
        else f"# A LoRA adapter\n\n(No card in {first}.)\n"
    )
    lines = [
        "## A mean",
        f"The weights are the mean of these adapters. All that follows is of `{first}`, the first of them.",
        "",
        "| adapter | weight | sha256 |",
        "|---|---|---|",
        *(f"| `{part.folder}` | {part.weight:g} | `{file_sha256(part.folder / WEIGHTS)}` |" for part in parts),
        "",
        "",
    ]
    head, table, rest = own.partition("\n| | |\n")
    return f"{head}\n" + "\n".join(lines).rstrip("\n") + f"\n{table}{rest}" if table else own + "\n" + "\n".join(lines)


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
