"""Whom a question names, and what tells of that person."""

from datetime import UTC, datetime

import pytest

from ld_agent.checks.statements import asked_about, asks_of, names, part_about, tells_of
from ld_agent.languages import ENGLISH
from ld_agent.types import Utterance

READING = ENGLISH.reading
AT = datetime(2024, 5, 1, tzinfo=UTC)


def said(text: str, speaker: str = "Ann") -> Utterance:
    return Utterance("u1", speaker, text, AT, 1)


@pytest.mark.parametrize(
    ("question", "person"),
    [
        ("What does Ben play?", "Ben"),
        ("Where is Ben's violin?", "Ben"),
        ("What does Benjamin play?", ""),
        ("What do Ann and Ben play?", ""),
        ("What do I play with Ben?", ""),
        ("What did Ben tell you?", ""),
        ("Who plays the violin?", ""),
        ("小雨养了什么？", "小雨"),
    ],
)
def test_the_one_person_whom_a_question_names(question: str, person: str):
    assert asked_about(question, ["Ann", "Ben", "小雨"], READING) == person


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ben plays the violin.", True),
        ("That's Ben's violin.", True),
        ("Thanks, Ben! I play too.", False),
        ("I play.", False),
    ],
)
def test_being_addressed_is_not_being_told_of(text: str, told: bool):
    assert names("Ben", text) is told
    assert tells_of("Ben", said(text)) is told
    assert tells_of("Ann", said(text))
    assert tells_of("", said(text))


def test_of_what_others_say_their_questions_stay():
    assert part_about("Ben", said("I play the violin. Do you play?")) == said("Do you play?")
    assert part_about("Ben", said("I play the violin.")) is None
    assert part_about("Ann", said("I play the violin.")) == said("I play the violin.")


@pytest.mark.parametrize(
    ("text", "of_them"),
    [
        ("Would Ben like a theme park?", True),
        ("How do Ann and Ben know each other?", True),
        ("How old is Ben?", True),
        ("What is Ben's job?", True),
        ("Thanks, Ben! How was it?", False),
        ("Ben is it raining?", False),
        ("Is it true, Ben?", False),
        ("Is Ben Affleck married?", False),
        ("Ben plays the violin.", False),
        ("Do you know Ben?", False),
        ("Where did I meet Ben?", False),
        ("Who plays the violin?", False),
        ("小雨养了什么？", True),
    ],
)
def test_a_question_about_people_names_them_and_nobody_else(text: str, of_them: bool):
    assert asks_of(["Ann", "Ben", "小雨"], text, READING) is of_them
