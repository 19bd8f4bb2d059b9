"""Which of several answers, read in different passages, is given."""

from __future__ import annotations

import pytest

from ld_agent.languages import ENGLISH
from ld_agent.modules.choice import agreed, timely

READING = ENGLISH.reading

VOLVO, FIAT = "You drive an old Volvo.", "You drive a Fiat."


@pytest.mark.parametrize(
    ("question", "chosen"),
    [
        ("What car do I drive?", FIAT),
        ("What car do I drive now?", FIAT),
        ("How old is my car?", FIAT),  # this "old" asks for no former car
        ("What car did I drive before?", VOLVO),
        ("What car did I use to drive?", VOLVO),
        ("What was my old car?", VOLVO),
        ("我现在开什么车？", FIAT),
        ("我以前开什么车？", VOLVO),
        ("제 차가 뭐예요?", FIAT),
        ("예전에 제 차가 뭐였어요?", VOLVO),
    ],
)
def test_a_question_is_about_now_or_about_then(question: str, chosen: str):
    for answers, sessions in (([VOLVO, FIAT], [1, 4]), ([FIAT, VOLVO], [4, 1])):
        assert answers[timely(question, answers, sessions, READING)] == chosen


@pytest.mark.parametrize("question", ["Where did we meet?", "What was the film?", "我去了哪里？", "어디 갔었어요?"])
def test_of_what_happened_the_likeliest_answer_counts(question: str):
    assert timely(question, ["In Rome.", "In Oslo.", "In Bern."], [2, 5, 1], READING) == 0


def test_a_later_answer_without_news_does_not_replace_the_likeliest():
    assert timely("What car do I drive?", ["You drive an old green Volvo.", "You drive a Volvo."], [1, 2], READING) == 0


def test_of_equally_late_answers_the_likelier_one_counts():
    assert timely("Where do I live?", ["In Rome.", "In Oslo.", "In Bern."], [1, 2, 2], READING) == 1


@pytest.mark.parametrize(
    ("question", "answers", "chosen"),
    [
        ("What did I break?", ["You slipped on a peel.", "You broke your ankle.", "Your left ankle."], 1),
        (
            "What did I break?",
            ["You broke a plate.", "You broke your ankle."],
            0,
        ),  # the question's words agree on nothing
        ("What did I break?", ["A plate.", "Petra's foot.", "You broke it, Petra."], 0),  # nor does the asker's name
        ("What did I break?", ["A plate."], 0),
        ("我弄坏了什么？", ["一个盘子。", "你的自行车坏了。", "自行车。"], 1),
    ],
)
def test_an_answer_that_two_passages_give_counts_more(question: str, answers: list[str], chosen: int):
    assert agreed(question, "Petra", answers, READING) == chosen
