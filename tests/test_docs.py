"""The documentation cannot drift: every command and option is in it, every help has an example, and its code runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_commands import CommandLine, environment

from ld_agent.cli.app import app

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = list(commands())


def documentation() -> str:
    pages = [README, *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_there_are_commands():
    assert {path for path, _ in COMMANDS} >= {("chat",), ("run",), ("demo",), ("memory", "list"), ("bench", "recall")}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_a_command_and_its_options_are_documented(path: tuple[str, ...], command: Any):
    text = documentation()
    *groups, name = path
    # Commands of a group may share a line: `ld-agent memory list | search QUERY | export OUT`.
    called = rf"ld-agent +{' '.join(groups)}.*\b{name}\b" if groups else rf"ld-agent +{name}\b"
    assert re.search(called, text), f"README.md and docs/ do not say how to call: ld-agent {' '.join(path)}"
    missing = []
    for parameter in command.params:
        spellings = [option for option in parameter.opts if option.startswith("-")]
        if spellings and "--help" not in spellings and not re.search(rf"(?<![\w-])(?:{'|'.join(spellings)})\b", text):
            missing.append(spellings[0])
    assert missing == [], f"README.md and docs/ do not mention these options of: ld-agent {' '.join(path)}"


@pytest.mark.parametrize("path", [()] + [path for path, _ in COMMANDS], ids=lambda path: " ".join(path) or "ld-agent")
def test_every_help_has_an_example(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ran = CommandLine(monkeypatch, capsys)(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"Examples?:\s+ld-agent {' '.join(path)}", ran.out)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_parameter_has_a_help(path: tuple[str, ...], command: Any):
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


def test_the_python_block_of_the_readme_runs_when_pasted(tmp_path: Path):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert blocks, "README.md shows no Python"
    assert len(blocks[0].strip().splitlines()) <= 10
    done = subprocess.run(
        [sys.executable, "-c", blocks[0]], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
