"""What the tests of the memory share: a store of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ld_agent.storage.sqlite.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()
