"""The whole recipe on tiny models: learning, output files, and resuming interrupted runs."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from training_parts import Commands, eval_losses, log_of, toy_rows, write

from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.errors import ConfigError, DataFileError, InputError, ModelError
from training import run_page
from training.rows import read_rows
from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]
ROOT = Path(__file__).resolve().parents[2]


def test_the_loss_falls_and_the_adapter_is_complete(settings: Make, tmp_path: Path, tiny_llama: Path):
    given = settings(max_steps=40)
    tune(given, "extractor", command="python -m training.extractor")
    out = tmp_path / "out"
    assert [row["step"] for row in log_of(out)] == list(range(1, 41))
    losses = eval_losses(out)
    assert len(losses) == 20
    assert losses[-1] < 0.5 * losses[0]
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "adapter_config.json",
        "adapter_model.safetensors",
        "README.md",
        "index.html",
        "trainer_state.json",
        "run.json",
    }
    assert not [name for name in names if name.startswith(("checkpoint", "."))]
    config = json.loads((out / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tiny_llama)
    assert (config["r"], config["lora_alpha"]) == (8, 32)
    assert "lm_head" not in config["target_modules"]
    card = (out / "README.md").read_text()
    for part in (
        "toy",
        "learning_rate: 0.02",
        "python -m training.extractor",
        str(tiny_llama),
        f"{min(losses):.4f}",
        "sha256",
    ):
        assert part in card, part
    page = (out / "index.html").read_text()
    assert f"ld-agent chat -c bare backbone.model={tiny_llama} modules.extractor.adapter={out}" in page
    assert page.count("<polyline") == 2
    before, after, wanted = (
        re.findall(rf"<dt>{name}</dt><dd>(.*)</dd>", page) for name in ("before", "after", "wanted")
    )
    assert before != after
    assert wanted == ["a", "bb", "aaa", "b"]
    assert [answer[0] for answer in after] == ["a", "b", "a", "b"]


CHATS = {
    "messages": {"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "a"}]},
    "sharegpt": {"conversations": [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "a"}]},
    "alpaca": {"instruction": "a?", "input": "", "output": "a"},
}


@pytest.mark.parametrize("listed", [False, True], ids=["lines", "list"])
@pytest.mark.parametrize("shape", CHATS)
def test_chats_are_taken_in_their_usual_shapes(tmp_path: Path, shape: str, listed: bool):
    path = tmp_path / "chats"
    path.write_text(json.dumps([CHATS[shape]]) if listed else json.dumps(CHATS[shape]) + "\n")
    [row] = read_rows(path, "generator")
    assert (row.prompt, row.target) == ((Message("user", "a?"),), "a")


def test_the_page_of_a_run_too_short_for_a_curve_says_so(
    settings: Make,
    tmp_path: Path,
    tiny_llama: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(run_page, "_default_model", lambda: str(tiny_llama))
    tune(settings(max_steps=2, eval_file=None, logging_steps=10), "extractor")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "a loss is logged every 10" in page
    said = capsys.readouterr().err
    assert all("with checks.adapter=null, it stores what the extractor writes" in shown for shown in (page, said))
    assert "rows without a system message, with which an agent asks the extractor" in said
    assert "<svg" not in page


def test_the_best_checkpoint_is_kept_instead_of_the_last(settings: Make, tmp_path: Path, tiny_llama: Path):
    """When training and evaluation answers differ, the first evaluation is the best."""
    rows = toy_rows(4)
    for row in rows:
        row["messages"][-1]["content"] = "zzzz"
    given = settings(train_file=str(write(tmp_path / "other.jsonl", rows)), max_steps=12, learning_rate=0.05)
    tune(given, "extractor")
    losses = eval_losses(tmp_path / "out")
    assert min(losses) < losses[-1]
    assert evaluated(tiny_llama, tmp_path / "out") == pytest.approx(min(losses), rel=1e-4)


def evaluated(base: Path, adapter: Path) -> float:
    """The loss of an adapter on the evaluation rows, as the backbone scores answers."""
    backbone = LocalBackbone(str(base), dtype="float32", device="cpu", adapters={"tuned": str(adapter)})
    asked, answers = zip(*((m["content"] for m in row["messages"]) for row in toy_rows(7)), strict=True)
    requests = [Request((Message("user", text),), "extractor", 8, adapter="tuned") for text in asked]
    found = backbone.likelihoods(requests, answers)
    return sum(one.nats for one in found) / sum(one.tokens for one in found)


def test_a_tuned_adapter_answers_in_the_backbone(settings: Make, tmp_path: Path, tiny_llama: Path):
    tune(settings(max_steps=60), "extractor")
    backbone = LocalBackbone(
        str(tiny_llama), dtype="float32", device="cpu", adapters={"extractor": str(tmp_path / "out")}
    )
    asked = [(Message("user", row["messages"][0]["content"]),) for row in toy_rows(6)]
    answers = backbone.generate([Request(messages, "extractor", 8, adapter="extractor") for messages in asked])
    assert [answer.text[:1] for answer in answers] == ["a", "b"] * 3
    plain = backbone.generate([Request(messages, "extractor", 8) for messages in asked])
    assert [answer.text[:1] for answer in plain] != ["a", "b"] * 3


def test_a_resumed_run_has_the_same_curve(settings: Make, tmp_path: Path):
    """Killed after steps 5 and 9, dropout and data order resume where they were."""
    changes = {"lora_dropout": 0.3, "max_steps": 12, "early_stopping_patience": 50}
    tune(settings(**changes, output_dir=str(tmp_path / "unbroken")), "extractor")
    given = settings(**changes)
    for step in (5, 9):
        killed_after(step, given)
        assert not (tmp_path / "out" / "adapter_config.json").exists()
    (tmp_path / "out" / "checkpoint-8" / "trainer_state.json").unlink()  # an incomplete checkpoint is skipped
    tune(given, "extractor")
    assert log_of(tmp_path / "out") == log_of(tmp_path / "unbroken")
    weights = [(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("out", "unbroken")]
    assert weights[0] == weights[1]


KILLED = """
import os, signal, sys
from training import run_page
from training.rows import read_rows
from training.settings import TrainingSettings
from training.train import tune
from training.trainer import AnswerTrainer
log = AnswerTrainer.log
def killed(self, *args):
    log(self, *args)
    if self.state.global_step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
