"""The short-term cache M_S and equation (4), over a real store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ld_agent.errors import InputError
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.storage.sqlite.store import Store

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
BETA = 3600.0


@pytest.fixture
def cache(store: Store) -> ShortTermCache:
    return ShortTermCache(store, store.open_conversation("alice", "Sam").key, BETA, lambda: START)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_gap_of_beta_joins_the_session_and_more_begins_one(cache: ShortTermCache, store: Store):
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


def test_the_gap_counts_from_the_last_utterance_and_not_the_first(cache: ShortTermCache):
    for i in range(5):
        cache.append("Maya", str(i), after(i * 0.9 * BETA))
    assert len(cache.utterances) == 5


def test_an_explicit_end_needs_no_gap(cache: ShortTermCache):
    cache.append("Maya", "one", START)
    cache.end()
    assert cache.utterances == ()
    assert not cache.exceeded(after(1e9))
    assert cache.append("Maya", "two", START).session == 2


def test_without_a_time_the_clock_decides(cache: ShortTermCache):
    assert cache.append("Maya", "one", None).at == START
    cache.append("Sam", "two", after(60))
    assert cache.append("Maya", "three", None).at == after(60)  # the clock went backwards; the conversation does not


def test_a_backward_time_is_refused_and_nothing_is_stored(cache: ShortTermCache, store: Store):
    cache.append("Maya", "one", START)
    with pytest.raises(InputError, match="is before the last utterance"):
        cache.append("Maya", "two", after(-1))
    assert [u.text for u in store.utterances(1)] == [u.text for u in cache.utterances] == ["one"]


def test_the_running_session_outlives_the_process(cache: ShortTermCache, store: Store):
    cache.append("Maya", "one", START)
    again = ShortTermCache(store, 1, BETA, lambda: START)
    assert again.utterances == cache.utterances
    again.append("Sam", "two", after(1))
    cache.reload()
    assert [u.text for u in cache.utterances] == ["one", "two"]
