"""The local backbone against transformers, on tiny models and on the embedded one."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from local_parts import TEXTS, generated, hf_generated, request, steps_of
from tiny_models import save_model

from ld_agent.backbones.answer_text import cleaned
from ld_agent.backbones.base import Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Row, _penalised
from ld_agent.backbones.local.fast_cpu.llama import LlamaSteps
from ld_agent.backbones.local.loading import dtype_on
from ld_agent.errors import BackboneError, ModelError

FAMILIES = ["LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GPT2LMHeadModel"]
SETTINGS: dict[str, dict[str, Any]] = {"MistralForCausalLM": {"sliding_window": None}}


# --- what is generated --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAMILIES)
def test_greedy_answers_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = save_model(tmp_path / "model", kind, **SETTINGS.get(kind, {}))
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    assert isinstance(steps_of(backbone, []), LlamaSteps) == (not kind.startswith("GPT2"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    requests = [request(text) for text in TEXTS]
    expected = [hf_generated(model, backbone.encode_messages(r.messages), 12) for r in requests]
    assert len({tuple(ids) for ids in expected}) > 1
    assert [generated(backbone, [r])[0] for r in requests] == expected
    assert generated(backbone, requests) == expected, "answers depend on the batch"
    completions = backbone.generate(requests)
    assert [c.text for c in completions] == [cleaned(backbone._tokens.decode(ids).strip()).text for ids in expected]
    assert [c.completion_tokens for c in completions] == [len(ids) for ids in expected]
    assert [c.prompt_tokens for c in completions] == [backbone.count_tokens(r.messages) for r in requests]


def test_an_encoder_decoder_model_answers_as_in_transformers(tiny_bart: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    backbone = LocalBackbone(str(tiny_bart), dtype="float32", device="cpu")
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_bart, dtype=torch.float32)
    requests = [request(text) for text in TEXTS]
    expected = []
    for one in requests:
        ids = backbone.encode_messages(one.messages)
        assert backbone._tokens.decode(ids) == f"Be kind.\n\n{one.messages[1].content}"
        out = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, 1:].tolist()
        expected.append(cleaned(backbone._tokens.decode(out[: out.index(0)] if 0 in out else out).strip()).text)
    assert len(set(expected)) > 1
    assert [c.text for c in backbone.generate(requests)] == expected
    assert [backbone.generate([r])[0].text for r in requests] == expected


def test_generation_settings_of_the_model_are_kept(tiny_bart: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    folder = tmp_path / "bart"
    shutil.copytree(tiny_bart, folder)
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text()) | {
        "no_repeat_ngram_size": 2, "forced_bos_token_id": 40, "min_length": 10, "repetition_penalty": 1.3,
    }  # fmt: skip
    file.write_text(json.dumps(settings))
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32)
    plain = LocalBackbone(str(tiny_bart), dtype="float32", device="cpu")
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    one = request(TEXTS[2])
    ids = backbone.encode_messages(one.messages)
    out = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, 1:].tolist()
    assert out[0] == 40
    assert backbone.generate([one])[0].text == cleaned(backbone._tokens.decode(out).strip()).text
    assert backbone.generate([one]) != plain.generate([one])


def test_decoding_stops_at_any_of_several_end_tokens(tiny_llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    shutil.copytree(tiny_llama, folder)
    free = LocalBackbone(str(folder), dtype="float32", device="cpu")
    ids = generated(free, [request("Hello there")])[0]
    end = next(i for i, token in enumerate(ids) if i and token not in ids[:i])
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": [0, ids[end]]}))
    answer = LocalBackbone(str(folder), dtype="float32", device="cpu").generate([request("Hello there")])[0]
    assert (answer.completion_tokens, answer.finish) == (end, "stop")
    assert free.generate([request("Hello there", tokens=5)])[0].finish == "length"


def test_sampling_depends_on_the_seed_and_not_on_the_batch(llama: LocalBackbone) -> None:
    def sampled(seed: int) -> Request:
        return request("Hello there", temperature=1.5, seed=seed)

    alone = [llama.generate([sampled(seed)])[0].text for seed in range(4)]
    assert len(set(alone)) == 4
    assert [c.text for c in llama.generate([sampled(seed) for seed in range(4)])] == alone
    mixed = llama.generate([request(TEXTS[2], temperature=1.0, seed=9), sampled(2), request("a")])
    assert mixed[1].text == alone[2]


def test_a_repetition_penalty_keeps_ids_from_coming_twice_and_spares_the_end(llama: LocalBackbone) -> None:
    [plain] = llama.generate([request("Hello there", tokens=12)])
    [varied] = llama.generate([request("Hello there", tokens=12, repetition_penalty=1e6)])
    assert varied.text != plain.text
    row = Row([1, 2, 3], 4, repetition_penalty=2.0, out=[4])
    logits = torch.tensor([8.0, 8.0, -8.0, 8.0, 0.5, 8.0])
    assert _penalised(logits, row, frozenset({3})).tolist() == [8.0, 4.0, -16.0, 8.0, 0.25, 8.0]
    mixed = llama.generate(
        [request("Hello there", tokens=12, repetition_penalty=1e6), request("Hello there", tokens=12)]
    )
    assert [c.text for c in mixed] == [varied.text, plain.text]


def test_a_repetition_penalty_before_any_other_id_than_the_end(tiny_bart: Path, tmp_path: Path) -> None:
    """BART's decoder starts with the end token: at first there is nothing to penalise."""
    folder = tmp_path / "bart"
    shutil.copytree(tiny_bart, folder)
    for name in ("config.json", "generation_config.json"):
        values = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(values | {"decoder_start_token_id": values["eos_token_id"]}))
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    plain, penalised = ([request("Hello there", tokens=1, repetition_penalty=p)] for p in (1.0, 1.5))
    assert backbone.generate(penalised) == backbone.generate(plain)


