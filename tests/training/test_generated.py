"""A module's task metrics during tuning: how they are measured, logged and used to select a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from training_parts import log_of

from ld_agent.backbones.base import Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.errors import ConfigError
from ld_agent.modules.registry import TUNED
from training.generated import Generations
from training.measures import check_metric, measured
from training.prepared import adapted, prepare
from training.rows import read_rows
from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]


def test_metrics_use_traits_instead_of_raw_answers():
    targets = ["I have two dogs.", "NO_TRAIT", "I sail. I like tea.", "NO_TRAIT"]
    answers = ["Traits: I have two dogs", "NO_TRAIT", "no trait", "I like sailing on the sea."]
    found = measured("extractor", answers, targets)
    assert found["accuracy"] == 0.5
    assert found["rouge_l"] == pytest.approx((1 + 1 + 0 + 0) / 4, abs=0.01)
    assert set(found) == set(TUNED["extractor"].metrics)


@pytest.mark.parametrize("module", list(TUNED))
def test_right_answers_have_full_marks(module: str):
    texts = ["I have two old dogs and a very small cat.", "They talked about boats all night long."]
    assert set(measured(module, texts, texts).values()) == {1.0}
    assert measured(module, ["", ""], texts)["rouge_l"] == 0


@pytest.mark.parametrize("base", ["tiny_llama", "tiny_bart"])
def test_answers_equal_those_of_the_backbone(base: str, settings: Make, request: pytest.FixtureRequest):
    folder: Path = request.getfixturevalue(base)
    given = settings(model=str(folder))
    rows = read_rows(str(given.eval_file))
    prepared = prepare(given, rows, rows)
    adapted(prepared, given)
    asked = Generations(
        "generator",
        prepared.model,
        prepared.tokenizer,
        rows=rows,
        examples=prepared.evaluation or [],
        most=5,
        batch=2,
    )
    texts = asked.texts()
    limit = max(len(example.answer) for example in prepared.evaluation or [])
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    chosen = [rows[n * len(rows) // 5] for n in range(5)]
    wanted = backbone.generate([Request(tuple(row.prompt), "generator", limit) for row in chosen])
    assert texts == [completion.text for completion in wanted]
    assert [asked.texts(slice(rank, None, 2)) for rank in (0, 1)] == [texts[::2], texts[1::2]]


def test_metrics_are_logged_shown_and_in_the_card(settings: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tune(settings(max_steps=4), "extractor")
    log = log_of(tmp_path / "out")
    assert [row["step"] for row in log if row["eval_accuracy"] and row["eval_rouge_l"]] == ["2", "4"]
    assert "eval_accuracy" in capsys.readouterr().err
    assert "validation accuracy of answers" in (tmp_path / "out" / "README.md").read_text()
    tune(settings(max_steps=4, eval_generations=0, output_dir=str(tmp_path / "none")), "extractor")
    assert "eval_accuracy" not in log_of(tmp_path / "none")[0]


def test_the_best_checkpoint_by_a_metric_is_kept(settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The loss falls throughout; the metric is best in the middle."""
    found = iter([0.1, 0.7, 0.4])
    monkeypatch.setattr(Generations, "figures", lambda self, texts: {"rouge_l": next(found)})
    tune(settings(max_steps=6, metric_for_best_model="eval_rouge_l"), "generator")
    losses = [float(row["eval_loss"]) for row in log_of(tmp_path / "out") if row["eval_loss"]]
    assert min(losses) == losses[-1]
    assert "at step 4 " in (tmp_path / "out" / "README.md").read_text()


def test_an_unmeasured_metric_is_rejected(settings: Make):
    check_metric(settings(metric_for_best_model="eval_rouge_2"), "summarizer")
    with pytest.raises(ConfigError, match=r"eval_rouge_2 is not measured for the extractor; .*eval_accuracy"):
        check_metric(settings(metric_for_best_model="eval_rouge_2"), "extractor")
    with pytest.raises(ConfigError, match="eval_generations above 0"):
        check_metric(settings(metric_for_best_model="eval_rouge_2", eval_generations=0), "summarizer")
