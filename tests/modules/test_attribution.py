"""Whose trait it is, whom it is about, and whom a question names."""

from datetime import UTC, datetime

import pytest

from ld_agent.checks.attribution import belongs, own_traits
from ld_agent.checks.named import asked_about, names, part_about, tells_of
from ld_agent.checks.referents import referring
from ld_agent.languages import ENGLISH
from ld_agent.types import Utterance

READING = ENGLISH.reading


@pytest.mark.parametrize(
    ("trait", "said", "others", "before", "own"),
    [
        # what is said of the other is not the speaker's own
        ("I have a son named Jakob.", "Your son Jakob must be four by now!", (), "", False),
        ("I am allergic to peanuts.", "I hope you found something without peanuts, with your allergy.", (), "", False),
        ("I have a dog.", "Do you have a dog?", (), "", False),
        ("I live in Oslo.", "Oslo! How nice to live there.", ("I live in Oslo.",), "", False),
        (
            "I like to play punk music.",
            "Great! I like to play punk music.",
            ("I like to listen to punk music.",),
            "",
            False,
        ),
        # what people say of themselves stays theirs
        ("I have a son named Jakob.", "My son Jakob is four. And you?", (), "", True),
        ("I don't like coffee.", "I don't like coffee.", ("I like coffee.",), "", True),
        ("I told my boss the truth.", "I told my boss the truth, you know.", (), "", True),
        # the words of the other make no trait
        ("I'm allergic to peanuts.", "I'm allergic to peanuts.", ("I am allergic to peanuts.",), "", False),
        ("I am going to Zanzibar.", "We leave in a couple of days.", (), "I am going to Zanzibar.", False),
        ("I live in Oslo.", "Same here, I live in Oslo.", ("I live in Oslo.",), "I live in Oslo.", False),
        ("I love curry chips.", "Yes, I love those!", ("I like curry chips.",), "I could live on curry chips.", False),
        ("I have dogs.", "I have dogs.", ("I have dogs.",), "Do you like the rain? I have dogs.", False),
        # what was asked for is a trait
        ("I have dogs.", "I have dogs.", ("I have dogs.",), "I have dogs. Do you have dogs too?", True),
        ("I have no food restrictions.", "Not really.", (), "Do you have any food restrictions?", True),
        ("I paint.", "Painter, yes. What are your hobbies?", (), "Cool, are you an artist?", True),
    ],
)
def test_a_trait_belongs_to_the_one_who_says_it_of_themselves(
    trait: str, said: str, others: tuple[str, ...], before: str, own: bool
):
    assert belongs(trait, said, READING, others, before) is own


def test_each_trait_is_judged_by_its_own_sentence():
    said = "Your daughter Mina sounds lovely. I grow tomatoes on my balcony."
    assert own_traits(["I have a daughter named Mina.", "I grow tomatoes."], said, READING) == ("I grow tomatoes.",)


@pytest.mark.parametrize(
    ("said", "trait", "own"),
    [
        ("요즘 어떻게 지내세요?", "나는 지내고 있습니다.", False),
        ("지금 손녀가 태어나서 행복하게 지내고 있습니다.", "나는 손녀가 태어났습니다.", True),
    ],
)
def test_a_question_that_leaves_the_person_out_says_nothing_of_its_speaker(said: str, trait: str, own: bool):
    assert belongs(trait, said, READING) is own


@pytest.mark.parametrize(
    ("utterance", "trait", "kept"),
    [
        ("My husband Tom teaches maths.", "I have a husband who teaches maths.", "I have a husband named Tom who teaches maths."),
        ("My sister Kate is a nurse and works nights.", "My sister is a nurse.", "My sister Kate is a nurse."),
        ("My husband Tom is off. He teaches maths.", "He teaches maths.", "My husband Tom teaches maths."),
        ("My wife just started at the library.", "I work at a library.", None),
        ("My dad works hard and drives a truck, so I cook.", "I drive a truck.", None),
        ("My wife and I work at the library.", "I work at a library.", "I work at a library."),
        ("My dog is a poodle.", "I have a poodle.", "I have a poodle."),
        ("My brother Ben and my sister Kate moved.", "He moved.", "He moved."),  # which of them is not said
        ("My sister Kate is a nurse.", "My sister Kate is a nurse.", "My sister Kate is a nurse."),
        ("I like tea.", "I like tea.", "I like tea."),
        ("我姐姐叫小丽，她是护士。", "我姐姐是护士。", "我姐姐小丽是护士。"),
        ("我丈夫叫老王。他教数学。", "他教数学。", "我丈夫老王教数学。"),
        ("我太太在图书馆上班。", "我在图书馆上班。", None),
        ("我和太太都在图书馆上班。", "我在图书馆上班。", "我在图书馆上班。"),
        ("우리 언니 이름은 수진이에요. 간호사예요.", "우리 언니는 간호사예요.", "우리 수진 언니는 간호사예요."),
        ("제 아내는 도서관에서 일해요.", "저는 도서관에서 일해요.", None),
    ],
)  # fmt: skip
def test_a_trait_says_whom_it_is_about(utterance: str, trait: str, kept: str | None):
    assert referring(trait, utterance, READING) == kept


AT = datetime(2024, 5, 1, tzinfo=UTC)


def said(text: str, speaker: str = "Ann") -> Utterance:
    return Utterance("u1", speaker, text, AT, 1)


@pytest.mark.parametrize(
    ("question", "person"),
    [
        ("What does Ben play?", "Ben"),
        ("Where is Ben's violin?", "Ben"),
        ("What does Benjamin play?", ""),
        ("What do Ann and Ben play?", ""),
        ("What do I play with Ben?", ""),
        ("What did Ben tell you?", ""),
        ("Who plays the violin?", ""),
        ("小雨养了什么？", "小雨"),
    ],
)
def test_the_one_person_whom_a_question_names(question: str, person: str):
    assert asked_about(question, ["Ann", "Ben", "小雨"], READING) == person


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ben plays the violin.", True),
        ("That's Ben's violin.", True),
        ("Thanks, Ben! I play too.", False),
        ("I play.", False),
    ],
)
def test_being_addressed_is_not_being_told_of(text: str, told: bool):
    assert names("Ben", text) is told
    assert tells_of("Ben", said(text)) is told
    assert tells_of("Ann", said(text))
    assert tells_of("", said(text))


def test_of_what_others_say_their_questions_stay():
    assert part_about("Ben", said("I play the violin. Do you play?")) == said("Do you play?")
    assert part_about("Ben", said("I play the violin.")) is None
    assert part_about("Ann", said("I play the violin.")) == said("I play the violin.")
