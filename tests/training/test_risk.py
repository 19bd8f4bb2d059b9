"""Tuning on the module's own metric: sampling, packing, the loss, and that it falls."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from test_train import killed_after
from training_parts import toy_rows, write

from ld_agent.errors import ConfigError
from training import risk as risk_module
from training.answers import answer_losses
from training.attention import NAME
from training.dry_run import show
from training.examples import Example
from training.measures import error
from training.risk import Drawn, Risk, branched, packed
from training.settings import TrainingSettings
from training.train import adapted, prepare, rows_of, tune

Make = Callable[..., TrainingSettings]


def log_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "log.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in csv.DictReader(file)]


def made(given: TrainingSettings) -> tuple[Any, Any, Risk]:
    prepared = prepare(given, *rows_of(given, "extractor"))
    model, logits = adapted(prepared, given)
    return model, prepared, Risk("extractor", prepared.model, prepared.tokenizer, logits, prepared.collator, given)


@contextmanager
def plain_attention(model: Any) -> Iterator[None]:
    """Let a model attend as transformers does."""
    attention = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    yield
    model.set_attn_implementation(attention)


def likelihoods(model: Any, rows: list[tuple[list[int], list[int]]]) -> list[float]:
    """Return the log-likelihood of each answer, one at a time, by the plain forward pass."""
    found = []
    for prompt, answer in rows:
        with torch.no_grad(), plain_attention(model):
            logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        found.append(-float(answer_losses(logits, torch.tensor(answer)).sum()))
    return found


@pytest.mark.parametrize("plain", [False, True], ids=["own attention", "transformers' attention"])
def test_packed_answers_are_as_likely_as_separate_ones(settings: Make, plain: bool):
    model, prepared, risk = made(settings())
    prompts = [[5, 6, 7, 8, 9], [11], [4, 4, 30]]
    answers = [[[12, 13, 2], [14, 2], [13]], [[20, 21, 22, 23, 2]], [[9, 2], [8, 2]]]
    if plain:
        prepared.model.set_attn_implementation("sdpa")
    batch = branched(prompts, answers, 0, torch.float32)
    logits, targets, _ = risk._logits(model, batch)
    flat = [(prompt, answer) for prompt, own in zip(prompts, answers, strict=True) for answer in own]
    assert targets.tolist() == [token for _, answer in flat for token in answer]
    parts = (-answer_losses(logits, targets)).split([len(answer) for _, answer in flat])
    assert [float(part.sum()) for part in parts] == pytest.approx(likelihoods(prepared.model, flat), abs=1e-4)


@pytest.mark.parametrize("pack", [2048, 8], ids=["in one pass", "a prompt at a time"])
def test_the_risk_is_the_mean_error_and_its_gradient_that_of_the_error_expected(
    pack: int, settings: Make, monkeypatch: pytest.MonkeyPatch
):
    model, prepared, risk = made(settings(risk_samples=4, risk_temperature=0.5))
    drawn = [
        Drawn([5, 6], [[7, 2], [8, 9, 2]], [3, 1], [0.25, 1.0]),
        Drawn([5], [[7, 2], [9, 2]], [2, 2], [0.4, 0.4]),
        Drawn([9, 8], [[6, 2]], [4], [0.0]),
        Drawn([5, 6], [[7, 2], [8, 9, 2]], [3, 1], [0.25, 1.0]),
    ]
    monkeypatch.setattr(risk, "_drawn", lambda recorded, step: drawn)
    monkeypatch.setattr(risk_module, "PACK", pack)
    batch = prepared.collator(prepared.train[:3])
    calls: list[int] = []
    hook = model.register_forward_pre_hook(lambda module, given: calls.append(1))
    found = risk(model, batch, 0)
    tokens = risk.tokens
    assert float(found) == pytest.approx((2 * (3 * 0.25 + 1.0) / 4 + 0.4 + 0.0) / 4)
    found.backward()
    hook.remove()
    assert (len(calls), risk.tokens) == (1, tokens)  # a wrapper for several processes allows no more
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    own = {name: p.grad.clone() for name, p in trained.items()}
    model.zero_grad()
    # Of the four drawn, three are wrong by 0.25 where the others are wrong by 0.5, one by 1 where they are by 0.25.
    wanted = 0.0
    for weight, answer in ((3 * (0.25 - 0.5) / 4 / 2, [7, 2]), ((1.0 - 0.25) / 4 / 2, [8, 9, 2])):
        with plain_attention(prepared.model):
            logits = prepared.model(input_ids=torch.tensor([[5, 6, *answer]])).logits[0, 1:-1]
        wanted = wanted - weight * answer_losses(logits / 0.5, torch.tensor(answer)).sum()
    wanted.backward()
    assert any(gradient.abs().max() > 1e-6 for gradient in own.values())
    for name, gradient in own.items():
        assert torch.allclose(gradient, trained[name].grad, atol=1e-4), name
    drawn[:] = drawn[1:3]
    assert float(risk(model, batch, 0)) == pytest.approx(0.2, abs=1e-5)


@pytest.mark.parametrize("base", ["tiny_llama", "tiny_bart"])
def test_sampling_depends_on_the_step_and_is_reproducible(base: str, settings: Make, request: pytest.FixtureRequest):
    _, prepared, risk = made(settings(model=str(request.getfixturevalue(base)), risk_samples=6))
    attention = prepared.model.config._attn_implementation
    batch = prepared.collator(prepared.train[:3])
    recorded = risk._recorded(batch)
    assert recorded == [Example(e.prompt, e.answer) for e in prepared.train[:3]]
    first, again, later = (risk._drawn(recorded, step) for step in (0, 0, 1))
    assert first == again != later
    assert all(1 < len(one.answers) <= 6 and one.prompt == e.prompt for one, e in zip(first, recorded, strict=True))
    assert all(max(map(len, one.answers)) <= 2 * max(len(e.answer) for e in recorded) for one in first)
    assert prepared.model.config._attn_implementation == attention
    assert (attention == NAME) == (base == "tiny_llama")


@pytest.mark.parametrize(("base", "learning_rate"), [("tiny_llama", 0.01), ("tiny_bart", 0.05)])
def test_the_expected_error_falls(
    base: str,
    learning_rate: float,
    settings: Make,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
):
    """By a measure that any model meets now and then before it is tuned: that the first character's code is even."""
    monkeypatch.setattr(risk_module, "error", lambda module, answer, target, worth: float(ord(answer[:1] or "a") % 2))
    given = settings(
        model=str(request.getfixturevalue(base)),
        eval_file=None,
        max_steps=36,
        save_steps=36,
        risk_samples=12,
        risk_temperature=1.0,
        learning_rate=learning_rate,
        per_device_train_batch_size=8,
    )
    tune(given, "extractor")
    log = log_of(tmp_path / "out")
    risks = [float(row["risk"]) for row in log]
    assert len(risks) == 36
    assert not any(row["loss"] for row in log)
    assert sum(risks[-6:]) < 0.75 * sum(risks[:6])
    assert "expected error of answers drawn" in (tmp_path / "out" / "README.md").read_text()


