"""What a reply makes up when it is asked for something that was told."""

import pytest

from ld_agent.checks.invention import asks_for_facts, asks_what_was_told, made_up, supported
from ld_agent.checks.numbers import numbers
from ld_agent.languages import ENGLISH
from ld_agent.memory.topics import TopicExtractor

READING = ENGLISH.reading

SHOWN = "What you remember: Maya has 3 goats and lives in Oslo with Tom, who teaches.\nHow many goats do I keep?"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("You keep three goats.", []),
        ("You keep twelve goats with Anna.", ["twelve", "Anna"]),
        ("Your dog is called Rex. Rex is 5.", ["Rex", "dog", "5"]),
        ("Tom works as a nurse.", ["nurse"]),
        ("You haven't told me. Is it Rex?", []),
        ("I think you live in Oslo, Norway.", []),  # says more about Oslo, nothing about Maya
        ("You live in Oslo, Bergen and Rome.", ["Bergen", "Rome"]),
        ("You live in <city>.", ["<city>", "city"]),
        ("Tom has twenty-one goats, a thousand and two goats.", ["twenty-one", "thousand and two"]),
        ("Your blood is O.", ["O", "blood"]),
    ],
)
def test_what_nothing_shows_is_made_up(reply: str, words: list[str], topics: TopicExtractor):
    assert made_up(reply, SHOWN, topics.extract, READING) == words


def test_numbers_and_nouns_count_in_any_form(topics: TopicExtractor):
    shown = "Tom wrote a thousand words and cut off thirty-eight feet of rope."
    assert made_up("You cut 38 feet. It was 1,000 words.", shown, topics.extract, READING) == []
    assert made_up("You cut 30 feet.", shown, topics.extract, READING) == ["30"]


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("You keep three goats. Anna milks them.", "You keep three goats."),
        ("I remember! You keep twelve.", ""),
        ("You haven't told me.", "You haven't told me."),
    ],
)
def test_a_reply_keeps_the_sentences_that_make_nothing_up(reply: str, kept: str, topics: TopicExtractor):
    assert supported(reply, SHOWN, topics.extract, READING)[0] == kept


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Do you remember my dog's name?", True),
        ("Tell me my dog's name.", True),
        ("Remind me of my sister's name!", True),
        ("Tell me a story about my dog.", False),  # something new
        ("Remind me to call my mother.", False),
        ("Do you remember me?", False),
        ("Tell me what I should do with my life.", False),
        ("My dog loves it there!", False),
        ("What's my dog called?", True),
        ("Where did we meet?", True),
        ("Hello! Do you remember where I work?", True),
        ("How old is Mina?", True),
        # neither statements nor questions for advice or news or about the agent
        ("I have a dog.", False),
        ("How are you?", False),
        ("What should I cook for my wife?", False),
        ("What do you think of my new job?", False),
        ("How do I fix my bike?", False),
        ("I made soup. What's your favourite?", False),
        ("What's a good present for my mother?", False),
        ("How old is Otto?", False),
        ("Could you tell me what my options are?", False),
        ("I love Oslo. What is the weather like there?", False),
    ],
)
def test_what_asks_for_something_that_was_told(text: str, told: bool):
    assert asks_what_was_told(text, READING, "Mina is six.") is told


TOLD = "Ann lives with Ben. Ann: I never eat fish. Ann: My brother is a monk called Tom.\nSam: Lovely."


@pytest.mark.parametrize(
    ("question", "reply", "kept"),
    [
        ("How many cats do I have?", "I don't have any cats.", ""),  # denied by nobody
        ("What do I never eat?", "You don't eat fish.", "You don't eat fish."),
        ("What's my father's name?", "Your father's name is Ann.", ""),  # the asker herself
        ("What's Tom's friend called?", "Tom's friend is called Tom.", ""),
        ("Who is my brother?", "Tom, a monk.", "Tom, a monk."),
        ("Who is a monk?", "My brother Tom is.", "My brother Tom is."),  # the question is about nobody's own
        ("What's my brother called?", "My brother is called Tom.", "Your brother is called Tom."),
        (
            "Do you remember what my brother is?",
            "I remember that my brother is a monk.",
            "I remember that my brother is a monk.",
        ),
    ],
)
def test_an_answer_denies_nothing_names_others_and_says_you(
    question: str, reply: str, kept: str, topics: TopicExtractor
):
    answer, _ = supported(reply, f"{TOLD}\n{question}", topics.extract, READING, question, ("Ann", "Sam"))
    assert answer == kept


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("What colour is the sea?", True),
        ("Do you remember where I work?", True),
        ("Remind me of my sister's name!", True),
        ("Can you tell me your name?", False),
        ("What do you do for fun?", False),
    ],
)
def test_a_question_about_something_else_than_the_hearer_asks_for_a_fact(text: str, fact: bool):
    assert asks_for_facts(text, READING) is fact


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("thirty-eight and 38", ["38", "38"]),
        ("a thousand words, 1,000 in all", ["1000", "1000"]),
        ("three hundred and fifty goats and two cats", ["350", "2"]),
        ("five thousand two hundred and six", ["5206"]),
        ("the fifth, or 5th, place", ["5", "5"]),
        ("1.5 km and Ann", ["1.5"]),
        ("", []),
    ],
)
def test_numbers_are_read_in_order(text: str, values: list[str]):
    assert [value for _, value in numbers(text)] == values


def test_a_number_is_returned_as_written():
    assert numbers("I have Thirty-One plants.") == [("Thirty-One", "31")]
