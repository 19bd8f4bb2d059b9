"""A served agent inside this process: real memory, a scripted model."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_parts import Clock, confessed, echo, remembered, retold
from server_parts import Client, Served

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.server.app import create_app


@pytest.fixture
def served(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Served]:
    """Serve an agent, or more under their names: ``async with served({"generator": …}, **{"memory.k": 5}) as client``."""

    @asynccontextmanager
    async def serve(
        script: dict[str, Any] | None = None, scripts: dict[str, dict[str, Any]] | None = None, **settings: Any
    ) -> AsyncIterator[Client]:
        answers = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered}
        agents, parts = {}, {"clock": Clock(), "encoder": encoder, "topics": topics, "background": True}
        for name, script_of_one in (scripts or {"default": script or {}}).items():
            backbone = ScriptedBackbone(answers | script_of_one)
            agents[name] = Agent(config(**settings), backbone=backbone, **parts)
        app = create_app(agents)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with Client(transport=transport, base_url="http://localhost", timeout=60) as client:
                client.service, client.backbone = app.state.service, backbone
                yield client

    yield serve
    assert [t.name for t in threading.enumerate() if t.name.startswith("ld-agent-stream")] == []


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    """A served agent with the settings of the code, and a model that says what it is asked."""
    async with served() as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where `config` keeps the store."""
    return tmp_path / "store.db"
