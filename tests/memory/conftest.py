"""What the tests of the memory share: a store of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ld_agent.storage.sqlite.store import SQLiteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "store.db")
    yield opened
    opened.close()
