"""The long-term index: against a brute-force reference, at its limits, its size, and over a shelf."""

import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ld_agent.errors import StoreError
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.long_term import LongTermIndex, Search
from ld_agent.memory.index.passages import NO_VECTORS, Passages
from ld_agent.memory.index.records import IndexCache, RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.storage.rows import Draft
from ld_agent.storage.shelf import Shelf
from ld_agent.storage.sqlite.store import SQLiteStore

READING = ENGLISH.reading

DIMENSION = 8


def unit(seed: int, dimension: int = DIMENSION) -> np.ndarray:
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def axis(number: int) -> np.ndarray:
    return np.eye(DIMENSION, dtype=np.float32)[number]


def search(index: LongTermIndex, vector: np.ndarray, topics: tuple[str, ...], at: float, **changed: Any):
    query = Search("", vector, datetime.fromtimestamp(at, UTC), 3, 0.2, topics, 1e7, "paper")
    return index.search(replace(query, **changed))


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 6),  # few vectors, so that ties are common
        st.sampled_from([0.0, 100.0, 200.0, 5e6]),
        st.frozensets(st.sampled_from(["dog", "rome", "tea", "work"])),
    ),
    max_size=90,
)


@settings(max_examples=150, deadline=None)
@given(
    records=RECORDS,
    seed=st.integers(0, 6),
    topics=st.frozensets(st.sampled_from(["dog", "rome", "snow"])),
    at=st.sampled_from([50.0, 200.0, 6e6]),
    k=st.integers(0, 5),
    gamma=st.sampled_from([-1.0, 0.0, 0.3]),
    tau=st.sampled_from([None, 1e6, 1e7]),
)
def test_the_index_agrees_with_the_equations_written_out(records, seed, topics, at, k, gamma, tau):
    index = LongTermIndex(DIMENSION, READING)
    for number, (own, time, words) in enumerate(records, 1):
        index.add(10 * number, unit(own), time, tuple(sorted(words)))
    expected = []
    for number, (own, time, words) in enumerate(records, 1):
        s_sem = float(np.vecdot(unit(own), unit(seed)).clip(-1, 1))
        if time > at or not s_sem > gamma:
            continue
        shared = len(topics & words)
        s_top = 0.5 * (shared / len(topics) + shared / len(words)) if topics and words else 0.0
        decay = 1.0 if tau is None else max(math.exp(-(at - time) / tau), 2.2250738585072014e-308)
        expected.append((decay * (s_sem + s_top), time, 10 * number, s_sem, decay))
    expected.sort(key=lambda row: (-round(row[0], 12), -row[1], -row[2]))
    hits = search(index, unit(seed), tuple(sorted(topics)), at, k=k, gamma=gamma, tau=tau)
    assert [hit.key for hit in hits] == [row[2] for row in expected[:k]]
    for hit, row in zip(hits, expected, strict=False):
        assert (hit.score, hit.s_sem, hit.decay) == pytest.approx((row[0], *row[3:]), abs=1e-6)


def test_a_pool_of_one_is_recalled_only_above_gamma():
    index = LongTermIndex(DIMENSION, READING)
    index.add(1, axis(0), 0.0, ("dog",))
    assert [hit.key for hit in search(index, axis(0), (), 1.0)] == [1]
    assert search(index, axis(1), ("dog",), 1.0) == []  # s_top = 1 does not make up for s_sem = 0


def test_gamma_is_strict():
    index = LongTermIndex(2, READING)
    index.add(1, np.array([0.6, 0.8], np.float32), 0.0, ())
    query = np.array([1.0, 0.0], np.float32)
    assert search(index, query, (), 1.0, gamma=0.6) == []
    assert len(search(index, query, (), 1.0, gamma=0.5999)) == 1


def test_a_record_younger_than_the_query_is_not_recalled():
    index = LongTermIndex(DIMENSION, READING)
    for key, at in ((1, 100.0), (2, 200.0), (3, 200.000001)):
        index.add(key, axis(0), at, ())
    assert [hit.key for hit in search(index, axis(0), (), 200.0)] == [2, 1]
    assert search(index, axis(0), (), 99.0) == []


def test_equal_records_rank_by_age_wherever_they_stand():
    index = LongTermIndex(384, READING)
    for key in range(1, 104):
        index.add(key, unit(1, 384), 0.0, ("dog",))
    hits = search(index, unit(2, 384), ("dog",), 1.0, k=103, gamma=-1.0)
    assert [hit.key for hit in hits] == list(range(103, 0, -1))


def test_dense_is_the_cosine_and_bm25_the_words():
    index = LongTermIndex(DIMENSION, READING)
    for key, (vector, word) in enumerate([(axis(0), "rome"), (axis(1), "violin"), (axis(2), "tea")], 1):
        index.add(key, vector, 0.0, ("dog",), Passages(("Ann",), ((word,),), (), NO_VECTORS))
    [dense] = search(index, axis(0), ("dog",), 9e7, scorer="dense", text="The violin!")
    assert (dense.key, dense.score) == (1, 1.0)  # neither topics nor age
    [bm25] = search(index, axis(0), ("dog",), 9e7, scorer="bm25", text="The violin!")
    assert (bm25.key, bm25.s_sem, bm25.score) == (2, 0.0, bm25.more["s_word"])
    assert bm25.score > 0


