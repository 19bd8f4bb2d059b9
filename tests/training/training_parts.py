"""Rows that a tiny model can learn, and the commands of the training scripts."""

import json
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def toy_rows(count: int = 24) -> list[dict[str, Any]]:
    """Return questions of various lengths, each answered with one of two letters."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"{'x' * (n % 7)}{'ab'[n % 2]}?"},
                {"role": "assistant", "content": "ab"[n % 2] * (1 + n % 3)},
            ],
            "corpus": "toy",
            "episode": f"e{n}",
        }
        for n in range(count)
    ]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def log_of(folder: Path) -> list[dict[str, float]]:
    """What a run logged, step by step, without its speeds."""
    kept = ("step", "loss", "eval_loss", "learning_rate", "grad_norm")
    log: dict[int, dict[str, float]] = {}
    for entry in json.loads((folder / "trainer_state.json").read_text())["log_history"]:
        log.setdefault(entry["step"], {}).update({key: entry[key] for key in kept if key in entry})
    return list(log.values())


def eval_losses(folder: Path) -> list[float]:
    return [entry["eval_loss"] for entry in log_of(folder) if "eval_loss" in entry]


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


class Commands:
    """``python -m training.MODULE`` inside this process, which has imported torch already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, module: str, *arguments: object) -> Ran:
        self._monkeypatch.chdir(ROOT)
        self._monkeypatch.setattr(sys, "argv", [module, *map(str, arguments)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            runpy.run_module(f"training.{module}", run_name="__main__")
        captured = self._capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, captured.out, captured.err)
