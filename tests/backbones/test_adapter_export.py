"""Adapters as vLLM loads them: a folder a module with names and ranks that it takes, and a clear refusal of any other."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from ld_agent.backbones.adapter_export import SETTINGS, VLLM_TENSOR, WEIGHTS, export_for_vllm
from ld_agent.errors import InputError
from ld_agent.files import shipped_path

SHIPPED = shipped_path("data/adapters/extractor")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "adapter"))


def change(adapter: Path, **settings: object) -> None:
    file = adapter / SETTINGS
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_what_ships_is_exported_a_folder_a_module(tmp_path: Path) -> None:
    adapters = {name: f"shipped:adapters/{name}" for name in ("summarizer", "extractor", "generator")}
    out = tmp_path / "served"
    [command] = export_for_vllm(adapters, "org/base", out)
    assert sorted(folder.name for folder in out.iterdir()) == sorted(adapters)
    assert f"extractor={out / 'extractor'}" in command
    assert "vllm serve org/base --enable-lora --max-loras 3 --max-lora-rank 16" in command
    for name in adapters:
        settings = json.loads((out / name / SETTINGS).read_text())
        assert settings["base_model_name_or_path"] == "org/base"
        assert settings["r"] <= 16
        with safe_open(out / name / WEIGHTS, "np") as weights:
            names = list(weights.keys())
            ranks = {weights.get_slice(key).get_shape()[0] for key in names if ".lora_A." in key}
        assert ranks == {settings["r"]}
        assert all(VLLM_TENSOR.fullmatch(key) for key in names)
        assert {key.split(".")[-3] for key in names} == set(settings["target_modules"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"r": 64}, "has rank 64, the server takes 16; give --max-rank 64"),
        ({"bias": "all"}, "has bias='all', which vLLM does not support"),
        ({"use_dora": True}, "has use_dora=True, which vLLM does not support"),
        ({"modules_to_save": ["lm_head"]}, "has modules_to_save"),
    ],
)
def test_what_vllm_refuses_is_refused_before_anything_is_written(
    adapter: Path, tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    change(adapter, **settings)
    with pytest.raises(InputError, match=message):
        export_for_vllm({"extractor": str(adapter)}, None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tensor_that_vllm_does_not_know_is_named(adapter: Path, tmp_path: Path) -> None:
    save_file({"base_model.model.lm_head.weight": np.zeros((2, 2), np.float32)}, adapter / WEIGHTS)
    with pytest.raises(InputError, match=r"does not know: base_model.model.lm_head.weight"):
        export_for_vllm({"extractor": str(adapter)}, None, tmp_path / "out")


def test_a_folder_with_something_in_it_and_a_config_without_adapters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="is not an empty folder"):
        export_for_vllm({"extractor": str(SHIPPED)}, None, tmp_path)
    with pytest.raises(InputError, match="no adapter to export"):
        export_for_vllm({}, None, tmp_path / "out")
