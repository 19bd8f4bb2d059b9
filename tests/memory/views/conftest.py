"""What the tests of the views share: agents over one store, with the real encoder and a scripted model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from one_view import OneView

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor


@pytest.fixture
def open_view(tmp_path: Path, encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Callable[..., OneView]]:
    """A function that opens views by name, all on one store file."""
    opened: list[OneView] = []

    def open_one(name: str, script: dict[str, Any] | None = None, **settings: Any) -> OneView:
        opened.append(OneView(name, tmp_path / "store.db", encoder, topics, script, **settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.store.close()
