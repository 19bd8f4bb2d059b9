"""What a sentence does: tell of its speaker, only ask, or deny knowing; in every language at once."""

import pytest

from ld_agent.checks.statements import (
    asks_for_facts,
    only_asks,
    only_denies,
    says_unknown,
    sentences_of,
    speaks_of_self,
    stated,
)
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading


@pytest.mark.parametrize(
    ("sentence", "own"),
    [
        ("My son Jakob is four.", True),
        ("Your son Jakob must be four by now!", False),
        ("I hope your son is well.", False),
        ("Do you have a dog?", False),
        ("I'm new to this, could you help?", True),
        ("Could you tell me more?", False),
        ("我也喜欢爬山。", True),
        ("你的儿子四岁了！", False),
        ("저는 아들이 있어요.", True),
        ("당신의 아들은 네 살이군요.", False),
    ],
)
def test_whom_a_sentence_tells_of(sentence: str, own: bool):
    assert speaks_of_self(sentence, READING) is own


@pytest.mark.parametrize(
    "text",
    [
        "I work for Dr. Miller in Leeds.| She is kind.",
        "my dentist is dr. who, really.| No!",
        "So do I.| My dog is called Mr. Tibbs.",
        "I live on St. Mary's Road, e.g. above J. R. Smith.",
        "Yes.| No.| I said so.",
    ],
)
def test_a_title_or_an_initial_ends_no_sentence(text: str):
    assert sentences_of(text.replace("|", "")) == text.split("| ")


def test_what_people_state_are_not_their_questions_nor_what_they_say_of_the_other():
    lines = [
        ("Ann", "I sold my boat. Do you sail? You must love Ghent."),
        ("Sam", "Rain again. I'm off, will you call?"),
    ]
    assert stated(lines, READING) == [
        ("Ann", "I sold my boat."),
        ("Sam", "Rain again."),
        ("Sam", "I'm off, will you call?"),
    ]


def test_only_questions_that_tell_nothing_only_ask():
    assert only_asks("How are you? And the dog?", READING)
    assert not only_asks("I'm fine. How are you?", READING)
    assert not only_asks("", READING)


@pytest.mark.parametrize(
    ("text", "facts"),
    [("Is the sea salty?", True), ("How are you?", False), ("Do you know where I work?", True), ("It is.", False)],
)
def test_a_question_about_something_else_than_the_hearer_asks_for_facts(text: str, facts: bool):
    assert asks_for_facts(text, READING) is facts


@pytest.mark.parametrize(
    ("reply", "unknown"),
    [
        ("I don't think you've told me that.", True),
        ("You never mentioned a brother.", True),
        ("I have no idea.", True),
        ("Your brother lives in Rome.", False),
        ("你没有告诉过我。", True),
        ("他住在罗马。", False),
        ("말씀해 주신 적이 없어요.", True),
        ("로마에 살아요.", False),
    ],
)
def test_a_denial_of_knowing(reply: str, unknown: bool):
    assert says_unknown(reply, READING) is unknown


@pytest.mark.parametrize(
    ("reply", "only"),
    [
        ("I don't know.", True),
        ("Sorry, I don't know where you parked. Would you tell me?", True),
        ("I'm not sure, you never told me the gallery's name.", True),
        ("I don't know, but I can tell you that it's a Rolex.", False),
        ("I'm not sure. Maybe I'll try the violin.", False),
        ("我不知道，但是他住在罗马的一个小房子里。", False),
        ("He lives in Rome.", False),
    ],
)
def test_a_denial_that_claims_nothing_else(reply: str, only: bool):
    assert only_denies(reply, READING) is only
