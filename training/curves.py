"""What a run shows of itself: a progress bar, ``log.csv`` and, where matplotlib is installed, ``curves.png``."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback

from ld_agent.cli.show import errors

COLUMNS = ("step", "epoch", "loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_second")


class Curves(TrainerCallback):
    """Shows progress on standard error and keeps the log files of a run up to date.

    A context manager: the bar goes when training ends, however it does.

    Args:
        folder: where ``log.csv`` is written; it holds the whole run, parts before a restart included.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=errors,
            disable=not errors.is_terminal,
        )

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
        if not state.is_world_process_zero or not logs or not ({"loss", "eval_loss"} & set(logs)):
            return
        write_log(self._folder, state.log_history)
        told = [f"{name} {logs[name]:.4g}" for name in ("loss", "eval_loss", "tokens_per_second") if name in logs]
        if errors.is_terminal and "loss" in logs:
            self._bar.update(self._task, description=", ".join(told).replace("tokens_per_second", "tokens/s"))
        else:
            errors.print(f"step {state.global_step}/{state.max_steps}: {', '.join(told)}", markup=False)


def write_log(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write ``log.csv`` and ``curves.png`` anew: a row a step, a cell empty where nothing was measured then."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if "loss" in entry or "eval_loss" in entry:
            rows.setdefault(entry["step"], {}).update({key: entry[key] for key in COLUMNS if key in entry})
    beside = folder / ".log.csv"
    with beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows.values())
    os.replace(beside, folder / "log.csv")


def draw(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Draw the curves of loss; without matplotlib there is only the table."""
    if find_spec("matplotlib") is None:
        return
    import_module("matplotlib").use("Agg")
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for key, label in (("loss", "training"), ("eval_loss", "validation")):
        points = [(e["step"], e[key]) for e in history if key in e and math.isfinite(e[key])]
        if points:
            axes.plot(*zip(*points, strict=True), label=label)
    axes.set(xlabel="step", ylabel="loss (nats a token)")
    axes.legend()
    figure.savefig(folder / "curves.png", dpi=120)
    pyplot.close(figure)
