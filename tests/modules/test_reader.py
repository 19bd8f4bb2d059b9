"""The reader: one passage at a time, and what becomes of its answers in a reply."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from ld_agent.answering import Answer, Answering
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.checks.learned import StatementCheck
from ld_agent.config import Config
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.memory.quotes import compare, going_on, passages
from ld_agent.modules.base import Models
from ld_agent.modules.generator import Generator
from ld_agent.modules.reader import Reader, agreed, answer_in, holding, timely
from ld_agent.modules.situation import Situation
from ld_agent.steps import run
from ld_agent.types import Utterance

READING = ENGLISH.reading

THEN = datetime(2026, 2, 2, 18, tzinfo=UTC)
ASKED = Utterance("u99", "Maya", "Where does my sister live?", THEN + timedelta(days=20), 9)


def said(number: int, text: str, speaker: str = "Maya", session: int = 1) -> Utterance:
    return Utterance(f"u{number}", speaker, text, THEN + timedelta(minutes=number), session)


TALK = [
    said(1, "My garden has forty roses."),
    said(2, "How lovely!", "Sam"),
    said(3, "My sister moved to Turin last year."),
    said(4, "I sold my violin.", session=2),
]


@pytest.mark.parametrize("text", ["NOT_SAID", "not_said.", "Not said.", "NOT SAID"])
def test_finding_nothing_is_not_an_answer(text: str):
    assert answer_in(text) == ""
    assert answer_in(" She lives in Turin. ") == "She lives in Turin."


def test_a_passage_is_an_utterance_behind_what_led_up_to_it_in_its_session(encoder: SentenceEncoder):
    best, *_ = passages(compare(ASKED, "Sam", TALK, encoder.encode, READING), 2)
    assert [u.id for u in best] == ["u1", "u3"], "the agent's line tells nothing of the person"
    alone = passages(compare(said(5, "Did I sell my violin?"), "Sam", TALK, encoder.encode, READING), 1)
    assert [[u.id for u in one] for one in alone] == [["u4"]]  # another session
    assert passages(compare(ASKED, "Sam", TALK, encoder.encode, READING), 0) == ()
    assert passages(compare(ASKED, "Sam", [], encoder.encode, READING), 3) == ()


def test_a_passage_goes_on_to_what_its_speaker_said_that_ended_it_and_that_in_turn():
    oslo, bath, ghent = said(1, "I live in Oslo."), said(4, "I moved to Bath."), said(7, "I'm in Ghent now.")
    of_agent = said(3, "I moved, too.", "Sam")
    corrections = {"u1": [of_agent, bath], "u4": [ghent]}
    assert going_on([oslo], corrections) == (oslo, bath, ghent)
    assert going_on([oslo, ghent], corrections) == (oslo, ghent, bath)
    assert going_on([bath], {}) == (bath,)


def test_what_the_agent_said_is_no_evidence_about_the_person_but_its_question_shows_what_was_answered(
    encoder: SentenceEncoder,
):
    talk = [
        said(1, "Your sister lives in Rome.", "Sam"),
        said(2, "I love Rome. Does your sister live in Turin?", "Sam"),
        said(3, "Yes, she does."),
    ]
    [passage] = passages(compare(ASKED, "Sam", talk, encoder.encode, READING), 3)
    assert [u.text for u in passage] == ["Does your sister live in Turin?", "Yes, she does."]
    of_agent, *_ = passages(
        compare(replace(ASKED, text="Which city do you love?"), "Sam", talk, encoder.encode, READING), 3
    )
    assert of_agent[-1].text.startswith("I love Rome.")


@pytest.fixture(scope="module")
def check() -> StatementCheck:
    return StatementCheck("shipped:adapters/check")


@pytest.fixture
def ask(config: Callable[..., Config], check: StatementCheck) -> Callable[..., tuple[Answer, ScriptedBackbone]]:
    def alike(texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 2), np.float32) / np.float32(2**0.5)

    def asked(
        reader: Any, generated: str = "I don't know where she lives.", **about: Any
    ) -> tuple[Answer, ScriptedBackbone]:
        backbone = ScriptedBackbone({"generator": generated} | ({"reader": reader} if reader else {}))
        models = Models(config(), backbone)
        generator = Generator(models, "brief")
        situation = Situation(
            **{"agent": "Sam", "heard": ASKED, "passages": ((TALK[0],), tuple(TALK[1:3])), "people": ("Maya",)} | about
        )
        answering = Answering(generator, alike, True, Reader(models), 4, check)
        assert answering.checks(situation)
        situation = replace(situation, asked=True)
        steps = answering.steps(situation, generator.prompt_for(situation))
        return run(steps, models.complete), backbone

    return asked


def turin(request: Request) -> str:
    return "She lives in Turin." if "Turin" in request.messages[-1].content else "NOT_SAID"


def test_the_first_passage_that_says_it_answers_and_the_generator_is_not_asked(ask: Callable[..., Any]):
    answer, backbone = ask(turin)
    assert answer.text == "She lives in Turin."
    assert answer.notes == ("read in: My sister moved to Turin last year.",)
    assert [request.module for request in backbone.requests] == ["reader", "reader"]
    assert "Maya: My sister moved to Turin last year." in backbone.requests[1].messages[-1].content


def test_the_note_names_the_line_that_says_it(ask: Callable[..., Any]):
    known = {"Maya": ("I have a sister in Turin.", "I keep forty hives.", "I sing.")}
    answer, _ = ask(turin, passages=(), traits=known)
    assert answer.notes == ("read in: I have a sister in Turin.",)


def test_the_note_names_a_statement_rather_than_a_question(ask: Callable[..., Any]):
    quiz = [
        said(1, "Quiz: where does my sister live?"),
        said(2, "Your sister lives in Turin.", "Sam"),
        said(3, "What is Turin like?"),
    ]
    answer, _ = ask(turin, passages=(tuple(quiz),))
    assert (answer.text, answer.notes) == ("She lives in Turin.", ("read in: Your sister lives in Turin.",))


def test_where_no_passage_says_it_the_generator_answers(ask: Callable[..., Any]):
    answer, backbone = ask("NOT_SAID")
    assert answer.text == "I don't know where she lives."
    assert [request.module for request in backbone.requests] == ["reader", "reader", "generator"]


def quoted(request: Request) -> str:
    """A reader that answers with the last line of its passage."""
    line = request.messages[-1].content.partition("\n\n")[0].splitlines()[-1]
    return line.partition(": ")[2].replace("My sister", "She")


@pytest.mark.parametrize(
    ("question", "later", "expected"),
    [
        ("Where does my sister live?", said(9, "My sister lives in Oslo.", session=3), "She lives in Oslo."),
        ("Where did my sister live before?", said(9, "My sister lives in Oslo.", session=3), "She lives in Turin."),
        ("Where does my sister live?", said(9, "My sister lives in Oslo."), "She lives in Turin."),  # the same session
        ("Where does my sister live?", said(9, "My sister lives in Oslo.", "Omar", 3), "She lives in Turin."),
    ],
)
def test_what_was_said_later_replaces_what_was_said_before(
    ask: Callable[..., Any], question: str, later: Utterance, expected: str
):
    before = said(3, "My sister lives in Turin.")
    for passages_ in ((before,), (later,)), ((later,), (before,)):
        if passages_[0][0] is later and expected == "She lives in Turin." and "before" not in question:
            continue  # the most relevant passage then stays
        answer, _ = ask(quoted, passages=passages_, heard=replace(ASKED, text=question))
        assert answer.text == expected


def test_what_the_reader_makes_up_is_no_answer(ask: Callable[..., Any]):
    assert ask("She lives in Paris with Ben.")[0].text == "I don't know where she lives."


def test_traits_are_one_more_passage_but_not_those_of_a_document(ask: Callable[..., Any]):
    traits = {"Maya": ("My sister lives in Turin.", "I keep bees."), "Sam": ("I like tea.",)}
    answer, backbone = ask(turin, passages=(), traits=traits)
    assert answer.text == "She lives in Turin."
    assert "I like tea" not in backbone.requests[0].messages[-1].content
    doubted = {("Maya", "My sister lives in Turin."): "document"}
    assert ask(turin, passages=(), traits=traits, doubted=doubted)[0].text == "I don't know where she lives."


def test_a_mechanism_that_decides_in_the_reply_still_gets_its_decision(ask: Callable[..., Any]):
    answer, backbone = ask(turin, decides=True)
    assert answer.text == "She lives in Turin."
    assert backbone.requests[-1].module == "generator"
    assert answer.completion.text == "I don't know where she lives."


def test_a_reader_that_fails_leaves_the_reply_to_the_generator(ask: Callable[..., Any]):
    answer, _ = ask(None)
    assert answer.text == "I don't know where she lives."
    assert any(note.startswith("the reader failed: ") for note in answer.notes)


VOLVO, FIAT = "You drive an old Volvo.", "You drive a Fiat."
CITIES = ["In Rome.", "In Oslo.", "In Bern."]


@pytest.mark.parametrize(
    ("question", "answers", "sessions", "chosen"),
    [
        *(
            (question, answers, sessions, chosen)
            for answers, sessions in (([VOLVO, FIAT], [1, 4]), ([FIAT, VOLVO], [4, 1]))
            for question, chosen in (
                ("What car do I drive?", FIAT),
                ("How old is my car?", FIAT),  # this "old" asks for no former car
                ("What car did I drive before?", VOLVO),
                ("What was my old car?", VOLVO),
                ("我以前开什么车？", VOLVO),
                ("예전에 제 차가 뭐였어요?", VOLVO),
            )
        ),
        # of what happened, the likeliest answer counts
        ("Where did we meet?", CITIES, [2, 5, 1], "In Rome."),
        ("What was the film?", CITIES, [2, 5, 1], "In Rome."),
        ("我去了哪里？", CITIES, [2, 5, 1], "In Rome."),
        ("어디 갔었어요?", CITIES, [2, 5, 1], "In Rome."),
        ("Where do I live?", CITIES, [1, 2, 2], "In Oslo."),  # of equally late ones the likelier
        ("What car do I drive?", ["You drive an old Volvo.", "You drive a Volvo."], [1, 2], VOLVO),  # without news
    ],
)
def test_a_question_is_about_now_or_about_then(question: str, answers: list[str], sessions: list[int], chosen: str):
    assert answers[timely(question, answers, sessions, READING)] == chosen


@pytest.mark.parametrize(
    ("question", "ended", "held"),
    [
        ("Where do I live?", ["I just moved to Rome.", ""], ["In Oslo."]),
        ("Where did I live before?", ["I just moved to Rome.", ""], ["In Rome."]),
        ("Where did I live before?", ["", ""], ["In Rome.", "In Oslo."]),
        ("Where did we meet?", ["I just moved to Rome.", ""], ["In Rome.", "In Oslo."]),
        ("Where do I live?", ["I keep bees.", ""], ["In Rome.", "In Oslo."]),  # of that line something else has ended
        ("Where do I live?", ["I live in Rome.", "I live in Oslo."], ["In Rome.", "In Oslo."]),
    ],
)
def test_of_what_is_an_answer_that_has_ended_does_not_count(question: str, ended: list[str], held: list[str]):
    answers, told = CITIES[:2], [(what, True) for what in ended]
    assert [answers[n] for n in holding(question, "Maya", answers, told, READING)] == held


def test_an_answer_that_never_held_does_not_count_when_it_is_asked_what_was():
    answers, told = CITIES[:2], [("I was born in Rome.", False), ("", True)]
    assert [answers[n] for n in holding("Where was I born?", "Maya", answers, told, READING)] == ["In Oslo."]


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
        ("我弄坏了什么？", ["一个盘子。", "你的自行车坏了。", "自行车。"], 1),
    ],
)
def test_an_answer_that_two_passages_give_counts_more(question: str, answers: list[str], chosen: int):
    assert agreed(question, "Petra", answers, READING) == chosen
