"""The wheel alone is enough: built, put into an environment of its own, and used from a folder that is no checkout."""

import os
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from cli_commands import environment, light_config

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that holds the wheel, and beside it only what the wheel depends on."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    venv.create(folder, with_pip=False)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A .pth file inside a folder that a .pth file names is not read, so the editable install does not come along.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    python = folder / "bin" / "python"
    options = "--quiet --no-deps --no-index --force-reinstall --target"
    installed = subprocess.run(
        [python, "-m", "pip", "install", *options.split(), packages, wheel],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1"),
    )
    assert installed.returncode == 0, installed.stderr
    return folder / "bin"


def run(arguments: list[str | Path], folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={k: v for k, v in environment().items() if not k.startswith("PYTHON")},
    )


def test_the_wheel_holds_what_is_used_at_run_time_and_nothing_else(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "ld_agent/py.typed" in names
    for folder, inside in (("configs/agent", "*.yaml"), ("data/samples", "**/*"), ("data/adapters", "**/*")):
        for path in (ROOT / folder).glob(inside):
            if path.is_file():
                assert f"ld_agent/shipped/{path.relative_to(ROOT).as_posix()}" in names
    prompts = {str(path.relative_to(ROOT)) for path in (ROOT / "ld_agent/languages").rglob("*.yaml")}
    assert prompts
    assert prompts <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ld_agent"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".db", ".gguf"))]


def test_chat_runs_from_a_pipe(binaries: Path, tmp_path: Path):
    config = light_config(tmp_path, generator="Bees are fine company.")
    talk = "I keep bees.\n/why\n/quit\n"
    done = run([_command(binaries), "chat", "-c", config, "--store", "me.db"], tmp_path, talk)
    assert done.returncode == 0, done.stderr
    assert "Bees are fine company." in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "me.db").is_file()


def test_shipped_configs_and_samples_are_found(binaries: Path, tmp_path: Path):
    code = (
        "from ld_agent import load_config\n"
        "from ld_agent.datasets import load_episodes\n"
        "from ld_agent.files import shipped_path\n"
        "print(load_config('qwen3-0.6b').backbone.model)\n"
        "print(len(load_episodes(shipped_path('data/samples/three_sessions.jsonl'))))\n"
        "print(shipped_path('configs/agent'))"
    )
    done = run([binaries / "python", "-c", code], tmp_path)
    model, episodes, folder = done.stdout.splitlines()
    assert "Qwen3" in model
    assert episodes == "1"
    assert folder.startswith(str(binaries.parent))


def _command(binaries: Path) -> Path:
    """The installed command, wherever pip put it for an environment installed into by path."""
    inside = binaries.parent / "lib"
    [command] = [p for p in (binaries / "ld-agent", *inside.glob("python*/site-packages/bin/ld-agent")) if p.is_file()]
    assert os.access(command, os.X_OK)
    return command
