"""The hybrid scorer: its sum, its terms in the index, and that time never erases."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.index.lexical import question
from ld_agent.memory.index.long_term import CANDIDATES, FEW, LongTermIndex, Search
from ld_agent.memory.index.passages import LIKE, SHARPNESS, PackedVectors, Passages, best_passages
from ld_agent.memory.scoring import SCORERS, TIME, WEIGHTS, Terms, goes_on, hybrid_score, weighted

READING = ENGLISH.reading

AT = datetime(2023, 10, 18, tzinfo=UTC)
DIMENSION = 8


def axis(number: int) -> np.ndarray:
    return np.eye(DIMENSION, dtype=np.float32)[number % DIMENSION]


def one(words: str, vector: np.ndarray, speaker: str = "Maya") -> Passages:
    """Passages of one turn, no sentence."""
    return Passages((speaker,), (tuple(words.split()),), (), PackedVectors.of(vector[None]))


class Bank:
    """An index with the passages it fetches."""

    def __init__(self) -> None:
        self.vectors: dict[int, PackedVectors] = {}
        self.fetched: list[int] = []
        self.index = LongTermIndex(DIMENSION, READING, self._fetch)

    def _fetch(self, keys):
        self.fetched += keys
        return {key: self.vectors[key] for key in keys if key in self.vectors}

    def add(self, summary: np.ndarray, passages: Passages, at: float = 0.0) -> None:
        key = len(self.index) + 1
        self.vectors[key] = passages.vectors
        self.index.add(key, summary, at, ("dog",), passages)

    def search(self, text: str, vector: np.ndarray, **changed):
        query = Search(text, vector, AT, 3, 0.1, ("dog",), scorer="hybrid")
        return self.index.search(replace(query, **changed))


def test_the_sum_by_hand():
    terms = {name: np.array([0.5, 0.0]) for name in WEIGHTS}
    assert weighted(terms) == pytest.approx([sum(WEIGHTS.values()) / 2, 0])
    s_sem = terms.pop("s_sem")
    score = hybrid_score(Terms(s_sem, s_sem, np.array([1.0, 0.5]), terms))
    assert score == pytest.approx([sum(WEIGHTS.values()) / 2 + TIME, TIME / 2])
    assert all(name in SCORERS["hybrid"].formula for name in [*WEIGHTS, "λ"])


def test_of_two_like_records_a_message_that_goes_on_prefers_the_newer_and_a_question_the_nearer():
    bank = Bank()
    bank.add(axis(0), one("violin", axis(0)), at=AT.timestamp() - 200 * 86400)
    bank.add(axis(0), one("violin", axis(0) * 0.9 + axis(1) * math.sqrt(0.19)), at=AT.timestamp() - 86400)
    found = {far: [hit.key for hit in bank.search("violin", axis(0), tau=1e7, goes_on=far)] for far in (0.0, 1.0)}
    assert found == {0.0: [1, 2], 1.0: [2, 1]}
    assert [goes_on(words) for words in (6, 18, 29, 40, 400)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_yesterday_is_the_day_before_where_it_is_asked():
    bank, asked = Bank(), datetime(2026, 3, 12, 1, tzinfo=timezone(timedelta(hours=9)))  # the 11th in Greenwich
    for day in (10, 11):
        bank.add(axis(0), one("tea", axis(0)), at=datetime(2026, 3, day, 12, tzinfo=asked.tzinfo).timestamp())
    dates = {hit.key: hit.more["s_date"] for hit in bank.search("What did I do yesterday?", axis(0), at=asked)}
    assert dates[2] == 1.0 > dates[1]


def test_a_question_is_about_the_one_speaker_it_names():
    assert question("What did Maya say on 7 May 2023?", AT, ["Maya", "Sam"], READING).about == "Maya"
    assert len(question("What did Maya say on 7 May 2023?", AT, ["Maya", "Sam"], READING).periods) == 1
    assert question("Did Maya tell Sam?", AT, ["Maya", "Sam"], READING).about == ""
    assert question("Mayan temples", AT, ["Maya", "Sam"], READING).about == ""


def test_the_best_window_and_sentence_by_hand():
    vectors = PackedVectors.of(np.stack([axis(0), axis(1), axis(0)]))  # two windows, one sentence
    s_sent, s_pass, s_like, nearest = best_passages([vectors], np.array([2]), axis(1), np.array([0.3, 0.2]))
    # ln(e^(12 · 0.3) + e^(12 · 1.2)) / 12; both windows lie at √½ from their mean: ln(2 e^(12 · √½)) / 12
    assert (s_sent[0], s_pass[0], s_like[0], nearest[0]) == pytest.approx(
        (0.0, math.log(math.exp(3.6) + math.exp(14.4)) / 12, math.sqrt(0.5) + math.log(2) / 12, 1.0), abs=1e-4
    )


def test_a_session_that_comes_back_to_it_is_before_one_that_touches_it_once():
    bank = Bank()
    for times in (1, 4):
        windows = np.stack([axis(0)] * times + [axis(1)] * (5 - times))
        bank.add(axis(0), Passages(("Maya",) * 5, (("tea",),) * 5, (), PackedVectors.of(windows)))
    first, second = bank.search("rome", axis(0))
    assert (first.key, second.key) == (2, 1)
    assert first.more["s_pass"] - second.more["s_pass"] == pytest.approx(math.log(4) / SHARPNESS, abs=1e-4)


def test_pages_that_match_word_for_word_do_not_overflow():
    vectors = PackedVectors.of(np.stack([axis(0), axis(1)]))
    assert best_passages([vectors], np.array([2]), axis(1), np.array([0.0, 100.0]))[1][0] == pytest.approx(
        600 / SHARPNESS
    )


def plainly(vectors, windows, vector, further):
    """The same by records and passages one at a time."""
    wide = [packed.steps.astype(np.float32) * packed.scale[:, None] for packed in vectors]
    borders = np.append(0, np.cumsum(windows))
    earned = [  # of each record's windows, with their vectors
        [(float(row @ vector) + more, row) for row, more in zip(rows, further[borders[n] :], strict=False)][:turns]
        for n, (rows, turns) in enumerate(zip(wide, windows, strict=True))
    ]
    ranked = sorted((pair for own in earned for pair in own), key=lambda pair: pair[0])
    middle = np.sum([row for _, row in ranked[-LIKE:]], axis=0)
    middle /= np.linalg.norm(middle)

    def soft_maximum(values):
        return math.log(sum(math.exp(SHARPNESS * value) for value in values)) / SHARPNESS if values else 0.0

    return (
        [
            max((float(row @ vector) for row in rows[turns:]), default=0.0)
            for rows, turns in zip(wide, windows, strict=True)
        ],
        [soft_maximum([value for value, _ in own]) for own in earned],
        [soft_maximum([float(row @ middle) for _, row in own]) for own in earned],
        [max((float(row @ vector) for row in rows), default=-1.0) for rows in wide],
    )


def test_many_records_together_score_like_each_alone():
    random = np.random.default_rng(3)
    windows = np.array([3, 0, 1, 4, 2, 0])
    # passages: windows and sentences, sentences alone, one window, none fetched, no sentence, none at all
    counts = [5, 2, 1, 0, 2, 0]
    vectors = []
    for count in counts:
        drawn = random.standard_normal((count, DIMENSION)).astype(np.float32)
        vectors.append(PackedVectors.of(drawn / np.linalg.norm(drawn, axis=1, keepdims=True)))
    further, vector = random.random(windows.sum()), axis(2)
    found, expected = best_passages(vectors, windows, vector, further), plainly(vectors, windows, vector, further)
    for values, plain in zip(found, expected, strict=True):
        assert values == pytest.approx(np.array(plain), abs=1e-6)


def test_what_the_one_asked_about_said_counts_before_what_was_said_to_them():
    bank = Bank()
    for speaker, other in (("Sam", "Maya"), ("Maya", "Sam")):
        said = Passages(
            (speaker, other), (("violin", "sold"), ("nice",)), (), PackedVectors.of(np.stack([axis(0)] * 2))
        )
        bank.add(axis(0), said)
    first, second = bank.search("When was Maya's violin sold?", axis(0))
    assert (first.key, second.key) == (2, 1)
    assert first.more["s_word"] > second.more["s_word"] > 0
    both = bank.search("When was the violin sold?", axis(0))
    assert both[0].more["s_word"] == both[1].more["s_word"]


def test_a_session_like_the_best_passages_is_before_one_that_is_not():
    bank = Bank()
    tilted = (axis(0) + axis(1)) / np.float32(math.sqrt(2))
    for vector in (tilted, axis(1), axis(2)):  # the question is on axis 0; the second is like its best passage
        bank.add(axis(3), one("tea", vector))
    hits = {hit.key: hit for hit in bank.search("rome", axis(0), gamma=-1.0)}
    assert list(hits) == [1, 2, 3]
    assert hits[2].more["s_pass"] == hits[3].more["s_pass"]
    assert hits[2].more["s_like"] > hits[3].more["s_like"] > 0


def test_every_term_is_explained_and_adds_to_the_score():
    bank = Bank()
    bank.add(axis(0), one("violin", axis(1)))
    [hit] = bank.search("Who sold the violin?", axis(0))
    assert list(hit.more) == ["s_sent", "s_word", "s_pass", "s_like", "s_date", "s_near", "s_new"]
    assert hit.more["s_word"] > 0
    total = sum(WEIGHTS[name] * value for name, value in {"s_sem": hit.s_sem, **hit.more}.items() if name in WEIGHTS)
    assert hit.score == pytest.approx(total + TIME * hit.decay)


@pytest.mark.parametrize("evidence", ["word", "passage", "speaker", "date"])
def test_each_kind_of_evidence_decides(evidence: str):
    bank = Bank()
    right = {"words": "tea", "vector": axis(2), "speaker": "Sam", "at": 0.0}
    asked, vector = "Who sold it to Maya on 7 May 2023?", axis(1)
    if evidence == "word":
        right["words"] = "sold"
    elif evidence == "passage":
        right["vector"] = axis(1)
    elif evidence == "speaker":
        right["speaker"] = "Maya"
    else:
        right["at"] = datetime(2023, 5, 9, tzinfo=UTC).timestamp()
    bank.add(axis(1), one(right["words"], right["vector"], right["speaker"]), right["at"])
    bank.add(axis(1), one("tea", axis(2), "Sam"), right["at"] if evidence != "date" else 0.0)
    hits = bank.search(asked, vector)
    assert [hit.key for hit in hits] == [1, 2]
    assert hits[0].score - hits[1].score > 0.3


def test_time_decides_between_equals_and_never_erases():
    bank = Bank()
    now = AT.timestamp()
    for at in (now - 3e7, now - 1e6):
        bank.add(axis(0), one("tea", axis(0)), at)
    bank.add(axis(1), one("snow", axis(1)), now - 1.0)
    hits = bank.search("tea", axis(0), tau=1e6, gamma=-1.0)
    assert [hit.key for hit in hits] == [2, 1, 3]


def test_gamma_bounds_the_nearest_part():
    bank = Bank()
    bank.add(axis(0), one("tea", axis(1)))
    [hit] = bank.search("tea", axis(1), gamma=0.5)  # the passage is near, the summary is not
    assert hit.s_sem < 0.5 < hit.more["s_near"]
    assert bank.search("tea", axis(2), gamma=0.5) == []


def test_only_the_best_of_many_records_are_fetched():
    bank = Bank()
    for number in range(3 * FEW):
        bank.add(axis(number % 4), one(f"word{number}", axis(4 + number % 4)))
    hits = bank.search("word50", axis(6))
    assert hits[0].key == 51
    assert len(bank.fetched) == CANDIDATES
    bank.search("word50", axis(6))
    assert len(bank.fetched) == CANDIDATES


def test_records_that_came_without_passages_are_found_by_their_summary():
    index = LongTermIndex(DIMENSION, READING)
    for number in range(3):
        index.add(number + 1, axis(number), 0.0, ())
    [hit] = index.search(Search("dog", axis(1), AT, 1, 0.1, scorer="hybrid"))
    assert (hit.key, hit.more["s_pass"]) == (2, 0.0)
