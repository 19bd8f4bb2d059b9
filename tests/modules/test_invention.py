"""What a reply makes up when it is asked for something that was told."""

from __future__ import annotations

import pytest

from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.invention import asks_what_was_told, made_up, supported

SHOWN = "What you remember: Maya has 3 goats and lives in Oslo with Tom, who teaches.\nHow many goats do I keep?"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("You keep three goats.", []),
        ("You keep 3 goats, and Tom helps.", []),
        ("You keep twelve goats with Anna.", ["twelve", "Anna"]),
        ("Your dog is called Rex. Rex is 5.", ["Rex", "dog", "5"]),
        ("Tom is a teacher.", []),
        ("Tom works as a nurse.", ["nurse"]),
        ("You haven't told me. Is it Rex?", []),
        ("Oslo's goats are lovely.", []),
        ("It was a year ago.", []),
        ("You live in <city>.", ["<city>", "city"]),
        ("", []),
    ],
)
def test_what_nothing_shows_is_made_up(reply: str, words: list[str], topics: TopicExtractor):
    assert made_up(reply, SHOWN, topics.extract) == words


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("You keep three goats. Anna milks them.", "You keep three goats."),
        ("I remember! You keep twelve.", ""),
        ("You keep twelve. Are you in Oslo?", ""),
        ("You haven't told me.", "You haven't told me."),
    ],
)
def test_a_reply_keeps_the_sentences_that_make_nothing_up(reply: str, kept: str, topics: TopicExtractor):
    assert supported(reply, SHOWN, topics.extract)[0] == kept


@pytest.mark.parametrize(
    "text",
    [
        "What's my dog called?", "Where did we meet?", "Hello! Do you remember where I work?", "How old is Mina?",
        "What is Mina's favourite colour?", "How many goats do I keep?", "Why did I move here?",
    ],
)  # fmt: skip
def test_a_question_for_what_was_told(text: str):
    assert asks_what_was_told(text, "Mina is six.")


@pytest.mark.parametrize(
    "text",
    [
        "I have a dog.", "How are you?", "What should I cook for my wife?", "Where can I buy a bike for my son?",
        "What do you think of my new job?", "How do I fix my bike?", "I made soup. What's your favourite?", "Guess what I did?",
        "What's a good present for my mother?", "How old is Otto?", "Let me see. What is it like?", "What if I fail my exam?",
        "Could you tell me what my options are?", "I love Oslo. What is the weather like there?", "What is the best way home?",
    ],
)  # fmt: skip
def test_advice_news_and_questions_about_the_agent_are_no_such_questions(text: str):
    assert not asks_what_was_told(text, "Mina is six.")
