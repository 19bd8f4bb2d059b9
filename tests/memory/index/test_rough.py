"""Rough cosines and the rows that they leave open: searches among many find what searches among all would."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory import speaker_traits
from ld_agent.memory.index import long_term, rough
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.rough import RoughVectors, contenders
from ld_agent.memory.speaker_traits import SpeakerTraits
from ld_agent.storage.columns import EPOCH
from ld_agent.types import Trait

READING = ENGLISH.reading


def unit_vectors(count: int, dimension: int = 96, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def test_no_cosine_is_off_by_more_than_is_said_while_vectors_are_added():
    vectors, rough_ones = unit_vectors(3000), RoughVectors(96)
    vectors[7] = 0  # an empty text
    vectors[8] = 0
    vectors[8, 3] = 1  # one dimension alone: the coarsest steps
    for count, seed in ((1, 1), (900, 2), (901, 3), (3000, 4)):
        for query in (*unit_vectors(20, seed=seed), vectors[count - 1]):
            cosines, off = rough_ones.cosines(vectors[:count], query)
            gaps = np.abs(np.vecdot(vectors[:count], query) - cosines)
            assert (gaps <= off).all()
            assert off.max() < 0.12
            assert np.median(off) < 0.03


def test_contenders_are_few_and_miss_none_of_the_best():
    vectors, query = unit_vectors(5000), unit_vectors(1, seed=9)[0]
    cosines, off = RoughVectors(96).cosines(vectors, query)
    eligible = np.random.default_rng(1).random(5000) < 0.7
    true = np.where(eligible, np.vecdot(vectors, query), -np.inf)
    open_to = contenders(cosines, off, eligible, 10)
    assert {*np.argsort(-true)[:10].tolist()} <= {*open_to.tolist()}
    assert 10 <= len(open_to) < 200
    assert eligible[open_to].all()


@pytest.mark.parametrize(
    ("eligible", "most", "expected"), [([1, 0, 1], 5, [0, 2]), ([0, 0, 0], 1, []), ([1, 1, 0], 1, [0, 1])]
)
def test_equals_stay_and_rows_that_are_not_eligible_go(eligible, most, expected):
    rows = contenders(np.array([1.0, 1.0, 2.0]), np.zeros(3), np.array(eligible, bool), most)
    assert rows.tolist() == expected


def test_a_search_among_many_is_the_search_among_all(monkeypatch):
    vectors = unit_vectors(600)
    vectors[100:110] = vectors[100]  # equals, told apart by their time
    index = long_term.LongTermIndex(96, ENGLISH.reading)
    for row, vector in enumerate(vectors):
        index.add(row + 1, vector, float(row // 3), ("tea",) if row % 5 else ())

    def hits(query: np.ndarray) -> list[long_term.Hit]:
        at = datetime.fromtimestamp(150.0, UTC)
        return index.search(Search("tea in May", query, at, 6, -1.0, ("tea",), 50.0, "hybrid"))

    queries = [*unit_vectors(30, seed=5), vectors[100]]
    before = [hits(query) for query in queries]
    asked = []
    real = rough.RoughVectors.cosines
    monkeypatch.setattr(rough.RoughVectors, "cosines", lambda *given: asked.append(1) or real(*given))
    monkeypatch.setattr(long_term, "WORTH_IT", 100)
    assert [hits(query) for query in queries] == before
    assert len(asked) == len(queries)


def test_the_best_of_very_many_traits_are_the_best_of_all(monkeypatch):
    vectors, start = unit_vectors(400), datetime(2026, 1, 1, tzinfo=UTC)
    vectors[50:60] = vectors[50]
    bank = SpeakerTraits(96, READING)
    for row, vector in enumerate(vectors):
        at = start + timedelta(hours=row)
        bank.add(Trait(f"t{row}", "Ann", f"I like {row}.", at, "", at, pinned=row == 33), vector)
    bank.put(52, replace(bank.traits[52], holds_until=EPOCH))  # over before it was known

    def best(query: np.ndarray, most: int) -> list[str]:
        now = int((start + timedelta(hours=300)).timestamp() * 1e6)
        return [trait.id for trait in bank.best(query, now, most, 0.3, 86400.0)]

    queries = [*unit_vectors(20, seed=3), vectors[50]]
    before = [[best(query, most) for query in queries] for most in (0, 1, 8, 1000)]
    monkeypatch.setattr(speaker_traits, "WORTH_IT", 100)
    assert [[best(query, most) for query in queries] for most in (0, 1, 8, 1000)] == before
    assert all(found == ["t33"] for found in before[1])
    assert all("t52" not in found and len(found) == 8 for found in before[2])


def test_rivals_and_nearest_among_very_many_traits_are_those_among_all(monkeypatch):
    vectors, at = unit_vectors(400), datetime(2026, 1, 1, tzinfo=UTC)
    bank = SpeakerTraits(96, READING)
    for row, vector in enumerate(vectors):
        bank.add(Trait(f"t{row}", "Ann", f"I like {row}.", at, "", at), vector)
    bank.put(7, replace(bank.traits[7], superseded_by="t8"))
    queries = np.concatenate([unit_vectors(20, seed=3), vectors[5:9]])

    def seen() -> list[object]:
        rivals = [[trait.id for _, trait, _ in bank.rivals("I like 5.", query, 0.2, 0)] for query in queries]
        return [*rivals, *([trait.id for trait in bank.nearest(queries[n : n + 2], 3)] for n in range(22))]

    before, cosines = seen(), [cosine for _, _, cosine in bank.rivals("", vectors[5], 0.2, 0)]
    asked = []
    real = rough.RoughVectors.cosines
    monkeypatch.setattr(rough.RoughVectors, "cosines", lambda *given: asked.append(1) or real(*given))
    monkeypatch.setattr(speaker_traits, "WORTH_IT", 100)
    assert seen() == before
    assert [cosine for _, _, cosine in bank.rivals("", vectors[5], 0.2, 0)] == pytest.approx(cosines, abs=1e-6)
    assert len(asked) == len(queries) + 2 * 22 + 1
    assert all("t5" in one for one in before[: len(queries)])
    assert not any("t7" in one for one in before)
