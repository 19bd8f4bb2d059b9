"""Stores to test on, and one conversation with something of every kind in it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ld_agent.storage.rows import Draft
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.storage.store import Store

START = datetime(2024, 5, 1, 18, 30, 0, 123456, tzinfo=UTC)
Fill = Callable[..., int]
OpenStore = Callable[[], Store]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the engines that its module names in ENGINES; without it, on SQLite."""
    if "open_store" in metafunc.fixturenames:
        metafunc.parametrize("open_store", getattr(metafunc.module, "ENGINES", ("sqlite",)), indirect=True)


@pytest.fixture
def open_store(request: pytest.FixtureRequest, path: Path) -> Iterator[OpenStore]:
    """Opens the store under test: every call is another connection to the same place."""
    address = request.getfixturevalue("new_database")() if request.param == "postgres" else ""
    opened: list[Store] = []

    def open_one() -> Store:
        if request.param == "postgres":
            from ld_agent.storage.postgres.store import PostgresStore

            opened.append(PostgresStore(address, wait_seconds=5))
        else:
            opened.append(SQLiteStore(path, busy_seconds=5))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture(scope="session")
def fill() -> Fill:
    """Give a store a conversation whose every text holds ``word``: a closed and a running session, records, traits."""

    def fill(store: Store, name: str, word: str = "walnut", agent: str = "Sam") -> int:
        key = store.open_conversation(name, agent).key
        vector = np.arange(4, dtype=np.float32)
        for hours, speaker in enumerate((f"Maya {word}", agent, f"Maya {word}")):
            at = START + timedelta(hours=hours)
            last = store.append(key, speaker, f"{word} number {hours}", at, beta=3600 * 1.5, now=lambda: START)
        store.close_session(key)

        details = {"note": word, "odd": [0.1, 1e300, -0.0, 5e-324], "deep": {"z": None, "a": True}}
        said = f"They talk about a {word}."
        draft = Draft(said, last.at, 1, vector, (word, "zebra"), ("u1", "u2"), True, details)
        store.shelf(key, "events").digest(1, [draft])
        personas = store.personas(key)
        first, second = (personas.add(who, f"I like {word}.", START, "u1", vector) for who in (f"Maya {word}", agent))
        personas.update(
            replace(first, last_at=last.at, mentions=3, superseded_by=second.id, holds_until=last.at, ended_by="u3")
        )
        personas.update(replace(second, last_at=last.at, mentions=2))
        personas.mark_extracted("u1")
        store.append(key, agent, f"{word} after all", last.at + timedelta(hours=9), 3600, lambda: START)
        return key

    return fill
