"""Whose trait it is."""

from __future__ import annotations

import pytest

from ld_agent.checks.attribution import belongs, own_traits
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading


@pytest.mark.parametrize(
    ("trait", "said", "others"),
    [
        ("I have a son named Jakob.", "Your son Jakob must be four by now!", ()),
        ("I repair violins.", "You told me that you repair violins.", ()),
        ("I am allergic to peanuts.", "I hope you found something without peanuts, with your allergy.", ()),
        ("I have a dog.", "Do you have a dog?", ()),
        ("I live in Oslo.", "Oslo! How nice to live there.", ("I live in Oslo.",)),
        ("I prefer coffee.", "I prefer coffee.", ("I like coffee.",)),
        ("I like to play punk music.", "Great! I like to play punk music.", ("I like to listen to punk music.",)),
        ("I play tennis.", "I see, you play tennis. Great!", ()),
    ],
)
def test_what_is_said_of_the_other_is_not_the_speakers_own(trait: str, said: str, others: tuple[str, ...]):
    assert not belongs(trait, said, READING, others)


@pytest.mark.parametrize(
    ("trait", "said", "others"),
    [
        ("I have a son named Jakob.", "My son Jakob is four. And you?", ()),
        ("I love dogs.", "Love dogs, always have.", ()),
        ("I don't like coffee.", "I don't like coffee.", ("I like coffee.",)),
        ("I like to sail.", "I like to sail, do you?", ()),
        ("I told my boss the truth.", "I told my boss the truth, you know.", ()),
    ],
)
def test_what_people_say_of_themselves_stays_theirs(trait: str, said: str, others: tuple[str, ...]):
    assert belongs(trait, said, READING, others)


@pytest.mark.parametrize(
    ("trait", "said", "others", "before"),
    [
        ("I'm allergic to peanuts.", "I'm allergic to peanuts.", ("I am allergic to peanuts.",), ""),  # parroted
        ("I am going to Zanzibar.", "We leave in a couple of days.", (), "I am going to Zanzibar."),
        ("I live in Oslo.", "I live in Oslo too!", ("I live in Oslo.",), ""),
        ("I live in Oslo.", "Same here, I live in Oslo.", ("I live in Oslo.",), "I live in Oslo."),
        ("I love curry chips.", "Yes, I love those!", ("I like curry chips.",), "I could live on curry chips."),
        ("I have dogs.", "I have been shopping for furniture, especially for my dogs.", ("I have dogs.",), ""),
        ("I have a crock pot.", "I have a crock pot that I use for many things.", ("I love my crock pot.",), "Yes!"),
        ("I have dogs.", "I have dogs.", ("I have dogs.",), "Do you like the rain? I have dogs."),
    ],
)
def test_the_words_of_the_other_make_no_trait(trait: str, said: str, others: tuple[str, ...], before: str):
    assert not belongs(trait, said, READING, others, before)


@pytest.mark.parametrize(
    ("trait", "said", "others", "before"),
    [
        ("I have dogs.", "I have dogs.", ("I have dogs.",), "I have dogs. Do you have dogs too?"),
        ("I have no food restrictions.", "Not really.", (), "Do you have any food restrictions?"),  # it was asked for
        ("I paint.", "Painter, yes. What are your hobbies?", (), "Cool, are you an artist?"),
    ],
)
def test_what_was_asked_for_is_a_trait(trait: str, said: str, others: tuple[str, ...], before: str):
    assert belongs(trait, said, READING, others, before)


def test_each_trait_is_judged_by_its_own_sentence():
    said = "Your daughter Mina sounds lovely. I grow tomatoes on my balcony."
    assert own_traits(["I have a daughter named Mina.", "I grow tomatoes."], said, READING) == ("I grow tomatoes.",)


@pytest.mark.parametrize(
    ("said", "trait", "own"),
    [
        ("요즘 어떻게 지내세요?", "나는 지내고 있습니다.", False),
        ("最近还在学弹吉他吗？", "我在学弹吉他。", False),
        ("지금 손녀가 태어나서 행복하게 지내고 있습니다.", "나는 손녀가 태어났습니다.", True),
    ],
)
def test_a_question_that_leaves_the_person_out_says_nothing_of_its_speaker(said: str, trait: str, own: bool):
    assert belongs(trait, said, READING) is own
