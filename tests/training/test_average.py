"""Means of adapters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from training_parts import Commands

from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.errors import ConfigError, InputError
from training.average import average, read_part
from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]


@pytest.fixture
def two(settings: Make, tmp_path: Path) -> list[Path]:
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        tune(settings(output_dir=str(folder), max_steps=2, seed=seed, adapter_dtype="float16"), "extractor")
    return folders


def test_the_weighted_mean_loads_and_records_its_sources(
    two: list[Path], command: Commands, tmp_path: Path, tiny_llama: Path
):
    out = tmp_path / "mean"
    done = command("average", "--out", out, f"{two[0]}=3", two[1])
    assert (done.code, done.err) == (0, "")
    a, b, mean = (load_file(folder / "adapter_model.safetensors") for folder in (*two, out))
    assert any(not torch.equal(a[name], b[name]) for name in a)
    for name, found in mean.items():
        assert found.dtype == torch.float16
        assert torch.allclose(found.float(), 0.75 * a[name].float() + 0.25 * b[name].float(), atol=1e-3)
    card = (out / "README.md").read_text()
    for part in (f"| `{two[0]}` | 3 |", f"| `{two[1]}` | 1 |", "| base |", "sha256"):
        assert part in card, part
    assert card.index("## A mean") < card.index("| base |")
    backbone = LocalBackbone(str(tiny_llama), dtype="float32", device="cpu", adapters={"mean": str(out)})
    assert backbone.generate([Request((Message("user", "a?"),), "extractor", 4, adapter="mean")])


def test_adapters_of_different_ranks_have_a_mean_change(settings: Make, tmp_path: Path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for rank, folder in zip((2, 4), folders, strict=True):
        tune(settings(output_dir=str(folder), max_steps=2, lora_r=rank, lora_alpha=8), "extractor")
    parts = [read_part(f"{folders[0]}=3"), read_part(str(folders[1]))]
    with pytest.raises(ConfigError, match="has r=4"):
        average(parts, tmp_path / "none")
    average(parts, tmp_path / "mean", rank=6)
    wanted = {}
    for part, share in zip(parts, (0.75, 0.25), strict=True):
        for name, change in changes(part.folder).items():
            wanted[name] = wanted.get(name, 0) + share * change
    found = changes(tmp_path / "mean")
    assert found.keys() == wanted.keys()
    for name, change in found.items():
        assert torch.allclose(change, wanted[name], atol=1e-4)
    with pytest.raises(ConfigError, match="--rank 6 or less"):
        average(parts, tmp_path / "more", rank=7)


def changes(folder: Path) -> dict[str, torch.Tensor]:
    """What an adapter adds to each matrix of the base."""
    weights = load_file(folder / "adapter_model.safetensors")
    config = json.loads((folder / "adapter_config.json").read_text())
    scale = config["lora_alpha"] / config["r"]
    return {
        name: scale * weights[name.replace("lora_A", "lora_B")].float() @ down.float()
        for name, down in weights.items()
        if "lora_A" in name
    }


def test_invalid_averages_are_rejected(two: list[Path], tmp_path: Path):
    parts = [read_part(str(folder)) for folder in two]
    with pytest.raises(ConfigError, match="at least two adapters"):
        average(parts[:1], tmp_path / "out")
    with pytest.raises(InputError, match="exists"):
        average(parts, two[0])
    with pytest.raises(InputError, match="no adapter"):
        read_part(str(tmp_path / "nowhere"))
    for text in (f"{two[0]}=0", f"{two[0]}=much", f"{two[0]}=nan"):
        with pytest.raises(ConfigError, match="weight above 0"):
            read_part(text)
    config = json.loads((two[1] / "adapter_config.json").read_text())
    (two[1] / "adapter_config.json").write_text(json.dumps(config | {"r": 4}))
    with pytest.raises(ConfigError, match="r=4"):
        average([read_part(str(folder)) for folder in two], tmp_path / "out")
    (two[1] / "adapter_config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        read_part(str(two[1]))
    (two[1] / "adapter_config.json").write_text(json.dumps(config))
    weights = load_file(two[1] / "adapter_model.safetensors")
    save_file(dict(list(weights.items())[:-1]), two[1] / "adapter_model.safetensors")
    with pytest.raises(ConfigError, match="different modules"):
        average(parts, tmp_path / "out")
    (two[1] / "adapter_model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        average(parts, tmp_path / "out")
    assert not (tmp_path / "out").exists()
