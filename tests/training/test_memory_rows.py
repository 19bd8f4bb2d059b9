"""Rows that need memory: what is asked stands in the prompt or nowhere, and who is "you"."""

import random
import re
from itertools import islice
from pathlib import Path

import pytest

from ld_agent.checks.statements import says_unknown
from ld_agent.languages import ENGLISH
from ld_agent.text import stems
from training.examples import IGNORED, encode
from training.memory_rows import memory_rows, talk_rows
from training.persons import asked_back, second_person
from training.rows import Row, read_rows, write_rows
from training.talks import StatedTrait
from training.texts import TEXTS, asked_about, blocks, every_scene, relations

PEOPLE = [
    [
        StatedTrait("I have a dog named Rex.", "My dog Rex is old."),
        StatedTrait("I am allergic to nuts.", "Nuts make me ill."),
        StatedTrait("I like to sail.", "I sail a lot, do you?"),
    ]
]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I have a dog.", "You have a dog."),
        ("I am proud of my son, he likes me.", "You are proud of your son, he likes you."),
        ("I was a nurse.", "You were a nurse."),
        ("My brother was ill.", "Your brother was ill."),
        ("I'm sure we'd like it.", "You're sure we'd like it."),
    ],
)
def test_what_somebody_says_of_themselves_is_said_to_them(said: str, told: str):
    assert second_person(said) == told


def test_a_question_is_asked_back():
    assert asked_back("Where do I live?") == "Where do you live?"
    assert asked_back("What am I building?") == "What are you building?"


def test_every_relation_has_statements_questions_and_answers():
    for relation in relations():
        for kind in ("said", "traits", "asked", "answers"):
            assert relation.texts[kind], (relation.name, kind)
        assert all("{v}" in text for kind in ("said", "answers") for text in relation.texts[kind]), relation.name


def test_a_scene_has_its_places_filled():
    for scene in every_scene(random.Random(0)):
        assert not re.search(r"[{}]", str(scene)), scene
        assert len(scene.asked) >= 4
        assert scene.missing


def test_a_trait_gives_questions_and_answers():
    questions, answers, unknown, topic = asked_about("I have a dog named Rex.") or ((), (), "", "")
    assert "What is my dog called?" in questions
    assert "Your dog is called Rex." in answers
    assert (unknown, topic) == ("your dog's name", "dog")


def test_half_of_the_rows_have_their_answer_in_the_prompt_and_the_others_say_that_it_is_not_known(tmp_path: Path):
    made = list(islice(memory_rows(PEOPLE, seed=1), 400))
    assert made == list(islice(memory_rows(PEOPLE, seed=1), 400))
    write_rows(tmp_path / "rows.jsonl", made)
    known = in_traits = 0
    for row in read_rows(tmp_path / "rows.jsonl"):
        shown, asked = (message.content for message in row.prompt)
        if says_unknown(row.target, ENGLISH.reading):
            continue
        new = set(stems(row.target, ENGLISH.reading)) - set(stems(asked, ENGLISH.reading))
        known += len(new & set(stems(shown, ENGLISH.reading))) >= 0.5 * len(new) - 2
        in_traits += "What you know about" in shown
    assert 140 < known < 260
    assert 10 < in_traits < known


def test_a_small_talk_is_one_row_with_every_reply_of_the_agent_as_target():
    talks = blocks(TEXTS / "replies.txt")
    made = list(talk_rows(PEOPLE, random.Random(1)))
    assert len(made) == len(talks)
    for talk, row in zip(talks, made, strict=True):
        system, *said = row["messages"]
        facts = [line[2:] for line in talk if line.startswith("* ")]
        lines = [line.partition(": ")[2] for line in talk[len(facts) :]]
        assert [message["content"] for message in said] == lines[: len(said)]
        assert [message["role"] for message in said[-2:]] == ["user", "assistant"]
        assert row["further"] == sum(message["role"] == "assistant" for message in said) - 1
        agent = talk[len(facts) + 1].partition(": ")[0]
        assert system["content"].startswith(f"You are {agent}, ")
        assert all(fact in system["content"] for fact in facts)


def test_further_targets_are_trained_on_and_nothing_else():
    from backbones.tiny_models import byte_tokenizer

    from ld_agent.backbones.base import Message
    from ld_agent.backbones.local.chat_tokens import ChatTokens

    messages = [("system", "Known."), ("user", "One?"), ("assistant", "1!"), ("user", "Two?")]
    prompt = tuple(Message(role, text) for role, text in messages)  # type: ignore[arg-type]
    tokens = ChatTokens(byte_tokenizer())
    both = encode(Row(prompt, "2!", Path("rows.jsonl"), 1, further=1), tokens, 256, None, None)
    last = encode(Row(prompt, "2!", Path("rows.jsonl"), 1), tokens, 256, None, None)
    answer = tokens.encode_answer("1!")
    assert [i for i in both.labels if i != IGNORED] == [*answer, *tokens.encode_answer("2!")]
    assert [i for i in last.labels if i != IGNORED] == tokens.encode_answer("2!")
    assert both.prompt == last.prompt
