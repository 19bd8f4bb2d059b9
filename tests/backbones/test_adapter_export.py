"""Adapters as vLLM and llama.cpp load them: their names, shapes and order of rows, and a clear refusal of any other."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tiny_models import DAMAGED, damage

from ld_agent.backbones.adapter_export import export_for_llama_cpp, export_for_vllm
from ld_agent.backbones.local.adapter_files import SETTINGS, TENSOR, WEIGHTS
from ld_agent.backbones.weights import _path_in_package
from ld_agent.config import Config
from ld_agent.errors import InputError, ModelError
from ld_agent.files import shipped_path

BASE = Config().backbone.model
SHIPPED = shipped_path("data/adapters/extractor")
EXPORTS: dict[str, Any] = {
    "vLLM": partial(export_for_vllm, base=None),
    "llama.cpp": partial(export_for_llama_cpp, base=BASE),
}


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "adapter"))


def test_what_ships_is_exported_to_vllm_a_folder_a_module(tmp_path: Path) -> None:
    adapters = {name: f"shipped:adapters/{name}" for name in ("summarizer", "extractor", "generator")}
    out = tmp_path / "served"
    command = export_for_vllm(adapters, "org/base", out)
    assert sorted(folder.name for folder in out.iterdir()) == sorted(adapters)
    assert f"extractor={out / 'extractor'}" in command
    assert "vllm serve org/base --enable-lora --max-loras 3 --max-lora-rank 16" in command
    for name in adapters:
        settings = json.loads((out / name / SETTINGS).read_text())
        assert settings["base_model_name_or_path"] == "org/base"
        with safe_open(out / name / WEIGHTS, "np") as weights:
            names = list(weights.keys())
            ranks = {weights.get_slice(key).get_shape()[0] for key in names if ".lora_A." in key}
        assert ranks == {settings["r"]}
        assert settings["r"] <= 16
        assert all(TENSOR.fullmatch(key) for key in names)
        assert {key.split(".")[-3] for key in names} == set(settings["target_modules"])


def test_what_ships_is_exported_to_llama_cpp_in_the_names_shapes_and_rows_of_the_base(tmp_path: Path) -> None:
    command = export_for_llama_cpp({"extractor": str(SHIPPED)}, BASE, tmp_path / "out")
    assert f"--lora {tmp_path / 'out' / 'extractor'}.gguf" in command
    file = gguf.GGUFReader(tmp_path / "out" / "extractor.gguf")
    said = {name: field.contents() for name, field in file.fields.items()}
    assert (said["general.type"], said["adapter.type"], said["adapter.lora.alpha"]) == ("adapter", "lora", 32.0)
    assert said["general.architecture"] == "llama"
    base = {t.name: t.shape.tolist() for t in gguf.GGUFReader(_path_in_package(BASE)).tensors}
    written = {t.name: t for t in file.tensors}
    weights = load_file(SHIPPED / WEIGHTS)
    assert len(written) == len(weights)
    for name, tensor in written.items():
        of, _, part = name.rpartition(".lora_")
        inward, outward = base[of]  # llama.cpp names the last dimension first
        assert tensor.shape.tolist() == ([inward, 16] if part == "a" else [16, outward]), name
    layer, size = "base_model.model.model.layers.3.self_attn", 64
    theirs = {name: weights[f"{layer}.{name}_proj.lora_B.weight"] for name in "qkv"}
    ours = {name: written[f"blk.3.attn_{name}.weight.lora_b"].data for name in "qkv"}
    assert np.array_equal(ours["v"], theirs["v"])
    for name in "qk":  # paired as llama.cpp pairs them
        for first in range(0, len(theirs[name]), size):
            assert np.array_equal(ours[name][first : first + size : 2], theirs[name][first : first + size // 2])
            assert np.array_equal(
                ours[name][first + 1 : first + size : 2], theirs[name][first + size // 2 : first + size]
            )


@pytest.mark.parametrize(
    ("server", "settings", "message"),
    [
        ("vLLM", {"r": 64}, "has rank 64, the server takes 16; give --max-rank 64"),
        ("vLLM", {"bias": "all"}, "has bias='all', which vLLM does not support"),
        ("vLLM", {"modules_to_save": ["lm_head"]}, "has modules_to_save"),
        ("llama.cpp", {"use_dora": True}, r"has use_dora=True, which llama\.cpp does not support"),
    ],
)
def test_what_a_server_refuses_is_refused_before_anything_is_written(
    adapter: Path, tmp_path: Path, server: str, settings: dict[str, object], message: str
) -> None:
    file, out = adapter / SETTINGS, tmp_path / "out"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    with pytest.raises(InputError, match=message):
        EXPORTS[server]({"extractor": str(adapter)}, out=out)
    assert not out.exists()


@pytest.mark.parametrize("server", EXPORTS)
@pytest.mark.parametrize("tensor", ["base_model.model.lm_head.weight", "base_model.model.lm_tail.lora_A.bias"])
def test_a_tensor_that_a_server_does_not_know_is_named(adapter: Path, tmp_path: Path, server: str, tensor: str) -> None:
    save_file({tensor: np.zeros((2, 2), np.float32)}, adapter / WEIGHTS)
    with pytest.raises(InputError, match=rf"has the tensor {tensor}, which {server} does not support"):
        EXPORTS[server]({"extractor": str(adapter)}, out=tmp_path / "out")


@pytest.mark.parametrize("server", EXPORTS)
def test_an_adapter_that_is_not_whole_is_not_exported(adapter: Path, tmp_path: Path, server: str) -> None:
    for name, (change, message) in DAMAGED.items():
        damaged = shutil.copytree(adapter, tmp_path / name)
        damage(damaged, change)
        with pytest.raises(ModelError, match=rf"adapter 'extractor': .*{message}"):
            EXPORTS[server]({"extractor": str(damaged)}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_llama_cpp_gets_factors_in_16_bits_of_every_layer_of_the_base(adapter: Path, tmp_path: Path) -> None:
    damage(adapter, lambda weights: {name: values.bfloat16() for name, values in weights.items()})
    export_for_llama_cpp({"extractor": str(adapter)}, BASE, tmp_path / "out")
    assert (tmp_path / "out" / "extractor.gguf").is_file()
    damage(adapter, lambda weights: {name: values for name, values in weights.items() if ".layers.29." not in name})
    with pytest.raises(ModelError, match=r"has no tensors for model\.layers\.29\.self_attn\.q_proj"):
        export_for_llama_cpp({"extractor": str(adapter)}, BASE, tmp_path / "more")


@pytest.mark.parametrize("server", EXPORTS)
def test_a_folder_with_something_in_it_and_a_config_without_adapters_are_refused(tmp_path: Path, server: str) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match="is not an empty folder"):
        EXPORTS[server]({"extractor": str(SHIPPED)}, out=tmp_path)
    with pytest.raises(InputError, match="no adapter to export"):
        EXPORTS[server]({}, out=tmp_path / "out")


def test_llama_cpp_loads_it_and_answers_otherwise(tmp_path: Path) -> None:
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    export_for_llama_cpp({"extractor": str(SHIPPED)}, BASE, tmp_path / "out")
    prompt = "I have two dogs and I love hiking."
    model = str(_path_in_package(BASE))
    answers = []
    for lora in (None, str(tmp_path / "out" / "extractor.gguf")):
        llama = llama_cpp.Llama(model, lora_path=lora, n_ctx=256, verbose=False, seed=0)
        answers.append(llama(prompt, max_tokens=16, temperature=0.0)["choices"][0]["text"])
    assert answers[0] != answers[1]
