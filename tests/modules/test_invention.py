"""Names and numbers that a reply makes up."""

from __future__ import annotations

import pytest

from ld_agent.modules.invention import asks_of_oneself, made_up

SHOWN = "What you remember: Maya has 3 goats and lives in Oslo with Tom.\nHow many goats do I keep?"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("You keep three goats.", []),
        ("You keep 3 goats, and Tom helps.", []),
        ("You keep twelve goats with Anna.", ["twelve", "Anna"]),
        ("Your dog is called Rex. Rex is 5.", ["Rex", "5"]),
        ("You haven't told me. Is it Rex?", []),
        ("Oslo's goats are lovely.", []),
        ("", []),
    ],
)
def test_names_and_numbers_that_nothing_shows_are_made_up(reply: str, words: list[str]):
    assert made_up(reply, SHOWN) == words


@pytest.mark.parametrize(
    ("text", "asks"),
    [("What's my dog called?", True), ("I have a dog.", False), ("How are you?", False), ("Where did we meet?", True)],
)
def test_a_question_about_its_speaker(text: str, asks: bool):
    assert asks_of_oneself(text) == asks
