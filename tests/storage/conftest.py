"""Stores to test on, and one conversation with something of every kind in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ld_agent.storage.sqlite import Store
from ld_agent.types import Record, Trait

START = datetime(2024, 5, 1, 18, 30, 0, 123456, tzinfo=UTC)
Fill = Callable[..., int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path, busy_seconds=5)
    yield opened
    opened.close()


@pytest.fixture
def fill() -> Fill:
    """Give a store a conversation whose every text holds ``word``: a closed and a running session, records, traits."""

    def fill(store: Store, name: str, word: str = "walnut", agent: str = "Sam") -> int:
        key = store.open_conversation(name, agent).key
        vector = np.arange(4, dtype=np.float32)
        for hours, speaker in enumerate((f"Maya {word}", agent, f"Maya {word}")):
            at = START + timedelta(hours=hours)
            last = store.append(key, speaker, f"{word} number {hours}", at, beta=3600 * 1.5, now=lambda: START)
        store.close_session(key)

        def record(record_id: str) -> Record:
            said = f"They talk about a {word}."
            details = {"note": word, "odd": [0.1, 1e300, -0.0, 5e-324], "deep": {"z": None, "a": True}}
            return Record(record_id, "events", said, last.at, 1, (word, "zebra"), ("u1", "u2"), True, details)

        store.digest(key, "events", 1, [(record, vector)])
        for speaker in (f"Maya {word}", agent):
            trait = Trait(store.new_trait_id(key), speaker, f"I like {word}.", START, "u1", last.at, mentions=2)
            store.put_trait(key, trait, vector)
        store.put_trait(key, Trait("t1", f"Maya {word}", f"I like {word}.", START, "u1", last.at, 3, "t2"), vector)
        store.mark_extracted(key, "u1")
        store.append(key, agent, f"{word} after all", last.at + timedelta(hours=9), 3600, lambda: START)
        return key

    return fill
