"""Paths of the samples and, if this machine has them, of the real corpora."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ld_agent.files import shipped_path

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def samples() -> Path:
    return shipped_path("data/samples")


@pytest.fixture
def corpus() -> Callable[[str], Path]:
    """Return the path of a corpus file; skip the test if it is missing."""
    folder = Path(os.environ.get("LD_AGENT_DATA", CHECKOUT.parent / "shared" / "data"))

    def path(relative: str) -> Path:
        if not (folder / relative).exists():
            pytest.skip(f"no corpus file {folder / relative}; set LD_AGENT_DATA to the folder of the corpora")
        return folder / relative

    return path
