"""Equations (1)–(3) against numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ld_agent.errors import ConfigError
from ld_agent.memory.scoring import SCORERS, Terms, best, paper_score, scorer, time_decay, topic_overlap


def test_topic_overlap_is_the_mean_of_both_shares():
    # V_q = {dog, rome}; the records hold 2, 1, 0 of them and have 4, 1 and 3 topics:
    #   ½ (2/2 + 2/4) = 0.75    ½ (1/2 + 1/1) = 0.75    ½ (0/2 + 0/3) = 0
    found = topic_overlap(np.array([2, 1, 0]), 2, np.array([4, 1, 3]))
    assert found.tolist() == [0.75, 0.75, 0.0]


def test_topic_overlap_of_equal_sets_is_one():
    assert topic_overlap(np.array([3]), 3, np.array([3])).tolist() == [1.0]


def test_topic_overlap_is_zero_where_either_set_is_empty():
    assert topic_overlap(np.array([0, 0]), 0, np.array([3, 0])).tolist() == [0.0, 0.0]
    assert topic_overlap(np.array([0]), 2, np.array([0])).tolist() == [0.0]


def test_time_decay():
    # τ = 1e7 s: e^0 = 1; one τ later e^-1 = 0.36788; a week (604 800 s) later e^-0.06048 = 0.94131
    decay = time_decay(np.array([0.0, 1e7, 604_800.0]), 1e7)
    assert decay == pytest.approx([1.0, 0.3678794412, 0.9413125], abs=1e-7)


def test_without_tau_there_is_no_decay():
    assert time_decay(np.array([0.0, 1e12]), None).tolist() == [1.0, 1.0]


def test_a_decay_never_vanishes():
    assert time_decay(np.array([1e300]), 1e-3)[0] > 0


def test_the_paper_score():
    # λ (s_sem + s_top): 0.5 (0.6 + 0.75) = 0.675; 1 (0.3 + 0) = 0.3; 0.9 (-0.2 + 0.5) = 0.27
    terms = Terms(np.array([0.6, 0.3, -0.2]), np.array([0.75, 0.0, 0.5]), np.array([0.5, 1.0, 0.9]))
    assert paper_score(terms) == pytest.approx([0.675, 0.3, 0.27])
    assert scorer("paper").score is paper_score


def test_an_unknown_scorer_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"memory\.scorer='bm42'.*paper"):
        scorer("bm42")


def test_the_k_best_come_best_first():
    score = np.array([0.1, 0.9, 0.5, 0.7])
    everything = np.ones(4, bool)
    assert best(score, everything, np.zeros(4), 3).tolist() == [1, 3, 2]
    assert best(score, everything, np.zeros(4), 9).tolist() == [1, 3, 2, 0]


def test_what_is_not_eligible_is_never_found():
    assert best(np.array([9.0, 1.0]), np.array([False, True]), np.zeros(2), 2).tolist() == [1]


@pytest.mark.parametrize("k", [0, -1])
def test_k_of_zero_gives_none(k: int):
    assert best(np.array([1.0]), np.array([True]), np.zeros(1), k).tolist() == []


def test_no_relevant_memory():
    assert best(np.array([1.0]), np.array([False]), np.zeros(1), 3).tolist() == []
    assert best(np.zeros(0), np.zeros(0, bool), np.zeros(0), 3).tolist() == []


def test_among_equals_the_newer_then_the_later_row():
    score = np.full(5, 0.5)
    at = np.array([10.0, 30.0, 20.0, 30.0, 5.0])
    assert best(score, np.ones(5, bool), at, 3).tolist() == [3, 1, 2]


def test_the_ranking_weighs_a_week_against_a_topic():
    # A year-old record that shares every topic against last week's that shares none, both with s_sem 0.5 and τ = 1e7 s:
    #   e^-3.1536 · 1.5 = 0.0640    e^-0.06048 · 0.5 = 0.4707
    decay = time_decay(np.array([31_536_000.0, 604_800.0]), 1e7)
    score = paper_score(Terms(np.array([0.5, 0.5]), np.array([1.0, 0.0]), decay))
    assert score == pytest.approx([1.5 * math.exp(-3.1536), 0.5 * math.exp(-0.06048)])
    assert best(score, np.ones(2, bool), np.zeros(2), 1).tolist() == [1]


def test_a_scorer_says_what_admits_a_record_and_admits_by_it():
    terms = Terms(
        np.array([0.5, 0.1, 0.5]),
        np.zeros(3),
        np.ones(3),
        {"s_near": np.array([0.5, 0.3, 0.2]), "s_word": np.eye(3)[1]},
    )
    admitted = {name: one.admits(terms, 0.25).tolist() for name, one in SCORERS.items()}
    assert admitted == {
        "paper": [True, False, True],
        "hybrid": [True, True, False],
        "dense": [True, False, True],
        "bm25": [False, True, False],
    }
    assert scorer("paper").admission(0.25) == "s_sem > γ = 0.25"
    assert scorer("hybrid").admission(0.25) == "s_near (the cosine of the summary or its nearest passage) > γ = 0.25"
    assert scorer("bm25").admission(0.25) == "s_word (a word in common) > 0"