def test_a_resumed_risk_run_has_the_same_curve(settings: Make, tmp_path: Path):
    rows = toy_rows()
    for row in rows[::2]:
        row["messages"][-1]["content"] = "NO_TRAIT"
    changes = {
        "train_file": str(write(tmp_path / "rows.jsonl", rows)),
        "risk_samples": 4,
        "max_steps": 6,
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 2,
    }
    tune(settings(**changes, output_dir=str(tmp_path / "unbroken")), "extractor")
    given = settings(**changes)
    killed_after(3, given)
    tune(given, "extractor")
    assert log_of(tmp_path / "out") == log_of(tmp_path / "unbroken")
    assert len({row["risk"] for row in log_of(tmp_path / "out")}) > 1


def test_packs_fit_a_pass(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(risk_module, "PACK", 24)
    drawn = [Drawn([1] * n, [[2], [3]], [1, 1], [0.0, 1.0]) for n in (4, 10, 28, 5, 9)]
    assert [[one.length for one in pack] for pack in packed(drawn)] == [[30], [12, 11], [7, 6]]


def test_errors():
    assert error("extractor", "I have two dogs", "I have two dogs.", 0.5) == 0.0
    assert error("extractor", "I sail. I have two dogs", "I have two dogs.", 0.5) == pytest.approx(1 - 8 / 10, abs=0.01)
    assert error("extractor", "NO_TRAIT", "NO_TRAIT", 0.75) == 0.25
    assert error("extractor", "I sail.", "NO_TRAIT", 0.75) == error("extractor", "NO_TRAIT", "I sail.", 0.75) == 1.0
    assert error("summarizer", "Ann sails.", "Ann sails.", 1.0) == 0.0
    assert error("summarizer", "It rains here.", "Ann sails.", 1.0) == 1.0


def test_modules_without_a_metric_are_rejected(settings: Make):
    with pytest.raises(ConfigError, match="generator has no such loss"):
        tune(settings(risk_samples=4), "generator")
    with pytest.raises(ValidationError, match="risk_samples=1"):
        settings(risk_samples=1)


def test_a_dry_run_times_sampling(settings: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    show(settings(risk_samples=4), "extractor")
    assert "8 steps of 4 rows" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="generator has no such loss"):
        show(settings(risk_samples=4), "generator")
