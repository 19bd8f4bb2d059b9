"""ECM's figures from runs that were really made, with a scripted model and judge."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_commands import CommandLine, scripted_config

from ld_agent.datasets.base import Episode, Turn
from ld_agent.evaluation.ecm import ASSISTANT, USER, Probe, Sample, write_samples

PLAIN = ("personas.cap=0", "modules.generator.grounded=false")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def benchmark(folder: Path, name: str) -> Path:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    source = Episode("a", ASSISTANT, (Turn(USER, "I row.", at, 1), Turn(ASSISTANT, "Where?", at, 1)))
    samples = [Sample(f"a{n}", name, source, (Probe("What do I do?", "You row."),)) for n in range(3)]
    write_samples(folder / f"{name}.jsonl", samples, {})
    return folder / f"{name}.jsonl"


def test_the_sweep_over_k(tmp_path: Path, command: CommandLine):
    data, runs = benchmark(tmp_path, "knowledge"), tmp_path / "runs"
    for k, verdict in ((1, "0"), (3, "2")):
        config = scripted_config(tmp_path, judge=verdict)
        folder = runs / f"history_{k}"
        views = ("memory.views=[history]", f"memory.k={k}", *PLAIN)
        assert command("ecm", "run", data, *views, "-c", config, "--out", folder).code == 0
        assert command("judge", "score", folder, "-c", config).code == 0
    out = tmp_path / "sweep.png"
    ran = command("figures", "ecm-6", "--from", runs, "--out", out, "--json")
    assert json.loads(ran.out) == {"history": {"1": 0.0, "3": 2.0}}
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "2.00" in command("figures", "ecm-6", "--from", runs).out
    ran = command("figures", "ecm-5", "--from", runs)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)


def test_the_choice_among_kinds_of_memory(tmp_path: Path, command: CommandLine):
    data, runs = benchmark(tmp_path, "feedback"), tmp_path / "runs"
    config = scripted_config(tmp_path, judge=["A", "B", "?"])
    folders = [runs / kind for kind in ("none", "history")]
    for folder in folders:
        views = (f"memory.views=[{folder.name}]", *PLAIN)
        answers = scripted_config(tmp_path, generator=f"It is {folder.name}.")
        assert command("ecm", "run", data, *views, "-c", answers, "--out", folder).code == 0
    judged = json.loads(command("judge", "choose", *folders, "-c", config, "--json").out)
    found = json.loads(command("figures", "ecm-5", "--from", runs, "--json").out)
    names = list(judged["shares"])
    assert found == {"feedback": {"none": judged["shares"][names[0]], "history": judged["shares"][names[1]]}}
    assert sum(found["feedback"].values()) == 1


@pytest.mark.parametrize("name", ["ecm-5", "ecm-6"])
def test_the_plan_names_a_command_for_each_point(name: str, command: CommandLine):
    lines = json.loads(command("figures", name, "--plan", "--json").out)
    assert len(lines) == (10 if name == "ecm-5" else 30)
    assert all(line.startswith("ld-agent ") for line in lines)
