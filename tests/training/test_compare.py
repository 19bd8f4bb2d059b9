"""Comparison of adapters on rows: figures match training, and incomparable systems are rejected."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_parts import log_of, toy_rows, write

from ld_agent.evaluation.tables.filled import fill
from ld_agent.evaluation.tables.paper_figures import paper_table
from ld_agent.evaluation.tables.runs import collect
from training.compare import main
from training.settings import TrainingSettings
from training.train import tune

Make = Callable[..., TrainingSettings]


def compare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr()
    return (json.loads(output.out) if ended.value.code == 0 else ended.value.code), output.err


def test_perplexity_matches_training_and_differences_have_intervals(
    settings: Make, tmp_path: Path, tiny_llama: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    tune(settings(max_steps=20), "generator")
    best = min(float(row["eval_loss"]) for row in log_of(tmp_path / "out") if row["eval_loss"])
    rows = write(tmp_path / "rows.jsonl", [row | {"session": 2 + n % 2} for n, row in enumerate(toy_rows(7))])
    systems = [f"bare={rows}", f"tuned={rows}@{tmp_path / 'out'}"]
    result, _ = compare(capsys, monkeypatch, *systems, "--model", str(tiny_llama), "--json")
    bare, tuned = result["systems"]
    assert tuned["perplexity"] == pytest.approx(math.exp(best), rel=0.02)
    assert tuned["perplexity_difference"] == pytest.approx(tuned["perplexity"] - bare["perplexity"])
    assert tuned["perplexity_interval"][0] <= tuned["perplexity_difference"] <= tuned["perplexity_interval"][1] < 0
    assert set(tuned["by_session"]) == {"2", "3"}
    result, _ = compare(capsys, monkeypatch, *systems, "--model", str(tiny_llama), "--json", "--generate")
    assert result["systems"][1]["perplexity"] == tuned["perplexity"]
    assert {"bleu_2", "bleu_3", "rouge_l", "rouge_l_interval"} <= set(result["systems"][1])


def test_compared_replies_fill_the_table_of_ablations(
    tmp_path: Path, tiny_llama: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    systems = []
    for part in ("context", "user", "full"):
        about = {"corpus": "msc_personasummary", "parts": part}
        rows = [row | about | {"session": 2 + n % 2, "turn": n} for n, row in enumerate(toy_rows(4))]
        systems.append(f"{part}={write(tmp_path / f'{part}.jsonl', rows)}")
    options = ("--model", str(tiny_llama), "--json", "--out", str(tmp_path / "runs"))
    assert "--generate" in compare(capsys, monkeypatch, *systems, *options)[1]
    result, _ = compare(capsys, monkeypatch, *systems, *options, "--generate")
    filled = fill(paper_table("ld-agent-1"), collect(tmp_path / "runs"))  # untuned: rows of the zero-shot section
    cells = {line.label: line.cells for line in filled.lines if line.ours and any(line.cells)}
    assert set(cells) == {"ours: llama", "ours: llama[LDA]"}
    by_session = result["systems"][0]["by_session"]
    assert cells["ours: llama"][2] == f"{100 * by_session['2']['rouge_l']:.2f}"
    note = next(note for note in filled.notes if note.startswith("Fits no cell: run user"))
    assert "agent_personas" in note or "personas is true" in note
    unnamed = write(tmp_path / "unnamed.jsonl", toy_rows(4))
    assert "--ablations" in compare(capsys, monkeypatch, f"a={unnamed}", *options, "--generate")[1]


def test_incomparable_rows_and_invalid_systems_are_rejected(
    tmp_path: Path, tiny_llama: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    rows, others = write(tmp_path / "a.jsonl", toy_rows(6)), write(tmp_path / "b.jsonl", toy_rows(7))
    for arguments, told in (
        ([f"a={rows}", f"b={others}"], "different replies"),
        ([str(rows)], "NAME=ROWS"),
        ([f"a={tmp_path / 'nowhere.jsonl'}"], "nowhere.jsonl"),
    ):
        code, error = compare(capsys, monkeypatch, *arguments, "--model", str(tiny_llama))
        assert code in (1, 2)
        assert told in error
        assert error.count("\n") == 1
