"""Shows the progress of a run: a progress bar and ``log.csv``."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ld_agent.terminal import bars, errors

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
        values = [f"{name} {logs[name]:.4g}" for name in ("loss", "eval_loss", "tokens_per_second") if name in logs]
        if errors.is_terminal and "loss" in logs:
            self._bar.update(self._task, description=", ".join(values).replace("tokens_per_second", "tokens/s"))
        else:
            errors.print(f"step {state.global_step}/{state.max_steps}: {', '.join(values)}", markup=False)


def write_log(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Rewrite ``log.csv``: one row per step; a cell is empty where nothing was measured."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if LOGGED & set(entry):
            rows.setdefault(entry["step"], {}).update({key: entry[key] for key in COLUMNS if key in entry})
    temporary = folder / ".log.csv"
    with temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows.values())
    os.replace(temporary, folder / "log.csv")
