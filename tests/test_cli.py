"""What holds for every command: exit codes, one-line errors, and where output goes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from cli_commands import CommandLine, light_config, run_real

import ld_agent.cli
import ld_agent.storage.sqlite.store


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--nope"], ["--nope", "see ld-agent --help"]),
        (["tlak"], ["'tlak'"]),
        (["chat", "--nope"], ["--nope", "see ld-agent chat --help"]),
        (["chat", "--store"], ["--store"]),
        (["run"], ["INPUT", "see ld-agent run --help"]),
        (["run", "x", "--limit", "many"], ["--limit"]),
        (["run", "x", "--batch", "0"], ["--batch"]),
        (["memory", "forget"], ["'forget'"]),
        (["memory", "list"], ["--store", "see ld-agent memory list --help"]),
        (["chat", "-c", "nowhere.yaml"], ["nowhere.yaml"]),
        (["chat", "-c", "defualt"], ["defualt", "default", "qwen3-0.6b"]),
        (["chat", "memory.kk=5"], ["memory.kk", "gamma"]),
        (["demo", "memory.k=many"], ["memory.k", "many"]),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(command_line: CommandLine, arguments: list[str], parts: list[str]):
    ran = command_line(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("ld-agent: ")
    assert all(part in ran.err for part in parts), ran.err


@pytest.mark.parametrize("group", [[], ["memory"], ["bench"]])
def test_a_group_called_bare_shows_its_help(command_line: CommandLine, group: list[str]):
    ran = command_line(*group)
    assert (ran.code, ran.err) == (2, "")
    assert "Commands" in ran.out


def test_an_unforeseen_error_is_one_line_too(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def broken(path: Path) -> None:
        raise RuntimeError("first line\nsecond line")

    (tmp_path / "me.db").touch()
    monkeypatch.setattr(ld_agent.storage.sqlite.store, "SQLiteStore", broken)
    ran = command_line("memory", "list", "--store", tmp_path / "me.db")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "ld-agent: unexpected RuntimeError: first line second line; run again with --debug for the traceback\n"
    )
    monkeypatch.setattr(sys, "argv", ["ld-agent", "memory", "list", "--store", str(tmp_path / "me.db"), "--debug"])
    with pytest.raises(RuntimeError, match="second line"):
        ld_agent.cli.main()


def test_an_interrupt_is_exit_code_130(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    (tmp_path / "me.db").touch()
    monkeypatch.setattr(ld_agent.storage.sqlite.store, "SQLiteStore", interrupted)
    ran = command_line("memory", "list", "--store", tmp_path / "me.db")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_control_characters_of_a_name_never_reach_the_terminal(command_line: CommandLine, tmp_path: Path):
    ran = command_line("memory", "list", "--store", tmp_path / "\x1b[31mred\x07.db")
    assert ran.code == 1
    assert "\\x1b[31mred\\x07.db" in ran.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", ran.err)


def test_debug_after_a_double_dash_is_an_argument(command_line: CommandLine, tmp_path: Path):
    (tmp_path / "me.db").touch()
    ran = command_line("memory", "export", "--store", tmp_path / "none.db", "--", "--debug")
    assert ran.code == 1
    assert "none.db" in ran.err


def test_the_demo_plays_and_continues(command_line: CommandLine, tmp_path: Path):
    config = light_config(tmp_path, extractor="I like long walks.")
    numbers = ("became m1", "overall", "what is remembered", "what is known about Sam")
    first = command_line("demo", "-c", config, "--store", tmp_path / "demo.db", "--why")
    assert (first.code, first.err) == (0, "")
    for shown in (
        "session 1",
        "session 3",
        "session 4",
        "what is my dog called?",
        "what is known about Maya",
        *numbers,
    ):
        assert shown in first.out
    assert "holds" not in first.out
    second = command_line("demo", "-c", config, "--store", tmp_path / "demo.db")
    assert second.code == 0
    for shown in (
        "utterances of this conversation; resuming it",
        "session 5",
        "what is known about Maya",
        "ld-agent chat",
    ):
        assert shown in second.out
    for hidden in ("session 1,", *numbers):
        assert hidden not in second.out


def test_the_real_command_passes_its_exit_codes_on(tmp_path: Path):
    assert run_real("memory", "list", "--store", tmp_path / "none.db").code == 1
    assert run_real("chat", "--nope").code == 2
    assert run_real("--help").code == 0
