"""Clauses of summaries, whose they are, and sentences that list what one person does."""

from collections.abc import Sequence
from copy import copy

import numpy as np
import pytest
from numpy.typing import NDArray

from ld_agent.checks.enumerations import unfolded
from ld_agent.checks.subjects import clauses, corrected, statements
from ld_agent.languages import ENGLISH, language
from ld_agent.languages.rules import Clauses
from ld_agent.memory.encoder import SentenceEncoder

LINES = [
    ("Mira", "I started a new job as a marine biologist. My sister Jo lives in Lisbon."),
    ("Sam", "How exciting! Do you dive with sharks?"),
    ("Mira", "Not yet. What about you?"),
    ("Sam", "I repair old motorbikes in my garage, mostly Italian ones."),
]


def test_a_clause_ends_where_another_subject_begins():
    found = clauses("Ann keeps bees in Rome while Ben's dog sleeps. He snores.", ["Ann", "Ben"], ENGLISH.rules.clauses)
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
        (
            "Mira is kind, works as a marine biologist and has old motorbikes in a garage.",
            "Mira is kind and works as a marine biologist. Sam has old motorbikes in a garage.",
        ),
    ],
)
def test_a_clause_is_given_to_whoever_said_it_of_themselves(summary: str, right: str, encoder: SentenceEncoder):
    assert corrected(summary, LINES, encoder.encode, ENGLISH) == right


def test_of_a_day_of_talk_the_statements_are_read_that_share_words_with_the_summary(encoder: SentenceEncoder):
    encoded: list[str] = []

    def encode(texts):
        encoded.extend(texts)
        return encoder.encode(texts)

    lines = [*(("Sam", f"I saw {n} ships.") for n in range(2000)), *LINES]
    right = "Mira has a new job as a marine biologist."
    assert corrected("Sam has a new job as a marine biologist.", lines, encode, ENGLISH) == right
    assert len(encoded) <= 601


def test_statements_leave_out_questions_and_what_is_said_of_the_other():
    assert statements([("Ann", "You have a dog! I have a cat. Do you sail?"), ("Ben", "Not me.")], ENGLISH) == [
        ("Ann", "I have a cat."),
        ("Ben", "Not me."),
    ]


def test_a_question_states_what_its_speaker_says_of_themselves_and_doubts_about_you_nothing():
    lines = [
        ("Ann", "I like country music, do you like it? Should we meet and can I call you?"),
        ("Ben", "I'm sure you are a great nurse. I'm glad you came."),
    ]
    assert statements(lines, ENGLISH) == [("Ann", "I like country music"), ("Ann", "Should we meet")]


def by_words_alone(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.zeros((len(texts), 1), np.float32)


SAID = {
    "zh": [
        ("小红", "我刚开始在海洋馆当饲养员。我妹妹住在里斯本。"),
        ("阿明", "真棒！你会和鲨鱼一起潜水吗？"),
        ("阿明", "我在车库里修旧摩托车，大多是意大利的。"),
    ],
    "ko": [
        ("민지", "저는 수족관에서 사육사로 일하기 시작했어요. 제 여동생은 리스본에 살아요."),
        ("준호", "멋지네요! 상어랑 잠수도 하세요?"),
        ("준호", "저는 차고에서 오래된 오토바이를 고쳐요."),
    ],
}


@pytest.mark.parametrize(
    ("code", "summary", "right"),
    [
        ("zh", "阿明在海洋馆当饲养员，小红在车库里修旧摩托车。", "小红在海洋馆当饲养员，阿明在车库里修旧摩托车。"),
        ("zh", "阿明的妹妹住在里斯本。", "小红的妹妹住在里斯本。"),
        ("zh", "小红来了。她在车库里修旧摩托车。", "小红来了。阿明在车库里修旧摩托车。"),
        ("zh", "小红和阿明谈到海洋馆和旧摩托车。", "小红和阿明谈到海洋馆和旧摩托车。"),
        ("zh", "小红称赞旧摩托车。", "小红称赞旧摩托车。"),
        ("ko", "준호는 수족관에서 사육사로 일하고, 민지는 차고에서 오래된 오토바이를 고쳐요.",
         "민지는 수족관에서 사육사로 일하고, 준호는 차고에서 오래된 오토바이를 고쳐요."),
        ("ko", "준호의 여동생은 리스본에 살아요.", "민지의 여동생은 리스본에 살아요."),
        ("ko", "민지와 준호는 수족관과 오토바이 이야기를 했다.", "민지와 준호는 수족관과 오토바이 이야기를 했다."),
    ],
)  # fmt: skip
def test_a_clause_in_another_language_is_given_to_whoever_said_it(code: str, summary: str, right: str):
    assert corrected(summary, SAID[code], by_words_alone, language(code)) == right


@pytest.mark.parametrize(
    ("summary", "right"),
    [
        ("준호는 수족관에서 사육사로 일해요.", "서준은 수족관에서 사육사로 일해요."),
        ("서준이는 차고에서 오래된 오토바이를 고쳐요.", "준호는 차고에서 오래된 오토바이를 고쳐요."),
        ("서준이 차고에서 오래된 오토바이를 고쳐요.", "준호가 차고에서 오래된 오토바이를 고쳐요."),
    ],
)
def test_korean_particles_agree_with_the_name_that_is_put_in(summary: str, right: str):
    said = [("서준" if name == "민지" else name, text) for name, text in SAID["ko"]]

    assert corrected(summary, said, by_words_alone, language("ko")) == right


def test_rules_that_a_language_leaves_out_find_nothing():
    rules = Clauses(
        start="", part="", joins="", possessive="", pronoun="", others="", of_another="", first_person=("", "")
    )
    found = clauses("Ann keeps bees, and Ben sleeps. He snores.", ["Ann", "Ben"], rules)
    assert [c.subject for c in found] == []
    assert [c.text for c in clauses("Ann keeps bees. She sleeps.", ["Ann", "Ben"], rules)] == ["Ann keeps bees."]
    bare = copy(ENGLISH)
    bare.rules = ENGLISH.rules.model_copy(update={"clauses": rules})
    assert statements([("Ann", "I sail, do you?")], bare) == []


NAMES = ["Ann", "Ben"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Ann owns bees, has a son and doesn't sail.", [["Ann owns bees.", "Ann has a son.", "Ann doesn't sail."]]),
        ("Ben likes cats, dogs and birds and has a car.", [["Ben likes cats, dogs and birds.", "Ben has a car."]]),
        ("Ann is here. Ben sails and is old!", [["Ann is here."], ["Ben sails and is old!"]]),  # no verb it knows
        ("Ann and Ben have a son and are old.", [["Ann and Ben have a son and are old."]]),
        ("Ann likes Ben and has a son.", [["Ann likes Ben and has a son."]]),  # of two people
        ("Ann has a son who sings and is old.", [["Ann has a son who sings and is old."]]),
    ],
)
def test_a_sentence_is_split_into_what_it_lists(text: str, items: list[list[str]]):
    assert unfolded(text, NAMES, ENGLISH.rules.clauses) == items
