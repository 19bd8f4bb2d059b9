"""Clauses of summaries that stand with the wrong person."""

from __future__ import annotations

import pytest

from ld_agent.evaluation.support import judged

LINES = [
    ("Mira", "I started a new job as a marine biologist. My sister Jo lives in Lisbon."),
    ("Sam", "How exciting! Do you dive with sharks?"),
    ("Mira", "Not yet. What about you?"),
    ("Sam", "I repair old motorbikes in my garage, mostly Italian ones."),
]


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        ("Mira has a new job as a marine biologist.", [False]),
        ("Sam has a new job as a marine biologist.", [True]),
        ("Mira has a sister who lives in Lisbon, and Sam repairs old motorbikes.", [False, False]),
        ("Sam's sister lives in Lisbon. Mira repairs old motorbikes.", [True, True]),
        ("Mira works now. She repairs old motorbikes in the garage.", [True]),
        ("Mira dives with sharks.", []),  # asked of her, said by nobody of themselves
        ("Mira and Sam talk about marine biologists and motorbikes.", []),  # both are the subject
        ("Sam asks Mira about her job as a marine biologist.", []),  # about the other
        ("Sam praised the new job as a marine biologist.", []),
        ("They have a sister in Lisbon.", []),
        ("Mira is happy.", []),
        ("", []),
    ],
)
def test_a_clause_belongs_to_who_said_it_about_themselves(summary: str, wrong: list[bool]):
    assert [clause.wrong for clause in judged(summary, LINES)] == wrong
