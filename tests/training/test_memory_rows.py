"""Rows that need memory: what is asked stands in the prompt or nowhere, and who is "you"."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ld_agent.memory.encoder import Vectors
from training.examples import IGNORED, encode
from training.memory_relations import asked_about, asked_back, relations, second_person
from training.memory_rows import Maker, in_prompt
from training.memory_scenes import drawn_scene
from training.memory_sources import StatedTrait
from training.rows import Row, read_rows, write_rows

PEOPLE = [
    [
        StatedTrait("I have a dog named Rex.", "My dog Rex is old."),
        StatedTrait("I am allergic to nuts.", "Nuts make me ill."),
        StatedTrait("I like to sail.", "I sail a lot, do you?"),
    ]
]
TALKS = [["Hi there!", "Hello!", "It rains.", "Oh dear."]]


def encode_words(texts: Sequence[str]) -> Vectors:
    """Unit vectors by the words' first letters."""
    counts = np.zeros((len(texts), 26), np.float32)
    for row, text in enumerate(texts):
        for word in re.findall(r"[a-z]+", text.casefold()):
            counts[row, ord(word[0]) - 97] += 1
    return np.asarray(counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9), np.float32)


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
        for kind in ("said", "traits", "third", "asked", "answers", "unknown"):
            assert relation.texts[kind], (relation.name, kind)
        assert all("{v}" in text for kind in ("said", "answers") for text in relation.texts[kind]), relation.name


def test_a_scene_has_its_places_filled():
    for seed in range(200):
        scene = drawn_scene(random.Random(seed))
        assert not re.search(r"[{}]", str(scene)), scene
        assert len(scene.asked) >= 4
        assert scene.missing


def test_a_trait_gives_questions_and_answers():
    questions, answers, unknown, topic = asked_about("I have a dog named Rex.") or ((), (), "", "")
    assert "What is my dog called?" in questions
    assert "Your dog is called Rex." in answers
    assert (unknown, topic) == ("your dog's name", "dog")


def test_rows_end_in_the_answers_to_all_their_questions(tmp_path: Path):
    rows = list(Maker(PEOPLE, TALKS, ["Speaker 1 sails."], encode_words, seed=1).rows(60))
    write_rows(tmp_path / "rows.jsonl", rows)
    for row in read_rows(tmp_path / "rows.jsonl"):
        assert in_prompt(row.prompt[0].content, row.prompt[-1].content, row.target)
        roles = [message.role for message in row.prompt]
        assert roles[-1] == "user"
        assert roles.count("assistant") >= row.further


def test_the_same_seed_gives_the_same_rows():
    first, again = (list(Maker(PEOPLE, TALKS, [], encode_words, seed=3).rows(20)) for _ in range(2))
    assert first == again


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
