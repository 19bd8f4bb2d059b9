"""Indexes of many conversations within a bound: which stay, which go, and what growing ones count."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from agent_parts import DAY, START, Scene

from ld_agent.memory.index.records import IndexCache


@dataclass(eq=False)
class Block:
    nbytes: int


def test_one_index_a_conversation_and_view():
    cache = IndexCache(100)
    first = cache.get(1, "events", lambda: Block(10))
    assert cache.get(1, "events", lambda: Block(99)) is first
    assert cache.get(1, "dense", lambda: Block(10)) is not first
    assert cache.get(2, "events", lambda: Block(10)) is not first
    assert (len(cache), cache.nbytes) == (3, 30)


def test_the_least_recently_used_goes_first():
    cache = IndexCache(30)
    kept = [cache.get(number, "events", lambda: Block(10)) for number in range(3)]
    cache.get(0, "events", lambda: Block(0))
    cache.get(3, "events", lambda: Block(10))
    assert cache.get(0, "events", lambda: Block(0)) is kept[0]
    assert cache.get(2, "events", lambda: Block(0)) is kept[2]
    assert cache.get(1, "events", lambda: Block(10)) is not kept[1]
    assert cache.nbytes == 30


def test_an_index_reports_its_growth_and_the_one_in_use_stays():
    cache = IndexCache(30)
    growing = cache.get(1, "events", lambda: Block(5))
    growing.nbytes = 1000
    assert cache.get(1, "events", lambda: Block(0)) is growing
    assert len(cache) == 1
    cache.get(2, "events", lambda: Block(5)).nbytes = 29
    assert (len(cache), cache.nbytes) == (1, 5)
    cache.get(3, "events", lambda: Block(5))
    assert (len(cache), cache.nbytes) == (1, 5)


def test_without_a_bound_nothing_goes():
    cache = IndexCache()
    for number in range(100):
        cache.get(number, "events", lambda: Block(2**40))
    assert len(cache) == 100


def test_the_indexes_of_a_conversation_are_dropped_together():
    cache = IndexCache(100)
    first = cache.get(1, "events", lambda: Block(10))
    cache.get(1, "dense", lambda: Block(10))
    other = cache.get(2, "events", lambda: Block(10))
    cache.drop(1)
    cache.drop(7)
    assert (len(cache), cache.nbytes) == (1, 10)
    assert cache.get(2, "events", lambda: Block(0)) is other
    assert cache.get(1, "events", lambda: Block(10)) is not first


def test_only_users_of_an_index_wait_for_its_construction():
    cache, begun, go_on = IndexCache(100), threading.Event(), threading.Event()
    made = []

    def make() -> Block:
        begun.set()
        assert go_on.wait(30)
        made.append(Block(10))
        return made[-1]

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cache.get, 1, "events", make)
        assert begun.wait(30)
        second = threads.submit(cache.get, 1, "events", lambda: Block(99))
        cache.get(2, "events", lambda: Block(10))
        cache.drop(2)
        go_on.set()
        assert first.result(30) is second.result(30) is made[0]
    assert (len(cache), cache.nbytes) == (1, 10)


def test_an_index_that_is_dropped_in_the_making_is_not_kept():
    cache = IndexCache(100)

    def make() -> Block:
        cache.drop(1)
        return Block(10)

    stale = cache.get(1, "events", make)
    assert len(cache) == 0
    assert cache.get(1, "events", lambda: Block(10)) is not stale


def test_an_index_that_cannot_be_made_is_made_by_the_next():
    cache = IndexCache(100)
    with pytest.raises(ZeroDivisionError):
        cache.get(1, "events", lambda: Block(1 // 0))
    assert cache.get(1, "events", lambda: Block(10)).nbytes == 10


def test_the_word_statistics_of_bm25_count_and_are_made_again_when_they_had_to_go(scene: Scene):
    agent = scene.agent(**{"memory.views": ["bm25"]})
    maya = agent.conversation("maya")
    for day, text in enumerate(("I keep bees.", "I sail boats.", "I bake bread.")):
        maya.respond(text, "Maya", START + day * DAY)
    maya.end_session()
    indexes = agent.resources.indexes
    [best] = maya.recall("boats", START + 9 * DAY)[:1]
    statistics = indexes.get(maya.key, "bm25 words", lambda: Block(0))
    assert 0 < statistics.nbytes < indexes.nbytes
    indexes.drop(maya.key)
    assert maya.recall("boats", START + 9 * DAY)[:1] == [best]
    maya.respond("Boats, boats, boats!", "Maya", START + 10 * DAY)
    maya.end_session()
    assert "Boats, boats" in maya.recall("boats", START + 19 * DAY)[0].record.text
