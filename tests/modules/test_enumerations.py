"""Sentences that list what one person does."""

from __future__ import annotations

import pytest

from ld_agent.checks.enumerations import folded, unfolded, with_subject
from ld_agent.languages import ENGLISH

NAMES = ["Ann", "Ben"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Ann keeps bees.", [["Ann keeps bees."]]),
        ("Ann owns bees, has a son and doesn't sail.", [["Ann owns bees.", "Ann has a son.", "Ann doesn't sail."]]),
        ("Ben likes cats, dogs and birds and has a car.", [["Ben likes cats, dogs and birds.", "Ben has a car."]]),
        ("Ann is here. Ben sails and is old!", [["Ann is here."], ["Ben sails and is old!"]]),  # no verb it knows
        ("Ann and Ben have a son and are old.", [["Ann and Ben have a son and are old."]]),
        ("Ann likes Ben and has a son.", [["Ann likes Ben and has a son."]]),  # of two people
        ("Ann has a son who sings and is old.", [["Ann has a son who sings and is old."]]),
        ("", [[""]]),
    ],
)
def test_a_sentence_is_split_into_what_it_lists(text: str, items: list[list[str]]):
    assert unfolded(text, NAMES, ENGLISH.rules.clauses) == items


def test_items_become_a_sentence_a_person():
    assert (
        folded(["Ann is old.", "Ben has a son.", "Ann sings."], NAMES, ENGLISH.rules.clauses)
        == "Ann is old and sings. Ben has a son."
    )


@pytest.mark.parametrize(
    ("sentence", "whole"),
    [
        ("Owns a jeep, works in Leeds.", "Ann owns a jeep, works in Leeds."),
        ("He is from York.", "Ann is from York."),
        ("Ben has a son.", "Ben has a son."),
        ("Three sons.", "Three sons."),
        ("His dog is old.", "His dog is old."),
    ],
)
def test_a_sentence_from_under_a_name_gets_it_as_its_subject(sentence: str, whole: str):
    assert with_subject(sentence, "Ann", NAMES, ENGLISH.rules.clauses) == whole
    assert with_subject(sentence, "", NAMES, ENGLISH.rules.clauses) == sentence
