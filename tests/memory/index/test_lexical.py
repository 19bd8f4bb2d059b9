"""Stems, BM25 by hand, and the windows that say a word."""

import math

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.index.lexical import Lexicon
from ld_agent.text import stems

READING = ENGLISH.reading


def lexicon(*records: list[str]) -> Lexicon:
    """Records of windows, each a text of plain words."""
    made = Lexicon()
    for windows in records:
        split = [window.split() for window in windows]
        words = [word for window in split for word in window]
        made.add({word: words.count(word) for word in words}, split, {})
    return made


def test_stems_join_forms_and_leave_out_what_means_nothing():
    assert stems("She adopted Maya's dogs, and I'm painting them in 2023!", READING) == [
        "adopt",
        "maya",
        "dog",
        "paint",
        "2023",
    ]
    assert stems("Don't you?", READING) == []
    assert stems("우리 개", READING) == ["우리", "개"]


def test_bm25_by_hand():
    # two records of 2 and 4 words, mean 3; "dog" stands once in the first alone: rarity = ln(1 + 1.5/1.5) = ln 2;
    #   2.2 / (1 + 1.2 (0.25 + 0.75 · 2/3)) = 2.2 / 1.9, over √(ln 2 + 1)
    found = lexicon(["dog rome"], ["tea tea rome snow"]).match(["dog", "unheard"])
    assert found == pytest.approx([math.log(2) * 2.2 / 1.9 / math.sqrt(math.log(2) + 1), 0.0])


def test_what_one_speaker_said_is_matched_by_itself():
    made = Lexicon()
    for sam, maya in (({"tea": 9}, {"tea": 1, "dog": 1}), ({"dog": 2}, None), ({"ice": 1}, {"dog": 3, "ice": 1})):
        made.add({}, [], {"Sam": sam} | ({"Maya": maya} if maya is not None else {}))
    # of Maya's two documents, of 2 and 4 words, both say "dog": rarity ln(1 + 0.5/2.5); one says "tea": ln(1 + 1.5/1.5)
    dog, tea = math.log(1.2), math.log(2)
    short, long = 1.2 * (0.25 + 0.75 * 2 / 3), 1.2 * (0.25 + 0.75 * 4 / 3)
    wanted = np.array([(dog + tea) * 2.2 / (1 + short), 0, dog * 2.2 * 3 / (3 + long)]) / math.sqrt(dog + tea + 1)
    assert made.match_by("Maya", ["tea", "dog", "unheard"], np.arange(3)) == pytest.approx(wanted)
    assert made.match_by("Maya", ["tea", "dog", "unheard"], np.array([1, 2])) == pytest.approx(wanted[1:])
    assert made.match_by("Sam", ["tea"], np.array([1, 2])).tolist() == [0, 0]
    early = Lexicon()
    for said in ({"Maya": {"tea": 1}}, {"Maya": {"dog": 1}}, {"Sam": {"tea": 1}}):
        early.add({}, [], said)
    assert (
        early.match_by("Maya", ["dog"], np.array([1, 2]))[1] == 0 < early.match_by("Maya", ["dog"], np.array([1, 2]))[0]
    )
    assert made.match_by("Ann", ["tea"], np.array([0, 2])).tolist() == [0, 0]


def test_common_words_can_be_passed_over():
    made = lexicon(["dog tea"], ["dog snow"], ["dog rome"], ["dog ice"])
    assert made.match(["dog"], 0.5).tolist() == [0.0] * 4
    assert made.match(["ice"], 0.5).tolist() == made.match(["ice"]).tolist()
    assert 0 < made.match(["dog", "ice"], 0.5)[3] < made.match(["ice"])[3]  # what a long question asks counts for less


def test_cover_is_of_each_window():
    made = lexicon(["dog", "dog tea"], [], ["snow", "ice", "tea"])
    # 5 windows; dog in 2: ln(1 + 3.5/2.5), tea in 2: the same, 1 in √(2 ln 2.4 + 1)
    word = math.log(2.4)
    windows = made.windows(np.array([2, 1, 0]))
    assert windows == [(2, 5), (2, 2), (0, 2)]
    found = made.cover(["dog", "tea", "unheard"], windows)
    assert found == pytest.approx(np.array([0, 0, word, word, 2 * word]) / math.sqrt(2 * word + 1))


def test_windows_that_say_nothing_are_covered_by_nothing():
    made = lexicon(["", ""], [], ["dog"], [""])
    assert made.cover(["dog"], made.windows(np.array([0, 1, 3]))).tolist() == [0.0] * 3
    assert made.cover(["dog"], made.windows(np.array([1]))).tolist() == []
    assert made.cover(["dog"], made.windows(np.array([3, 2])))[1] > 0
