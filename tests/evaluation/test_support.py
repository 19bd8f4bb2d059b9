"""Whether statements of a memory rest on the dialogue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ld_agent.evaluation.support import rests_on, statements
from ld_agent.types import Record

LINES = [
    ("Mira", "I started a new job as a marine biologist. My sister Jo lives in Lisbon."),
    ("Sam", "How exciting! Do you dive with sharks?"),
    ("Mira", "Not yet."),
    ("Sam", "Soon, I hope?"),
    ("Mira", "In May. What about you?"),
    ("Sam", "I repair old motorbikes in my garage, 3 Italian ones."),
    ("Mira", "Lovely."),
    ("Sam", "See you!"),
]


@pytest.mark.parametrize(
    ("statement", "rests"),
    [
        ("Mira has a new job as a marine biologist.", True),
        ("Mira's sister Jo lives in Lisbon.", True),
        ("Sam repairs 3 old motorbikes.", True),
        ("Sam asks Mira about sharks.", True),
        ("Sam repairs 4 old motorbikes.", False),  # no such number
        ("Mira repairs old motorbikes.", False),  # it is Sam who does
        ("Mira's sister Ann lives in Lisbon.", False),  # no such name
        ("Mira studies fish at a university.", False),  # hardly a word of it
        ("Mira's garage is in Lisbon.", False),  # said apart
        ("Mira and Sam talk about sharks, motorbikes and a sister.", True),  # each thing was said
        ("Mira and Sam talk about sharks, motorbikes and a wedding.", False),
    ],
)
def test_a_statement_rests_on_what_was_said_close_together(statement: str, rests: bool):
    assert rests_on(statement, LINES) is rests


def test_a_statement_may_name_the_months_of_the_dialogue():
    dated = "In May 2024, Sam repairs 3 old motorbikes."
    assert not rests_on(dated, LINES)
    assert rests_on(dated, LINES, "2024 May")
    assert not rests_on(dated, LINES, "2023 May")


def record(**values) -> Record:
    known = {"text": "Ann keeps bees and has a son.", "details": {}} | values
    return Record(id=1, view="events", session=1, at=datetime(2024, 1, 1, tzinfo=UTC), **known)


def test_the_statements_of_a_record_are_what_a_model_wrote():
    names = ["Ann", "Ben"]
    assert statements(record(), names) == ["Ann keeps bees.", "Ann has a son."]
    assert statements(record(fallback=True), names) == []
    assert statements(record(details={"facts": {"Ann": ["Ann sails.", "has a dog"]}}), names) == [
        "Ann sails.",
        "Ann: has a dog",
    ]
    said = record(text="bees: Ann keeps bees.\nAnn: I do.", details={"topic": "bees", "summary": "Ann keeps bees."})
    assert statements(said, names) == ["Ann keeps bees."]
