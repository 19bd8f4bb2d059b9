"""Equations (1)–(3) against numbers worked by hand."""

import numpy as np
import pytest

from ld_agent.errors import ConfigError
from ld_agent.memory.scoring import SCORERS, Terms, best, paper_score, scorer, time_decay, topic_overlap


def test_topic_overlap_is_the_mean_of_both_shares():
    # V_q = {dog, rome}; the records hold 2, 1, 0 of them and have 4, 1 and 3 topics:
    #   ½ (2/2 + 2/4) = 0.75    ½ (1/2 + 1/1) = 0.75    ½ (0/2 + 0/3) = 0
    found = topic_overlap(np.array([2, 1, 0]), 2, np.array([4, 1, 3]))
    assert found.tolist() == [0.75, 0.75, 0.0]


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


def test_no_relevant_memory():
    assert best(np.array([1.0]), np.array([False]), np.zeros(1), 3).tolist() == []
    assert best(np.zeros(0), np.zeros(0, bool), np.zeros(0), 3).tolist() == []


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
    assert scorer("hybrid").admission(0.25, 0.4).endswith("> γ = 0.25 (for small talk that a check finds: ≥ 0.4)")
    assert scorer("paper").admission(0.25, 0.4) == "s_sem > γ = 0.25"
    assert scorer("bm25").admission(0.25) == "s_word (a word in common) > 0"
