"""Adapters as llama.cpp loads them: its names, its shapes, its order of rows; and loaded by it where it is installed."""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ld_agent.backbones.adapter_export import SETTINGS, WEIGHTS
from ld_agent.backbones.gguf_lora import export_for_llama_cpp
from ld_agent.backbones.weights import _path_in_package
from ld_agent.config import Config
from ld_agent.errors import InputError
from ld_agent.files import shipped_path

BASE = Config().backbone.model
SHIPPED = shipped_path("data/adapters/extractor")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "adapter"))


def test_what_ships_has_the_names_and_shapes_of_the_base(tmp_path: Path) -> None:
    out = tmp_path / "out"
    [command] = export_for_llama_cpp({"extractor": "shipped:adapters/extractor"}, BASE, out)
    assert f"--lora {out / 'extractor'}.gguf" in command
    file = gguf.GGUFReader(out / "extractor.gguf")
    said = {name: field.contents() for name, field in file.fields.items()}
    assert said["general.type"] == "adapter"
    assert said["adapter.type"] == "lora"
    assert said["general.architecture"] == "llama"
    assert said["adapter.lora.alpha"] == 32.0
    base = {t.name: t.shape.tolist() for t in gguf.GGUFReader(_path_in_package(BASE)).tensors}
    written = {t.name: t for t in file.tensors}
    assert len(written) == len(load_file(SHIPPED / WEIGHTS))
    for name, tensor in written.items():
        of, _, part = name.rpartition(".lora_")
        inward, outward = base[of]  # llama.cpp names the last dimension first
        assert tensor.shape.tolist() == ([inward, 16] if part == "a" else [16, outward]), name


def test_rows_of_q_and_k_are_paired_as_llama_cpp_pairs_them(tmp_path: Path) -> None:
    export_for_llama_cpp({"extractor": str(SHIPPED)}, BASE, tmp_path / "out")
    written = {t.name: t.data for t in gguf.GGUFReader(tmp_path / "out" / "extractor.gguf").tensors}
    weights = load_file(SHIPPED / WEIGHTS)
    layer = "base_model.model.model.layers.3.self_attn"
    q, k, v = (weights[f"{layer}.{name}_proj.lora_B.weight"] for name in "qkv")
    ours = {name: written[f"blk.3.attn_{name}.weight.lora_b"] for name in "qkv"}
    size = 64
    for heads, theirs, mine in ((9, q, ours["q"]), (3, k, ours["k"])):
        for head in range(heads):
            first = head * size
            assert np.array_equal(mine[first : first + size : 2], theirs[first : first + size // 2])
            assert np.array_equal(mine[first + 1 : first + size : 2], theirs[first + size // 2 : first + size])
    assert np.array_equal(ours["v"], v)


def test_what_llama_cpp_cannot_take_is_refused_before_anything_is_written(adapter: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save_file({"base_model.model.lm_tail.lora_A.weight": np.zeros((2, 2), np.float32)}, adapter / WEIGHTS)
    with pytest.raises(InputError, match=r"does not know: base_model.model.lm_tail.lora_A.weight"):
        export_for_llama_cpp({"extractor": str(adapter)}, BASE, out)
    file = adapter / SETTINGS
    file.write_text(json.dumps(json.loads(file.read_text()) | {"use_dora": True}))
    with pytest.raises(InputError, match=r"has use_dora=True, which llama\.cpp does not support"):
        export_for_llama_cpp({"extractor": str(adapter)}, BASE, out)
    assert not out.exists()
    with pytest.raises(InputError, match="has no adapter to export"):
        export_for_llama_cpp({}, BASE, out)


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