def test_growing_keeps_what_is_there():
    index = LongTermIndex(DIMENSION, READING)
    for key in range(1, 1001):
        index.add(key, unit(key), float(key), (f"topic{key % 7}", f"own{key}"))
    assert (len(index), index.columns.last_key) == (1000, 1000)
    for key in (1, 64, 65, 500, 1000):
        [hit] = search(index, unit(key), (f"own{key}",), 1e9, k=1, tau=None)
        assert hit.key == key
        assert (hit.s_sem, hit.score) == pytest.approx((1.0, 1.75))  # s_top = ½ (1/1 + 1/2)


def test_reserved_room_is_used_and_not_taken_twice():
    index = LongTermIndex(DIMENSION, READING)
    index.columns.reserve(100)
    room = index.nbytes
    for key in range(1, 101):
        index.add(key, axis(0), 0.0, ())
    assert index.nbytes == room
    index.columns.reserve(10)
    assert len(index) == 100


def test_a_record_costs_under_two_kilobytes():
    index = LongTermIndex(384, READING)
    vector = unit(0, 384)
    for key in range(1, 10_001):
        index.add(
            key,
            vector,
            float(key),
            [f"common{key % 300}", f"rare{key % 5000}", *(f"t{key % 50 + i}" for i in range(10))],
        )
    assert index.nbytes / 10_000 < 2048


def test_the_ranking_does_not_depend_on_the_hash_seed():
    program = """
from datetime import UTC, datetime
import numpy as np
from ld_agent.languages import ENGLISH
from ld_agent.memory.index.long_term import Search
from ld_agent.memory.index.long_term import LongTermIndex
random = np.random.default_rng(0)
vectors = random.standard_normal((300, 16)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
index = LongTermIndex(16, ENGLISH.reading)
words = ["dog", "rome", "tea", "work", "snow"]
for key in range(1, 300):
    index.add(key, vectors[key % 40], float(key // 30), sorted({words[i] for i in random.integers(0, 5, 3)}))
at = datetime.fromtimestamp(1e6, UTC)
for hit in index.search(Search("", vectors[0], at, 20, -1.0, tuple(sorted(set(words[:3]))), 1e7, "paper")):
    print(hit)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0].count("Hit(") == 20
    assert said[0] == said[1]


START = datetime(2024, 5, 1, tzinfo=UTC)
TEXTS = ("Maya has two dogs.", "Maya sold her violin to Ben.", "Ben moved to Rome.")


@pytest.fixture
def shelf(store: SQLiteStore) -> Shelf:
    key = store.open_conversation("alice", "Sam").key
    shelf = store.shelf(key, "events")
    for number, text in enumerate(TEXTS, 1):
        store.append(key, "Maya", text, START + number * timedelta(days=1), 3600.0, lambda: START)
        store.close_session(key)
        shelf.digest(
            number,
            [Draft(text, START + number * timedelta(days=1), number, topics=("ben", "maya"), sources=(f"u{number}",))],
        )
    return shelf


def asked(encoder: SentenceEncoder, text: str, **limits) -> Search:
    settings = {"at": START + timedelta(days=9), "k": 3, "gamma": 0.2, "topics": ("ben",)} | limits
    return Search(text, encoder.encode([text])[0], **settings)


@pytest.mark.parametrize("scorer", SCORERS)
def test_every_scorer_answers_through_the_same_door(shelf: Shelf, encoder: SentenceEncoder, scorer: str):
    index = RecordIndex(shelf, encoder, READING, passages=True)
    best, *_ = index.search(asked(encoder, "Who bought the violin?", scorer=scorer))
    assert best.record.text == TEXTS[1]
    assert best.s_top == pytest.approx(0.75)  # ½ (1/1 + 1/2)
    assert best.overlap == ("ben",)
    deciding = {"s_sem": best.s_sem, **best.terms}[SCORERS[scorer].decided_by]
    assert deciding > (0.2 if SCORERS[scorer].bound is None else 0)
    assert index.search(asked(encoder, "Who bought the violin?", scorer=scorer, at=START)) == []


def test_a_dropped_index_is_made_again_and_finds_the_same(shelf: Shelf, encoder: SentenceEncoder):
    cache = IndexCache(1)
    search = asked(encoder, "Who bought the violin?", scorer="hybrid")

    def found(view: str):
        return cache.get(1, view, lambda: RecordIndex(shelf, encoder, READING, passages=True)).search(search)

    first = found("events")
    assert found("other") == first
    assert len(cache) == 1
    assert found("events") == first


def test_a_record_forgotten_by_hand_is_not_found_again(store: SQLiteStore, shelf: Shelf, encoder: SentenceEncoder):
    index = RecordIndex(shelf, encoder, READING)
    [violin] = index.search(asked(encoder, "Who bought the violin?", k=1))
    store.forget(1, violin.record.id, START)
    assert violin.record.text not in [r.record.text for r in index.search(asked(encoder, "violin", gamma=-1.0))]
    store.delete_conversation(1)
    with pytest.raises(StoreError, match="deleted"):
        index.search(asked(encoder, "violin", gamma=-1.0))
