"""Which statements of a model a dialogue supports, and what becomes of the others."""

import pytest

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.checks.kept import Checked
from ld_agent.checks.learned import StatementCheck
from ld_agent.config import load_config
from ld_agent.languages import ENGLISH, language
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views.checks import checked, checked_facts, supported_note, supported_situation

READING = ENGLISH.reading
LINES = [
    ("Maya", "I sold my violin last week."),
    ("Sam", "Oh no! Do you play anything else?"),
    ("Maya", "The trumpet, in a band. Do you like horses?"),
    ("Sam", "I love horses! I bought 2 of them. You must be sad about the violin."),
    ("Maya", "A little, but I don't have a boat. The band rehearses in Ghent on Mondays."),
]


@pytest.fixture(scope="module")
def check() -> StatementCheck:
    return StatementCheck("shipped:adapters/check")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Maya sold her violin.", "Maya sold her violin."),
        ("Maya plays the trumpet.", "Maya plays the trumpet."),  # it answers Sam's question
        ("Maya sold her violin. She is a nurse.", "Maya sold her violin."),
        ("Maya and Sam talk about horses and a band.", "Maya and Sam talk about horses and a band."),
        ("Maya and Sam talk about a wedding.", ""),
        ("Maya and Sam talk.", ""),  # of nothing
        ("小雨养了一只狗。小雨是护士。", ""),
    ],
)
def test_without_a_check_most_of_a_sentences_words_must_have_been_said(text: str, left: str):
    assert checked(text, LINES, READING).text == left


@pytest.mark.parametrize(
    ("code", "text", "line", "left"),
    [
        ("zh", "小雨养了一只狗。小雨是护士。", ("小雨", "我养了一只狗。"), "小雨养了一只狗。"),
        (
            "ko",
            "지민은 강아지를 키워요. 지민은 간호사다.",
            ("지민", "저는 강아지를 키워요."),
            "지민은 강아지를 키워요.",
        ),
    ],
)
def test_so_must_those_of_other_languages(code: str, text: str, line: tuple[str, str], left: str):
    assert checked(text, [line], language(code).reading).text == left


@pytest.mark.parametrize(
    ("text", "left", "dropped"),
    [
        ("Maya sold her violin. Maya is a nurse.", "Maya sold her violin.", 1),
        ("Maya loves horses.", "", 1),  # Sam does
        ("Sam bought 2 horses.", "Sam bought 2 horses.", 0),
        ("Maya has a boat.", "", 1),  # she denied it
    ],
)
def test_the_learned_check_judges_who_and_what(check: StatementCheck, text: str, left: str, dropped: int):
    assert checked(text, LINES, READING, check) == Checked(left, dropped)


def test_a_sentence_without_a_name_is_about_the_person_before_or_the_one_given(check: StatementCheck):
    assert checked("Sam loves horses. Is a nurse.", LINES, READING, check).text == "Sam loves horses."
    assert checked("Loves horses.", LINES, READING, check, about="Sam") == Checked("Loves horses.", 0)
    assert checked("Loves horses.", LINES, READING, check, about="Maya") == Checked("", 1)


def test_a_text_about_one_person_alone_has_no_statements_about_others():
    text = "Sam loves horses. Maya sold her violin. Maya and Sam talk about a band."
    left = checked(text, LINES, READING, about="Maya", alone=True)
    assert left == Checked("Maya sold her violin. Maya and Sam talk about a band.", 1)


def test_facts_stay_under_the_name_of_whoever_they_are_about(check: StatementCheck):
    facts = {"Maya": ["Maya loves horses.", "Sold her violin.", "is a nurse"], "": ["Ann lives in York."]}
    assert checked_facts(facts, LINES, READING, check) == ({"Maya": ["Sold her violin."]}, 3)


def test_a_situation_rests_on_the_last_lines():
    assert supported_situation("Maya tells where her band rehearses.", LINES, READING)
    assert supported_situation("Sam asks Maya about the instruments that the band plays.", LINES[:3], READING)
    assert not supported_situation("Maya asks about Sam's origin.", LINES, READING), "names alone are not enough"
    later = [*LINES, ("Sam", "Nice."), ("Maya", "Bye!")][3:]
    assert not supported_situation("Maya sold a violin last week.", later, READING)


def test_a_note_says_no_more_than_its_author(check: StatementCheck):
    lines = [("Maya", "My manager is afraid of dogs.")]
    written = "Maya's manager is afraid of dogs. Maya is afraid of dogs."
    assert supported_note(written, lines, ["Maya", "Sam"], READING) == written, "she said these words"
    assert supported_note(written, lines, ["Maya", "Sam"], READING, check) == "Maya's manager is afraid of dogs."
    assert supported_note("Sam sails.", [("Maya", "I sail.")], ["Maya", "Sam"], READING, check) == "Maya sails."


def test_without_a_check_a_note_has_no_number_of_its_own_and_not_only_what_was_asked():
    names, moved = ["Maya", "Sam"], [("Maya", "I moved to Rome with my dog Biscuit.")]
    asked = [("Sam", "Do you have a big boat?"), ("Maya", "No, a kayak.")]
    assert (
        supported_note("Maya moved to Rome with her dog.", moved, names, READING) == "Maya moved to Rome with her dog."
    )
    assert supported_note("Maya moved to Rome in 1987 with her dog Biscuit.", moved, names, READING) == ""
    assert supported_note("Maya has a big boat.", asked, names, READING) == ""


def test_a_model_that_follows_instructions_chooses_among_peoples_own_words(
    encoder: SentenceEncoder, topics: TopicExtractor
):
    config = load_config("instructed", ["store.path=':memory:'"])
    backbone = ScriptedBackbone({"extractor": "I live in Ghent.", "summarizer": "Maya sold her house."})
    with Agent(config, backbone=backbone, encoder=encoder, topics=topics) as agent:
        talk = agent.conversation("maya")
        talk.observe("I live in Ghent, near the harbour.", "Maya")
        talk.end_session()
        assert "summarizer" not in {request.module for request in backbone.requests}
        assert "Maya: I live in Ghent, near the harbour." in talk.records[0].text
        assert [trait.text for trait in talk.persona("Maya")] == ["I live in Ghent, near the harbour."]