# --- interruption, threads -----------------------------------------------------------------------------------------


def test_an_interruption_passes_through_and_the_next_call_is_as_ever(llama: LocalBackbone) -> None:
    expected = llama.generate([request("Hello there")])
    said: list[str] = []

    def interrupt(piece: str) -> None:
        said.append(piece)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        llama.generate([request("Hello there", adapter="summarizer", on_text=interrupt), request("a")])
    assert len(said) == 1
    assert llama.generate([request("Hello there")]) == expected


def test_an_error_of_the_listener_is_not_taken_for_one_of_the_model(llama: LocalBackbone) -> None:
    def fail(piece: str) -> None:
        raise ValueError(piece)

    with pytest.raises(ValueError, match=r".") as caught:
        llama.generate([request("Hello there", on_text=fail)])
    assert not isinstance(caught.value, BackboneError)


def test_a_model_that_fails_is_one_line(tiny_llama: Path) -> None:
    backbone = LocalBackbone(str(tiny_llama), dtype="float32", device="cpu")

    def fail(*given: Any) -> None:
        raise RuntimeError("out of memory\nstack")

    backbone._model.model.layers[0].mlp.down_proj.register_forward_pre_hook(fail)
    with pytest.raises(BackboneError, match=r"failed on a batch of 1 .*out of memory") as caught:
        backbone.generate([request("a")])
    assert "\n" not in str(caught.value)


def test_several_threads_get_the_answers_of_one(llama: LocalBackbone) -> None:
    names: list[str | None] = [None, "summarizer", "extractor", None]
    requests = [request(text, adapter=name) for text, name in zip(TEXTS, names, strict=True)]
    expected = [llama.generate([r])[0] for r in requests]
    answers: dict[int, list[Any]] = {}

    def ask(number: int) -> None:
        answers[number] = [llama.generate([requests[number]])[0] for _ in range(5)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: [expected[number]] * 5 for number in range(4)}


def test_closing_twice_is_fine_and_a_closed_backbone_says_so(tiny_llama: Path) -> None:
    backbone = LocalBackbone(str(tiny_llama), device="cpu")
    backbone.close()
    backbone.close()
    with pytest.raises(BackboneError, match="is closed"):
        backbone.generate([request("a")])


def test_more_requests_than_one_batch_holds_come_back_in_order(llama: LocalBackbone) -> None:
    requests = [request("x" * (i * 7 % 40), tokens=3) for i in range(35)]
    assert llama.generate(requests) == [llama.generate([r])[0] for r in requests]
    assert llama.generate([]) == []


# --- loading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"junk"),
        lambda folder: (folder / "config.json").unlink(),
        lambda folder: (folder / "config.json").write_text('{"model_type": "nothing"}'),
    ],
)
def test_a_broken_directory_is_named(tiny_llama: Path, tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_llama, folder)
    spoil(folder)
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        LocalBackbone(str(folder), device="cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_model_that_is_not_here_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="hf download nobody/nothing"):
        LocalBackbone("nobody/nothing")


def test_unknown_dtype_and_device_are_refused(tiny_llama: Path) -> None:
    with pytest.raises(ModelError, match="dtype='int3'"):
        LocalBackbone(str(tiny_llama), dtype="int3", device="cpu")
    with pytest.raises(ModelError, match="device='abacus'"):
        LocalBackbone(str(tiny_llama), device="abacus")


def test_loading_is_quiet(tiny_llama: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LocalBackbone(str(tiny_llama), device="cpu").generate([request("a")])
    assert capfd.readouterr() == ("", "")


# --- the embedded model -------------------------------------------------------------------------------------------


@pytest.mark.skipif(dtype_on("auto", torch.device("cpu")) != torch.bfloat16, reason="no native bfloat16")
def test_the_four_bit_step_is_as_close_to_float32_as_bfloat16_is(embedded: LocalBackbone) -> None:
    from transformers import AutoModelForCausalLM

    exact = AutoModelForCausalLM.from_pretrained(embedded._source, dtype=torch.float32)
    halved = AutoModelForCausalLM.from_pretrained(embedded._source, dtype=torch.bfloat16)
    text = embedded.encode_messages(request("My cat Felix is ill. The vet says he needs an operation.").messages)
    rows = [Row(text[:8], len(text))]
    steps = steps_of(embedded, rows)
    assert isinstance(steps, LlamaSteps)
    assert all(group._matrix for layer in steps._layers for group in layer.projections)
    with torch.inference_mode():
        wanted = exact(torch.tensor([text])).logits[0].log_softmax(-1)
        usual = halved(torch.tensor([text])).logits[0].float().log_softmax(-1)
        steps.prefill(rows)
        stepped = torch.stack([steps.step([token])[0] for token in text[8:]]).float().log_softmax(-1)
    wanted, usual = wanted[8:], usual[8:]

    def divergence(other: torch.Tensor) -> float:
        return float((wanted.exp() * (wanted - other)).sum(-1).mean())

    assert divergence(stepped) < max(2 * divergence(usual), 0.005), (divergence(stepped), divergence(usual))
