"""Clauses of summaries, and whose they are."""

from __future__ import annotations

import pytest

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.modules.subjects import clauses, corrected, statements

LINES = [
    ("Mira", "I started a new job as a marine biologist. My sister Jo lives in Lisbon."),
    ("Sam", "How exciting! Do you dive with sharks?"),
    ("Mira", "Not yet. What about you?"),
    ("Sam", "I repair old motorbikes in my garage, mostly Italian ones."),
]


def test_a_clause_ends_where_another_subject_begins():
    found = clauses("Ann keeps bees in Rome while Ben's dog sleeps. He snores.", ["Ann", "Ben"])
    assert [(c.subject, c.text) for c in found] == [
        ("Ann", "Ann keeps bees in Rome while"),
        ("Ben", "Ben's dog sleeps."),
    ]


@pytest.mark.parametrize(
    ("summary", "right"),
    [
        ("Sam has a new job as a marine biologist.", "Mira has a new job as a marine biologist."),
        (
            "Sam's sister lives in Lisbon. Mira repairs old motorbikes.",
            "Mira's sister lives in Lisbon. Sam repairs old motorbikes.",
        ),
        (
            "Mira works now.  She repairs old motorbikes in the garage.",
            "Mira works now.  Sam repairs old motorbikes in the garage.",
        ),
        ("Sam is here. His sister lives in Lisbon.", "Sam is here. Mira's sister lives in Lisbon."),
        (
            "Mira and Sam talk about marine biologists and motorbikes.",
            "Mira and Sam talk about marine biologists and motorbikes.",
        ),
        ("Mira dives with sharks.", "Mira dives with sharks."),
        ("", ""),
    ],
)
def test_a_clause_is_given_to_whoever_said_it_of_themselves(summary: str, right: str, encoder: SentenceEncoder):
    assert corrected(summary, LINES, encoder.encode) == right


def test_of_a_day_of_talk_the_statements_are_read_that_share_words_with_the_summary(encoder: SentenceEncoder):
    encoded: list[str] = []

    def encode(texts):
        encoded.extend(texts)
        return encoder.encode(texts)

    lines = [*(("Sam", f"I saw {n} ships.") for n in range(2000)), *LINES]
    right = "Mira has a new job as a marine biologist."
    assert corrected("Sam has a new job as a marine biologist.", lines, encode) == right
    assert len(encoded) <= 601


def test_statements_leave_out_questions_and_what_is_said_of_the_other():
    assert statements([("Ann", "You have a dog! I have a cat. Do you sail?"), ("Ben", "Not me.")]) == [
        ("Ann", "I have a cat."),
        ("Ben", "Not me."),
    ]


def test_a_question_states_what_its_speaker_says_of_themselves_and_doubts_about_you_nothing():
    lines = [
        ("Ann", "I like country music, do you like it? Should we meet and can I call you?"),
        ("Ben", "I'm sure you are a great nurse. I'm glad you came."),
    ]
    assert statements(lines) == [("Ann", "I like country music"), ("Ann", "Should we meet")]
