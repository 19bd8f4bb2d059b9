"""The table of evaluation tasks: everything it names is there, and one entry is all that another task needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import pytest
from cli_commands import CommandLine, scripted_config

from ld_agent.cli.evaluate import command_of
from ld_agent.config import Config
from ld_agent.evaluation.metrics import Measure, mean
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.evaluation.tasks.registry import TASKS, Option, TaskEntry


@pytest.mark.parametrize("task", {task.name: task for task in TASKS.values()}.values(), ids=lambda task: task.name)
def test_what_an_entry_names_is_there(task: TaskEntry):
    assert callable(resolve_name(f"ld_agent.evaluation.tasks.{task.task}"))
    assert callable(resolve_name(f"ld_agent.evaluation.tasks.{task.task.partition(':')[0]}:measures"))


class Echo(Task):
    """Predicts every line of a file, as often as it is told to."""

    name = "echo"
    prompts = ()

    def __init__(self, data: Path, config: Config, limit: int | None, times: int, loud: bool) -> None:
        lines = data.read_text("utf-8").splitlines()[:limit]
        self.items = [Item(str(n), str(n), 1, (line,)) for n, line in enumerate(lines)]
        self._times, self._loud = times, loud

    def settings(self, config: Config) -> Mapping[str, Any]:
        return {"times": self._times}

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        for item in items:
            yield item.predicted((item.references[0].upper() if self._loud else item.references[0]) * self._times, {})


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    return {"length": mean(float(len(p.text)) for p in predictions)}


def figures(predictions: Sequence[Prediction]) -> dict[str, Any]:
    return {"lines": len(predictions), "loud": {"yes": sum(p.text.isupper() for p in predictions)}}


def test_one_entry_is_all_that_another_task_needs(
    tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    from ld_agent.cli import evaluate

    entry = TaskEntry(
        "echo",
        "echo:Echo",
        data="Lines.",
        help="Say lines again.",
        options=(Option("--times", "How often.", 1), Option("--loud", "In capitals.", default=False)),
    )
    monkeypatch.setitem(sys.modules, "ld_agent.evaluation.tasks.echo", sys.modules[__name__])
    monkeypatch.setitem(cast(dict[str, TaskEntry], TASKS), "echo", entry)
    monkeypatch.setattr(evaluate.app, "registered_commands", [*evaluate.app.registered_commands])
    evaluate.app.command("echo")(command_of(entry))
    data = tmp_path / "lines.txt"
    data.write_text("ab\nabcd\n")
    given = ("eval", "echo", data, "-c", scripted_config(tmp_path), "--times", "2", "--loud", "--out", tmp_path / "run")
    ran = command_line(*given, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["task"], found["length"], found["lines"], found["loud"]) == (0, "echo", 6, 2, {"yes": 2})
    assert found["intervals"]["length"] == [4, 8]
    assert "length" in command_line(*given).out
    assert json.loads(command_line("eval", "score", tmp_path / "run", "--json").out) == found
    assert "--times" in command_line("eval", "echo", "--help").out
    assert command_line("eval", "echo", data, "--times", "0").code == 2