AnswerTrainer.log = killed
tune(TrainingSettings.model_validate_json(sys.argv[1]), "extractor")
"""


def killed_after(step: int, given: TrainingSettings) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, given.model_dump_json(), str(step)], cwd=ROOT, capture_output=True
    )
    assert done.returncode == -9, done.stderr.decode()[-2000:]


def test_a_run_killed_before_saving_only_saves(settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import training.adapters

    given = settings(max_steps=6)
    tune(settings(max_steps=6, output_dir=str(tmp_path / "whole")), "extractor")

    def fail(*args: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(training.adapters, "save_adapter", fail)
        with pytest.raises(OSError, match="No space"):
            tune(given, "extractor")
    tune(given, "extractor")
    weights = [(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("out", "whole")]
    assert weights[0] == weights[1]
    assert "6 (" in (tmp_path / "out" / "README.md").read_text()


def test_every_epoch_has_a_different_order(settings: Make, monkeypatch: pytest.MonkeyPatch):
    from training.examples import LengthGrouped

    orders: list[list[int]] = []
    drawn = LengthGrouped.__iter__

    def noted(self: LengthGrouped) -> Iterator[int]:
        orders.append(list(drawn(self)))
        return iter(orders[-1])

    monkeypatch.setattr(LengthGrouped, "__iter__", noted)
    tune(settings(max_steps=12, eval_file=None), "extractor")
    assert [sorted(order) for order in orders] == [list(range(24))] * 2
    assert orders[0] != orders[1]


def test_accumulated_batches_weigh_every_answer_token_alike(settings: Make, tmp_path: Path):
    same = {"eval_file": None, "max_steps": 3, "logging_steps": 1}
    tune(settings(per_device_train_batch_size=24, **same), "extractor")
    tune(
        settings(
            per_device_train_batch_size=8, gradient_accumulation_steps=3, output_dir=str(tmp_path / "small"), **same
        ),
        "extractor",
    )
    small, large = log_of(tmp_path / "small"), log_of(tmp_path / "out")
    for one, other in zip(small, large, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)


def test_an_encoder_decoder_model_is_tuned_by_the_same_recipe(settings: Make, tmp_path: Path, tiny_bart: Path):
    tune(settings(model=str(tiny_bart), max_steps=60, learning_rate=0.01), "generator")
    losses = eval_losses(tmp_path / "out")
    assert min(losses) < 0.8 * losses[0]
    assert evaluated(tiny_bart, tmp_path / "out") == pytest.approx(min(losses), rel=1e-4)


def test_the_factors_are_trained_in_float32_and_saved_small(
    settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import training.adapters

    save, trained = training.adapters.save_adapter, dict[str, tuple[torch.dtype, bool]]()

    def spy(model: Any, *given: Any) -> None:
        trained.update({name: (p.dtype, p.requires_grad) for name, p in model.named_parameters()})
        save(model, *given)

    monkeypatch.setattr(training.adapters, "save_adapter", spy)
    tune(settings(adapter_dtype="float16", dtype="bfloat16", max_steps=2), "extractor")
    assert {of for name, of in trained.items() if "lora_" in name} == {(torch.float32, True)}
    assert {of for name, of in trained.items() if "lora_" not in name} == {(torch.bfloat16, False)}
    saved = load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in saved.values()} == {torch.float16}


def test_the_loss_starts_at_that_of_the_adapter(settings: Make, tmp_path: Path):
    tune(settings(max_steps=30, output_dir=str(tmp_path / "first")), "generator")
    tune(settings(max_steps=2, output_dir=str(tmp_path / "afresh")), "generator")
    tune(settings(max_steps=2, adapter=str(tmp_path / "first"), output_dir=str(tmp_path / "on")), "generator")
    assert eval_losses(tmp_path / "on")[0] < 0.7 * eval_losses(tmp_path / "afresh")[0]


def test_an_adapter_of_another_shape_is_rejected(settings: Make, tmp_path: Path):
    tune(settings(max_steps=2, output_dir=str(tmp_path / "first"), lora_target_modules=["q_proj"]), "generator")
    config = json.loads((tmp_path / "first" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["q_proj"]  # those named, and no others
    before = {"adapter": str(tmp_path / "first"), "output_dir": str(tmp_path / "on")}
    for changes, message in (
        ({"lora_r": 4}, "lora_r=8"),
        ({"lora_alpha": 8}, "lora_alpha=32"),
        ({"lora_target_modules": ["q_proj", "v_proj"]}, "lora_target_modules"),
    ):
        with pytest.raises(ConfigError, match=message):
            tune(settings(**before | changes), "generator")
    with pytest.raises(ModelError, match="nowhere"):
        tune(settings(adapter=str(tmp_path / "nowhere")), "generator")
    assert not (tmp_path / "on").exists()


def test_a_finished_adapter_is_overwritten_only_on_request(settings: Make, tmp_path: Path):
    given = settings(max_steps=2)
    tune(given, "extractor")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    before = (tmp_path / "out" / "adapter_model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"finished adapter.*--overwrite"):
        tune(settings(max_steps=4), "extractor")
    assert (tmp_path / "out" / "adapter_model.safetensors").read_bytes() == before
    tune(settings(max_steps=4), "extractor", overwrite=True)
    assert len(log_of(tmp_path / "out")) == 4
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_occupied_folders_are_rejected(settings: Make, tmp_path: Path):
    given = settings(max_steps=8)
    killed_after(5, given)
    with pytest.raises(InputError, match=r"learning_rate was 0.02 and is 0.01.*--overwrite"):
        tune(settings(max_steps=8, learning_rate=0.01), "extractor")
    with pytest.raises(InputError, match=r"of the extractor.*--overwrite"):
        tune(given, "summarizer")
    write(tmp_path / "train.jsonl", toy_rows(20))
    with pytest.raises(InputError, match=r"data files have changed.*--overwrite"):
        tune(given, "extractor")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"not empty.*--overwrite"):
        tune(given, "extractor")
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match="is a file"):
        tune(given, "extractor")


def test_the_rows_of_another_module_are_refused(settings: Make, tmp_path: Path):
    def of(module: str, name: str) -> str:
        return str(write(tmp_path / name, [*toy_rows(3), *(row | {"module": module} for row in toy_rows(3))]))

    ours, theirs = of("extractor", "ours.jsonl"), of("summarizer", "theirs.jsonl")
    wanted = r"theirs.jsonl, line 4: a row for the summarizer, not for the extractor; build the {} file with"
    with pytest.raises(InputError, match=wanted.format("training")):
        tune(settings(train_file=theirs), "extractor")
    with pytest.raises(InputError, match=wanted.format("evaluation")):
        tune(settings(train_file=ours, eval_file=theirs), "extractor")
    assert not (tmp_path / "out").exists()


def test_broken_rows_may_be_skipped_and_the_card_names_files_formats_and_terms(
    settings: Make, tmp_path: Path, command: Commands
):
    rows = [row | {"corpus": "msc_personasummary", "sources": ["mine.txt"]} for row in toy_rows(6)]
    given = write(tmp_path / "rows.jsonl", rows)
    with given.open("a") as file:
        file.write('{oops\n{"messages": []}\n')
    config = tmp_path / "settings.yaml"
    config.write_text(settings(train_file=str(given), eval_file=None, max_steps=1).model_dump_json())
    refused = command("extractor", "-c", config)
    assert refused.code == 1
    assert f"{given}, line 7: " in refused.err
    assert "--lenient" in refused.err
    done = command("extractor", "-c", config, "--lenient")
    assert done.code == 0, done.err
    assert "2 broken parts of the data skipped" in done.err
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| training rows | 6, " in card
    assert "| built from | `mine.txt` |" in card
    assert "in the format `msc_personasummary`; the terms of the corpus published in it, if it is that: Multi-" in card


def test_errors_are_reported_before_anything_is_written(settings: Make, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"'c_attn', which .* does not have; it has .*q_proj"):
        tune(settings(lora_target_modules=("q_proj", "c_attn")), "extractor")
    with pytest.raises(DataFileError, match=r"train.jsonl, line \d+: the target has .* tokens"):
        tune(settings(max_length=4), "extractor")
    nowhere = str(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match=r"no training file .*nowhere.jsonl; .* --out .*nowhere.jsonl"):
        tune(settings(train_file=nowhere), "extractor")
    with pytest.raises(InputError, match=r"no evaluation file .*nowhere.jsonl; .* --eval-out .*nowhere.jsonl"):
        tune(settings(eval_file=nowhere), "extractor")
    with pytest.raises(ConfigError, match="train_file is not given"):
        tune(settings(train_file=None), "extractor")
    with pytest.raises(ModelError, match=r"nomodel.gguf"):
        tune(settings(model=str(tmp_path / "nomodel.gguf")), "extractor")
    assert not (tmp_path / "out").exists()
