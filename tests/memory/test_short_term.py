"""The short-term cache M_S and equation (4), over a real store."""

from datetime import UTC, datetime, timedelta

import pytest

from ld_agent.memory.short_term import ShortTermCache
from ld_agent.storage.sqlite.store import SQLiteStore

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
BETA = 3600.0


@pytest.fixture
def cache(store: SQLiteStore) -> ShortTermCache:
    key = store.open_conversation("alice", "Sam").key
    return ShortTermCache(store, key, BETA, lambda: START, "", "Sam", "Maya")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_gap_of_beta_joins_the_session_and_more_begins_one(cache: ShortTermCache, store: SQLiteStore):
    cache.append("Maya", "one", START)
    cache.append("Sam", "two", after(BETA))  # t' - t_last = β
    assert [u.text for u in cache.utterances] == ["one", "two"]
    assert not cache.exceeded(after(2 * BETA))
    assert cache.exceeded(after(2 * BETA + 1e-6))
    third = cache.append("Maya", "three", after(2 * BETA + 1e-6))
    assert [u.text for u in cache.utterances] == ["three"]
    assert third.session == 2
    [closed] = store.shelf(1, "events").undigested()
    assert [u.text for u in closed.utterances] == ["one", "two"]
