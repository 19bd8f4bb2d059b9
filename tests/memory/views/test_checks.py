"""Which statements of a model a dialogue supports, and what becomes of the others."""

from typing import Any

import pytest

from ld_agent.checks.learned import StatementCheck
from ld_agent.languages import ENGLISH, language
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.views.checks import Checked, checked, checked_facts, supported_note, supported_situation

LINES = [
    ("Maya", "I sold my violin last week."),
    ("Sam", "Oh no! Do you play anything else?"),
    ("Maya", "The trumpet, in a band. Do you like horses?"),
    ("Sam", "I love horses! I bought 2 of them. You must be sad about the violin."),
    ("Maya", "A little, but I don't have a boat. The band rehearses in Ghent on Mondays."),
]


@pytest.mark.parametrize(
    ("text", "left", "dropped"),
    [
        ("Maya sold her violin.", "Maya sold her violin.", 0),
        ("Maya plays the trumpet.", "Maya plays the trumpet.", 0),  # it answers Sam's question
        ("Maya likes horses.", "", 1),  # she only asked
        ("Sam is sad about the violin.", "", 1),  # he says it of Maya
        ("Maya sold her violin. She is a nurse.", "Maya sold her violin.", 1),
        (
            "Maya sold her violin, lives in Rome and plays the trumpet.",
            "Maya sold her violin and plays the trumpet.",
            1,
        ),
        ("Sam bought 2 horses.", "Sam bought 2 horses.", 0),
        ("Sam bought 3 horses.", "", 1),
        ("Sam owns 2 horses.", "Sam owns 2 horses.", 0),
        ("Maya owns horses.", "", 1),
        ("Maya has a boat.", "", 1),  # she denied it
        ("Maya doesn't have a boat.", "Maya doesn't have a boat.", 0),
        ("Maya doesn't rehearse in Ghent on Mondays.", "", 1),
        ("Maya and Sam talk about horses and a band.", "Maya and Sam talk about horses and a band.", 0),
        ("Maya and Sam talk about a wedding.", "", 1),
        ("Maya and Sam talk.", "", 1),  # of nothing
    ],
)
def test_what_a_dialogue_supports_of_a_text(text: str, left: str, dropped: int):
    result = checked(text, LINES, ENGLISH)
    assert (result.text, result.dropped) == (left, dropped)


def test_a_sentence_without_a_name_is_about_the_person_before_or_the_one_given():
    assert checked("Sam loves horses. He sold a violin.", LINES, ENGLISH).text == "Sam loves horses."
    assert checked("Sold a violin.", LINES, ENGLISH, about="Maya") == Checked("Sold a violin.", 0)
    assert checked("Sold a violin.", LINES, ENGLISH, about="Sam") == Checked("", 1)


def test_a_text_about_one_person_alone_has_no_statements_about_others():
    text = "Sam loves horses. Maya sold her violin. Maya and Sam talk about a band."
    left = checked(text, LINES, ENGLISH, about="Maya", alone=True)
    assert left == Checked("Maya sold her violin. Maya and Sam talk about a band.", 1)


def test_the_wrong_person_is_corrected_before_anything_is_dropped(encoder: SentenceEncoder):
    assert checked("Maya loves horses.", LINES, ENGLISH).text == ""
    assert checked("Maya loves horses.", LINES, ENGLISH, encoder.encode).text == "Sam loves horses."


def test_a_corrected_fact_is_filed_under_whoever_said_it(encoder: SentenceEncoder):
    facts = {"Maya": ["Maya loves horses.", "Maya sold her violin.", "is a nurse"], "": ["Ann lives in York."]}
    kept, dropped = checked_facts(facts, LINES, ENGLISH, encoder.encode)
    assert kept == {"Sam": ["Sam loves horses."], "Maya": ["Maya sold her violin."]}
    assert dropped == 2


def test_a_list_under_a_name_is_checked_item_by_item(encoder: SentenceEncoder):
    facts = {"Maya": ["Is a nurse, sold her violin, likes the sea."]}
    assert checked_facts(facts, LINES, ENGLISH, encoder.encode) == ({"Maya": ["Maya sold her violin."]}, 2)


def test_facts_of_one_memory_are_encoded_once():
    asked: list[str] = []

    def encode(texts: Any) -> Any:
        import numpy as np

        asked.extend(texts)
        return np.eye(64, dtype=np.float32)[[len(text) % 64 for text in texts]]

    checked_facts({"Maya": ["Maya sold her violin.", "Maya plays the trumpet."]}, LINES, ENGLISH, encode)
    assert len(asked) == len(set(asked)) > 0


@pytest.mark.parametrize(
    ("code", "text", "lines", "left"),
    [
        ("zh", "小雨养了一只狗。小雨是护士。", [("小雨", "我养了一只狗。"), ("阿明", "真好！")], "小雨养了一只狗。"),
        (
            "ko",
            "지민은 강아지를 키운다. 지민은 간호사다.",
            [("지민", "저는 강아지를 키워요."), ("샘", "좋네요!")],
            "지민은 강아지를 키운다.",
        ),
    ],
)
def test_other_languages_are_checked_too(code: str, text: str, lines: list[tuple[str, str]], left: str):
    assert checked(text, lines, language(code)).text == left


def test_a_situation_rests_on_the_last_lines():
    assert supported_situation("Maya tells where her band rehearses.", LINES, ENGLISH)
    assert supported_situation("Sam asks Maya about the instruments that the band plays.", LINES[:3], ENGLISH)
    assert not supported_situation("Maya asks about Sam's origin.", LINES, ENGLISH), "names alone are not enough"
    assert not supported_situation(
        "Maya sold a violin last week.", [*LINES, ("Sam", "Nice."), ("Maya", "Bye!")][3:], ENGLISH
    )


def test_a_learned_check_replaces_the_words():
    check = StatementCheck("shipped:adapters/check")
    lines = [("Maya", "My manager is afraid of dogs.")]
    text = "Maya's manager is afraid of dogs. Maya is afraid of dogs."
    assert checked(text, lines, ENGLISH).dropped == 0  # she said these words
    assert checked(text, lines, ENGLISH, check=check) == Checked("Maya's manager is afraid of dogs.", 1)
    note = supported_note(text, ["My manager is afraid of dogs."], "", ["Maya", "Sam"], ENGLISH, check)
    assert note == "Maya's manager is afraid of dogs."
