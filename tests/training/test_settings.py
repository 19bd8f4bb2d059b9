"""Settings files, their validation, and the training commands."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from training_parts import Commands, log_of

from ld_agent.config import load_config
from ld_agent.errors import ConfigError
from training.settings import TrainingSettings, load_settings

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "configs" / "training").glob("*.yaml"))
EXTRACTOR = ROOT / "configs" / "training" / "extractor.yaml"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_settings_load_and_are_complete(path: Path):
    settings = load_settings(path)
    assert load_settings(path.stem) == settings
    assert settings.model_fields_set == set(TrainingSettings.model_fields)
    assert (settings.eval_file is None) == (path.stem == "default")
    if path.stem in ("summarizer", "extractor", "generator"):
        assert (settings.model, path.stem in str(settings.train_file)) == (load_config().backbone.model, True)


def test_the_default_file_gives_every_key_its_default():
    written = yaml.safe_load((ROOT / "configs" / "training" / "default.yaml").read_text())
    assert list(written) == list(TrainingSettings.model_fields)
    assert load_settings("default") == TrainingSettings(model=written["model"], output_dir=written["output_dir"])
    assert written["model"] == load_config().backbone.model


@pytest.mark.parametrize(
    ("name", "agent", "rate", "epochs"),
    [("glm-4-9b", "glm-4-9b", 5e-5, 3), ("blenderbot-400m", "blenderbot-400m", 2e-5, 5)],
)
def test_the_papers_settings(name: str, agent: str, rate: float, epochs: int):
    settings = load_settings(ROOT / "configs" / "training" / f"{name}.yaml")
    assert settings.model == load_config(agent).backbone.model
    assert (settings.learning_rate, settings.num_train_epochs, settings.per_device_train_batch_size) == (
        rate,
        epochs,
        4,
    )
    assert (settings.lora_r, settings.lora_alpha) == (8, 32)


def test_assignments_are_applied_in_order():
    given = ["max_steps=3", "lora_target_modules=[q_proj,v_proj]", "eval_file=null", "max_steps=5", "train_file=a=b"]
    settings = load_settings(EXTRACTOR, given)
    assert (settings.max_steps, settings.lora_target_modules) == (5, ("q_proj", "v_proj"))
    assert (settings.eval_file, settings.train_file) == (None, "a=b")


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("learning_rat=1", ("unknown key learning_rat", "learning_rate")),
        ("learning_rate=fast", ("learning_rate", "'fast'")),
        ("lora_r=0", ("lora_r", "0")),
        ("max_steps=0", ("max_steps=0", "-1")),
        ("save_steps=150", ("save_steps=150", "eval_steps=300")),
        ("dtype=int4", ("dtype", "'int4'", "bfloat16")),
        ("max_steps", ("'max_steps'", "learning_rate=1e-4")),
    ],
)
def test_invalid_settings_are_rejected(given: str, parts: tuple[str, ...]):
    with pytest.raises(ConfigError) as caught:
        load_settings(EXTRACTOR, [given])
    assert all(part in str(caught.value) for part in parts), caught.value
    assert len(str(caught.value).splitlines()) == 1


def test_invalid_files_are_rejected(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nowhere.yaml"):
        load_settings(tmp_path / "nowhere.yaml")
    file = tmp_path / "mine.yaml"
    for text in ("a: [", "- a", "\x00", "model: x\n", "base: mine.yaml\n", "base: default\nlora: 8\n"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"mine.yaml"):
            load_settings(file)


def assigned(settings: TrainingSettings) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in settings.model_dump(mode="json").items()]


def test_a_dry_run_shows_the_prompts_and_writes_nothing(
    settings: Callable[..., TrainingSettings], command: Commands, tmp_path: Path
):
    given = settings()
    before = sorted(tmp_path.iterdir())
    done = command("summarizer", *assigned(given), "--dry-run")
    assert done.code == 0, done.err
    assert "<|start|>user\na?<|end|>\n<|start|>assistant\n" in done.out
    assert "prompt tokens: min" in done.out
    assert "8 steps of 4 rows" in done.out
    assert sorted(tmp_path.iterdir()) == before


def test_the_commands_tune_and_report_errors_in_one_line(
    settings: Callable[..., TrainingSettings], command: Commands, tmp_path: Path
):
    given = assigned(settings(max_steps=2))
    done = command("generator", *given)
    assert done.code == 0, done.err
    assert done.out == ""
    assert "python -m training.generator" in (tmp_path / "out" / "README.md").read_text()
    for arguments, code, words in (
        (given, 1, ("--overwrite",)),
        ([*given, "output_dir=x", f"train_file={tmp_path / 'nowhere.jsonl'}"], 1, ("nowhere.jsonl", "training.build")),
        ([*given, "learning_rat=1"], 2, ("learning_rat",)),
        (["--dry", *given], 2, ("--dry",)),
    ):
        done = command("generator", *arguments)
        assert (done.code, done.out) == (code, "")
        assert len(done.err.splitlines()) == 1, done.err
        assert all(word in done.err for word in words), done.err


def test_two_processes_equal_one_with_twice_the_batch(settings: Callable[..., TrainingSettings], tmp_path: Path):
    """On CPUs (gloo): the curve of one process, and its adapter within rounding."""
    from training.train import tune

    same = {"max_steps": 3, "eval_file": str(tmp_path / "train.jsonl"), "eval_steps": 1, "save_steps": 1}
    given = settings(per_device_train_batch_size=12, **same)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    launched = subprocess.run(
        [*launcher, "-m", "training.extractor", *assigned(given)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert launched.returncode == 0, launched.stderr[-3000:]
    tune(settings(per_device_train_batch_size=24, output_dir=str(tmp_path / "one"), **same), "extractor")
    curves = [[[row["loss"], row["eval_loss"]] for row in log_of(tmp_path / name)] for name in ("out", "one")]
    assert len(curves[0]) == 3
    assert curves[0] == [pytest.approx(row, rel=1e-3) for row in curves[1]]
    shared, alone = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("out", "one"))
    assert alone.keys() == shared.keys()
    assert any(bool(factor.any()) for name, factor in shared.items() if "lora_B" in name)
    assert max(float((alone[name] - shared[name]).abs().max()) for name in alone) < 1e-5


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "accelerate").glob("*.yaml")), ids=lambda path: path.stem)
def test_launch_settings_are_valid_for_accelerate(path: Path):
    from accelerate.commands.config.config_args import ClusterConfig

    assert ClusterConfig.from_yaml_file(str(path)).num_processes == 2
    told = " ".join(line.removeprefix("#").strip(" \\") for line in path.read_text().splitlines() if line[:1] == "#")
    words = told.partition("accelerate launch ")[2].split()
    assert words[words.index("--config_file") + 1] == str(path.relative_to(ROOT))
    load_settings(ROOT / words[words.index("-c") + 1], [word for word in words if "=" in word])
