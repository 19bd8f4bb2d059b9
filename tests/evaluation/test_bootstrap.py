"""Bootstrap intervals and paired tests, checked against the normal approximation."""

from __future__ import annotations

import numpy as np
import pytest

from ld_agent.errors import InputError
from ld_agent.evaluation.bootstrap import compare, interval
from ld_agent.evaluation.metrics import bleu, mean

EPISODES = [f"e{n}" for n in range(200)]


def drawn(seed: int, shift: float = 0.0) -> list[float]:
    return (np.random.default_rng(seed).normal(shift, 1.0, len(EPISODES))).tolist()


def test_an_interval_approximates_the_normal_one():
    values = drawn(1)
    half = 1.96 * float(np.std(values)) / np.sqrt(len(values))
    found = interval(mean(values), EPISODES)
    assert found is not None
    assert found == pytest.approx((np.mean(values) - half, np.mean(values) + half), abs=0.15 * half)


def test_episodes_are_resampled_instead_of_utterances():
    values = drawn(2)
    once = interval(mean(values), EPISODES)
    often = interval(mean([v for v in values for _ in range(9)]), [e for e in EPISODES for _ in range(9)])
    assert often == pytest.approx(once)


def test_the_same_seed_gives_the_same_interval():
    measure = mean(drawn(3))
    assert interval(measure, EPISODES) == interval(measure, EPISODES)
    assert interval(measure, EPISODES, seed=1) != interval(measure, EPISODES)


def test_one_episode_has_no_interval():
    assert interval(mean([0.2, 0.4]), ["a", "a"]) is None
    assert interval(mean([0.2, 0.4]).where([True, False]), ["a", "b"]) is None
    assert compare(mean([0.1]), mean([0.2]), ["a"]) is None


def test_corpus_metrics_are_recomputed_for_every_sample():
    measure = bleu(["a", "b x y"], [["a"], ["b p q"]], [1])["bleu_1"]
    assert interval(measure, ["e1", "e2"]) == pytest.approx((1 / 3, 1.0))


def test_pairing_detects_what_separate_intervals_miss():
    noise = drawn(4)
    better = [value + 0.1 + 0.01 * n for value, n in zip(noise, drawn(5), strict=True)]
    alone, other = interval(mean(noise), EPISODES), interval(mean(better), EPISODES)
    assert alone is not None
    assert other is not None
    assert alone[1] > other[0]  # the intervals overlap
    found = compare(mean(noise), mean(better), EPISODES)
    assert found is not None
    assert found.difference == pytest.approx(0.1, abs=0.005)
    assert found.interval[0] > 0.09
    assert found.p == pytest.approx(2 / 1001)
    back = compare(mean(better), mean(noise), EPISODES)
    assert back is not None
    assert (back.difference, back.p) == (pytest.approx(-found.difference), found.p)


def test_equal_systems_do_not_differ():
    found = compare(mean(drawn(6)), mean(drawn(6)), EPISODES)
    assert found is not None
    assert (found.difference, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_false_positives_are_rare():
    tests = [compare(mean(drawn(n)), mean(drawn(n + 1000)), EPISODES, samples=200) for n in range(60)]
    assert sum(test is not None and test.p < 0.05 for test in tests) <= 9  # 3 expected


def test_systems_with_different_data_are_rejected():
    with pytest.raises(InputError, match="2 and 1 predictions"):
        compare(mean([1, 2]), mean([1]), ["a", "b"])
