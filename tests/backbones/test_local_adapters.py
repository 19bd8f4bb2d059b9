"""LoRA adapters under the local backbone, one a row of a batch, against PEFT."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from local_parts import TEXTS, request, rows_of, steps_of
from tiny_models import DAMAGED, Weights, damage, save_adapter, save_model

from ld_agent.backbones.answer_text import cleaned
from ld_agent.backbones.local import LocalBackbone
from ld_agent.errors import BackboneError, ModelError


def test_every_row_has_the_logits_that_its_adapter_gives_under_peft(
    llama: LocalBackbone, tiny_llama: Path, adapters: dict[str, Path]
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    names: list[str | None] = ["extractor", None, "summarizer", "extractor"]
    rows = rows_of(llama, [request(text, adapter=name) for text, name in zip(TEXTS, names, strict=True)])
    following = [7, 8, 9, 10]
    steps = steps_of(llama, rows)
    with torch.inference_mode():
        first = steps.prefill(rows)
        second = steps.step(following)
        steps.keep([1, 2])
        third = steps.step([11, 12])
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        model: Any = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
        model = PeftModel.from_pretrained(model, adapters[name]) if name is not None else model
        with torch.no_grad():
            logits = model(torch.tensor([[*row.prompt, following[number], 10 + number]])).logits[0]
        torch.testing.assert_close(first[number], logits[-3], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(second[number], logits[-2], rtol=1e-4, atol=1e-4)
        if number in (1, 2):
            torch.testing.assert_close(third[number - 1], logits[-1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(first[0], first[1], atol=0.1)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BartForConditionalGeneration"])
def test_adapters_work_on_other_architectures(kind: str, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    base = save_model(tmp_path / "base", kind, template=None)
    targets = ["c_attn", "c_proj"] if kind.startswith("GPT2") else ["q_proj", "v_proj", "fc1"]
    folder = save_adapter(tmp_path / "adapter", base, 3, targets, rank_pattern={targets[0]: 4}, fan_in_fan_out=False)
    backbone = LocalBackbone(str(base), dtype="float32", device="cpu", adapters={"a": str(folder)})
    auto = AutoModelForCausalLM if kind.startswith("GPT2") else AutoModelForSeq2SeqLM
    model = PeftModel.from_pretrained(auto.from_pretrained(base, dtype=torch.float32), folder)
    one = request("Hello there", adapter="a")
    ids = backbone.encode_messages(one.messages)
    out = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=12, do_sample=False, eos_token_id=0)[0].tolist()
    out = out[len(ids) :] if kind.startswith("GPT2") else out[1:]
    expected = cleaned(backbone._tokens.decode(out[: out.index(0)] if 0 in out else out).strip()).text
    both = backbone.generate([one, request("Hello there")])
    assert both[0].text == expected
    assert both[1].text != expected


def test_a_folder_may_bring_a_second_adapter(tiny_llama: Path, adapters: dict[str, Path], tmp_path: Path) -> None:
    both = shutil.copytree(adapters["summarizer"], tmp_path / "both")
    shutil.copytree(adapters["extractor"], both / "asked")
    backbone = LocalBackbone(
        str(tiny_llama), dtype="float32", device="cpu", adapters={"a": str(both), "b": str(both / "asked")}
    )
    assert backbone.adapters == {"a", "a/asked", "b"}
    plain, asked, alone = backbone.generate([request("Hello there", adapter=name) for name in ("a", "a/asked", "b")])
    assert asked.text == alone.text != plain.text


def test_an_adapter_for_another_base_is_refused_with_both_names(
    tiny_llama: Path, adapters: dict[str, Path], tmp_path: Path
) -> None:
    wider = save_model(tmp_path / "wider", "LlamaForCausalLM", hidden_size=32, num_hidden_layers=1)
    for reference in (adapters["summarizer"], adapters["extractor"]):
        with pytest.raises(ModelError) as caught:
            LocalBackbone(str(wider), dtype="float32", device="cpu", adapters={"summarizer": str(reference)})
        for part in ("'summarizer'", str(tiny_llama), str(wider)):
            assert part in str(caught.value)
    with pytest.raises(ModelError, match=r"made for .*llama, not for .*gpt2: .*not a linear module"):
        LocalBackbone(
            str(save_model(tmp_path / "gpt2", "GPT2LMHeadModel")),
            device="cpu",
            adapters={"summarizer": str(adapters["summarizer"])},
        )


def test_a_missing_or_foreign_adapter_is_named(tiny_llama: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    backbone = LocalBackbone(str(tiny_llama), device="cpu")
    with pytest.raises(ModelError, match=r"adapter 'x'.*adapter_config\.json cannot be read"):
        backbone.add_adapter("x", str(foreign))
    with pytest.raises(ModelError, match="adapter 'x': no model at"):
        backbone.add_adapter("x", str(tmp_path / "absent"))
    (foreign / "adapter_config.json").write_text('{"peft_type": "PREFIX_TUNING"}')
    with pytest.raises(ModelError, match="PREFIX_TUNING"):
        backbone.add_adapter("x", str(foreign))
    dora = save_adapter(tmp_path / "dora", tiny_llama, 1, ["q_proj"], use_dora=True)
    with pytest.raises(ModelError, match="use_dora"):
        backbone.add_adapter("x", str(dora))
    with pytest.raises(BackboneError, match=r"no adapter 'x' .*: none"):
        backbone.generate([request("a", adapter="x")])


def without_last_layer(weights: Weights) -> Weights:
    return {name: values for name, values in weights.items() if ".layers.1." not in name}


def test_an_adapter_that_is_not_whole_is_refused(tiny_llama: Path, tmp_path: Path) -> None:
    backbone = LocalBackbone(str(tiny_llama), device="cpu")
    whole = save_adapter(tmp_path / "whole", tiny_llama, 1, ["q_proj", "v_proj"], rank_pattern={"v_proj": 3})
    backbone.add_adapter("whole", str(whole))
    layer = without_last_layer, r"has no tensors for model\.layers\.1\.self_attn\.q_proj, which"
    for name, (change, message) in {**DAMAGED, "without a layer": layer}.items():
        folder = shutil.copytree(whole, tmp_path / name)
        damage(folder, change)
        with pytest.raises(ModelError, match=rf"adapter 'x': .*{message}"):
            backbone.add_adapter("x", str(folder))
    assert backbone.generate([request("a")])
    with pytest.raises(BackboneError, match=r"no adapter 'x' .*: whole"):
        backbone.generate([request("a", adapter="x")])


def test_an_adapter_for_some_layers_is_whole_without_the_others(tiny_llama: Path, tmp_path: Path) -> None:
    backbone = LocalBackbone(str(tiny_llama), device="cpu")
    for number, settings in enumerate(
        ({"layers_to_transform": [0]}, {"layers_to_transform": 0}, {"exclude_modules": r".*\.1\..*"})
    ):
        folder = save_adapter(tmp_path / str(number), tiny_llama, 1, ["q_proj"], **settings)
        backbone.add_adapter(str(number), str(folder))
    settings = json.loads((file := folder / "adapter_config.json").read_text())
    file.write_text(json.dumps(settings | {"target_modules": ["q_proj", "query_key_value"]}))  # a name of other bases
    backbone.add_adapter("more names", str(folder))
    file.write_text(json.dumps(settings | {"target_modules": r".*\.(q|k)_proj"}))
    with pytest.raises(ModelError, match=r"has no tensors for model\.layers\.0\.self_attn\.k_proj"):
        backbone.add_adapter("by pattern", str(folder))
