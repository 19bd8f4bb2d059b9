"""Shows the progress of a run: a progress bar, ``log.csv`` and ``curves.png``."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ld_agent.terminal import bars, errors
from training.card import figures_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("step", "epoch", "loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_second")
LOGGED = {"loss", "eval_loss"}


class Curves(TrainerCallback):
    """Show progress on standard error and keep ``log.csv`` up to date.

    A context manager: the bar disappears when training ends, however it does.

    Args:
        folder: where ``log.csv`` is written; it covers the whole run, including what preceded a restart.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bar = bars()

    def __enter__(self) -> Curves:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._task = self._bar.add_task("training", total=state.max_steps, completed=state.global_step)
            self._bar.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._bar.update(self._task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or not logs or not LOGGED & set(logs):
            return
        write_log(self._folder, state.log_history)
        values = [
            f"{name} {logs[name]:.4g}"
            for name in ("loss", "eval_loss", *figures_in([logs]), "tokens_per_second")
            if name in logs
        ]
        if errors.is_terminal and "loss" in logs:
            self._bar.update(self._task, description=", ".join(values).replace("tokens_per_second", "tokens/s"))
        else:
            errors.print(f"step {state.global_step}/{state.max_steps}: {', '.join(values)}", markup=False)


def write_log(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Rewrite ``log.csv``: one row per step; a cell is empty where nothing was measured."""
    columns = [*COLUMNS, *figures_in(history)]
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if LOGGED & set(entry):
            rows.setdefault(entry["step"], {}).update({key: entry[key] for key in columns if key in entry})
    temporary = folder / ".log.csv"
    with temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows.values())
    os.replace(temporary, folder / "log.csv")


def draw(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write ``curves.png``: the losses and, where answers were measured, their metrics. Needs matplotlib."""
    try:
        picture(history).savefig(folder / "curves.png", dpi=150)
    except ImportError:
        errors.print("curves.png needs matplotlib: pip install 'ld_agent[train]'", markup=False)


def picture(history: Sequence[Mapping[str, Any]]) -> Figure:
    """The curves of a run, losses above metrics of answers, without non-finite values."""
    from matplotlib.figure import Figure

    panels = {
        "loss (nats a token)": {"training": "loss", "validation": "eval_loss"},
        "answers to validation prompts": {key.removeprefix("eval_"): key for key in figures_in(history)},
    }
    logged = {key for entry in history for key in entry}
    shown = {}
    for title, curves in panels.items():
        if present := {name: key for name, key in curves.items() if key in logged}:
            shown[title] = present
    figure = Figure(figsize=(8, 3.2 * len(shown)), layout="constrained")
    for axes, (title, curves) in zip(figure.subplots(len(shown), squeeze=False)[:, 0], shown.items(), strict=True):
        for name, key in curves.items():
            points = {entry["step"]: entry[key] for entry in history if key in entry and math.isfinite(entry[key])}
            axes.plot(list(points), list(points.values()), label=name, marker=".")
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
