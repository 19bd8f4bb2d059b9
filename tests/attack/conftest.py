"""The programme of attacks: a quick part in ``make test``, and the whole of it by ``make attack``."""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "server"))

from server_fixtures import client, served, store  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def whole() -> bool:
    """Whether everything is tried, and not only the quick part."""
    return os.environ.get("ATTACK") == "whole"
