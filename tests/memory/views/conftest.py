"""What the tests of the views share: agents over one store, with the real encoder and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from agent_parts import Scene

from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor


@pytest.fixture
def scene(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Scene]:
    made = Scene(config, encoder, topics)
    yield made
    made.close()
