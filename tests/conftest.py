"""What every test shares: the real encoder and topic extractor, loaded once, and a wall around the machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ld_agent.config import Config, parse_config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="session", autouse=True)
def network_blocked() -> Iterator[None]:
    """Fail whatever connects to anything but loopback; a code path that swallows exceptions does not hide it."""
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}

    def guarded(name: str) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX and not _is_loopback(address[0]):
                pytest.fail(f"a test connects to {address[0]!r}; tests reach nothing but loopback")
            return plain[name](self, address)

        return connect

    with pytest.MonkeyPatch.context() as patch:
        for name in plain:
            patch.setattr(socket.socket, name, guarded(name))
        yield


def _is_loopback(host: str | bytes) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return name in ("localhost", "")


@pytest.fixture(scope="session")
def encoder() -> SentenceEncoder:
    """The real default encoder."""
    return SentenceEncoder(Config().encoder.model)


@pytest.fixture(scope="session")
def topics() -> TopicExtractor:
    """The real default topic extractor."""
    settings = Config().topics
    return TopicExtractor(settings.model, settings.pos)


@pytest.fixture
def config(tmp_path: Path) -> MakeConfig:
    """Make a config whose store lies in ``tmp_path``; keys are dotted: ``config(**{"memory.k": 5})``."""

    def make(**assigned: Any) -> Config:
        values: dict[str, Any] = {"store": {"path": str(tmp_path / "store.db")}}
        for path, value in assigned.items():
            *sections, key = path.split(".")
            section = values
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = value
        return parse_config(values)

    return make
