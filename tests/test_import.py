"""Importing the package is cheap, and so is asking the command line for help."""

import subprocess
import sys
from pathlib import Path

import pytest

import ld_agent

HEAVY = ("torch", "spacy", "transformers", "sentence_transformers")


def loaded(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after some code."""
    probe = f"{code}\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.splitlines()[-1].split())


def best_seconds(code: str) -> float:
    """The best of five fresh interpreters' processor time for some code: other load on the machine has no part in it."""
    timed = f"import time\nstart = time.process_time()\n{code}\nprint(time.process_time() - start)"
    runs = [
        subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True, timeout=60)
        for _ in range(5)
    ]
    return min(float(run.stdout.split()[-1]) for run in runs)


def test_the_probe_sees_a_heavy_import():
    assert loaded("import spacy") >= {"spacy"}


@pytest.mark.parametrize(
    "code",
    [
        "import ld_agent",
        "from ld_agent import Agent, load_config; load_config()",
        "import ld_agent.cli.app",
        "import ld_agent.cli.chat, ld_agent.cli.run, ld_agent.cli.demo",  # a prompt or a bad input file waits for no model
    ],
)
def test_what_loads_none_of_the_heavy_packages(code: str):
    assert loaded(code) == set()


def test_importing_takes_under_a_fifth_of_a_second_of_processor_time():
    assert best_seconds("import ld_agent") < 0.2


def test_help_takes_under_a_second_of_processor_time():
    help_shown = (
        "import contextlib, sys\n"
        "from ld_agent.cli import main\n"
        "sys.argv = ['ld-agent', '--help']\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main()"
    )
    assert loaded(help_shown) == set()
    assert best_seconds(help_shown) < 1.0


def test_known_names_are_listed_and_an_unknown_one_is_an_attribute_error():
    assert set(dir(ld_agent)) >= set(ld_agent.__all__)
    with pytest.raises(AttributeError, match="Agnet"):
        _ = ld_agent.Agnet


def test_the_version_is_that_of_the_project():
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{ld_agent.__version__}"' in project
