"""What people take back of what they said a moment ago, on chats that no weight and no bound was chosen on."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from agent_parts import CHECKED, DAY, START, Scene

from ld_agent.backbones.base import Request
from ld_agent.checks.changes import put_right
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.slips import CORRECTING, Corrections
from ld_agent.errors import ModelError
from ld_agent.files import shipped_path
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from training.corrects import fitted, marked
from training.texts import blocks

HELD_OUT = Path(__file__).parents[2] / "data/training"
READING = ENGLISH.reading
READS = {"generator": {"grounded": True}, "reader": {"passages": 3}}


@pytest.fixture(scope="module")
def check() -> StatementCheck:
    return StatementCheck("shipped:adapters/check", verbatim=True)


@pytest.mark.parametrize(
    ("told", "line", "right"),
    [
        ("I was born in Split.", "Sorry, I meant Zadar, not Split.", "I was born in Zadar."),
        ("I play the viola in a string quartet.", "Cello, I mean!", "I play the cello in a string quartet."),
        ("i have two cats", "no wait, three", "i have three cats"),
        ("i'm allergic to walnuts btw", "hazelnuts*, walnuts are fine", "i'm allergic to hazelnuts btw"),
        ("My cat Pixel is twelve.", "Correction from my wife: Pixel is fourteen.", "My cat Pixel is fourteen."),
        ("My brother is called Piotr.", "Pawel, I meant to say!", "My brother is called Pawel."),
        ("I grew up in Llanelli.", "Llandeilo, sorry, not Llanelli.", "I grew up in Llandeilo."),
        ("My mother is four.", "Sorry, forty I meant, not four.", "My mother is forty."),
        ("I have a dog called Rex.", "And I have a cat called Tom.", None),
        ("I love Rome.", "Actually, I love Oslo as well.", None),
        ("I work nights at the bakery.", "My brother works days, he drives a bus.", None),
        ("I play chess.", "Sorry, I'm late!", None),
        # what is said again stands
        ("My dog is called Rex.", "No, I said Rex, not Max.", None),
        ("My name is Ann.", "No, not Anna, Ann!", None),
        ("I was born in Zadar.", "Sorry, I meant Zadar, not Split.", None),
        ("I have a dog called Rex.", "I meant my dog Rex, sorry!", None),
    ],
)
def test_the_words_of_a_correction_stand_in_place_of_what_it_takes_back(
    told: str, line: str, right: str | None, check: StatementCheck, encoder: SentenceEncoder
):
    slip = check.corrections.slip(["It is raining here.", told], line, encoder.encode, READING)
    assert (slip and (slip.place, slip.text)) == (right and (1, right))
    if slip is not None:
        assert put_right(check, [("Nell", told), ("Nell", line)], slip, READING) == [right]


def test_where_it_is_not_sure_what_was_meant_the_words_themselves_are_kept(
    check: StatementCheck, encoder: SentenceEncoder
):
    told, line = "The wedding invitation says black tie.", 'Sorry, I read it again with my glasses on: "No black tie".'
    slip = check.corrections.slip([told], line, encoder.encode, READING)
    assert slip is not None
    assert put_right(check, [("Nell", told), ("Nell", line)], slip, READING) == [line]


def told_before(lines: list[tuple[str, str]], claims: list[str]) -> Iterator[tuple[str, list[list[object]]]]:
    """Each line, and what its speaker said before it: sentences, whether they were taken back, and whether that was found."""
    for who in dict.fromkeys(speaker for speaker, _ in lines):
        own: list[list[object]] = []
        for claim in claims:
            text = claim[2:].partition(": ")[2]
            said = [n for n, (speaker, line) in enumerate(lines) if speaker == who and text in line]
            if claim.startswith((f"! {who}: ", f"+ {who}: ")) and said and not text.endswith("?"):
                own.append([said[0], text, claim[0] == "!", False])
        for n, (speaker, line) in enumerate(lines):
            if speaker == who:
                yield line, [one for one in own if one[0] < n]  # type: ignore[operator]


def test_of_held_out_chats_a_third_of_what_is_taken_back_is_found_and_hardly_anything_else(
    check: StatementCheck, encoder: SentenceEncoder
):
    found: dict[tuple[int, str], tuple[object, object]] = {}
    for n, block in enumerate(blocks(HELD_OUT / "claims/held_out/taken_back.txt")):
        claims = [line for line in block if line[:2] in ("+ ", "! ", "- ")]
        lines = [(who, text) for who, _, text in (line.partition(": ") for line in block[: -len(claims)])]
        for line, own in told_before(lines, claims):
            if slip := check.corrections.slip([str(text) for _, text, _, _ in own], line, encoder.encode, READING):
                own[slip.place][3] = True
            found |= {(n, str(text)): (taken_back, seen) for _, text, taken_back, seen in own}
    taken_back = [seen for wrong, seen in found.values() if wrong]
    others = [seen for wrong, seen in found.values() if not wrong]
    assert len(taken_back) > 60
    assert len(others) > 90
    assert sum(map(bool, taken_back)) / len(taken_back) > 0.33
    assert sum(map(bool, others)) / len(others) < 0.02


def test_weights_of_words_tell_lines_that_correct_from_others(check: StatementCheck):
    lines = marked(HELD_OUT / "held_out/correcting.txt")
    odds = np.array([check.corrections.log_odds(text) for text, _ in lines])
    corrects = np.array([corrects for _, corrects in lines])
    assert (odds[corrects][:, None] > odds[~corrects]).mean() > 0.93  # area under the curve
    assert (odds[corrects] >= CORRECTING).mean() > 0.8


def test_the_weights_are_found_in_the_lines():
    lines = [(f"sorry, I meant {n}", True) for n in range(20)] + [(f"I have {n} hives", False) for n in range(20)]
    weights = fitted(lines)
    assert weights["meant"] > 0.5 > -0.5 > weights["hives"]
    assert "3" not in weights  # in one line only


def test_an_agent_forgets_the_slip_and_answers_what_was_meant(scene: Scene):
    def read(request: Request) -> str:
        return f"You were born in {'Zadar' if 'born in Zadar' in str(request.messages) else 'Split'}."

    talk = scene.agent({"reader": read, "generator": "In Split."}, modules=READS, checks=CHECKED).conversation("maya")
    for n, text in enumerate(("I was born in Split.", "Sorry, I meant Zadar, not Split.")):
        talk.observe(text, speaker="Maya", at=START + timedelta(minutes=n))
    talk.end_session()
    assert [trait.text for trait in talk.persona("Maya")] == ["I was born in Zadar."]
    assert talk.persona("Maya", as_of=START + timedelta(seconds=30)) == []
    assert talk.respond("Where was I born?", "Maya", START + 30 * DAY).text == "You were born in Zadar."


@pytest.mark.parametrize(
    ("sentence", "wrong", "right", "nothing_else"),
    [
        ("It's Malmo, not Lund.", "My sister lives in Lund.", "My sister lives in Malmo.", True),
        ("Sorry, I meant Malmo, not Lund.", "My sister lives in Lund.", "My sister lives in Malmo.", True),
        ("Cello, I mean!", "I play the viola.", "I play the cello.", True),
        ("Oh no, sorry, Malmo, I always forget her street.", "She lives in Lund.", "She lives in Malmo.", False),
        ("I live in Lund.", "My sister lives in Lund.", "My sister lives in Malmo.", False),
        ("I play the viola.", "My wife plays the viola.", "My wife plays the cello.", False),
        ("My cat is three.", "I have three dogs and a cat.", "I have two dogs and a cat.", False),
        ("We met in Malmo.", "My sister lives in Lund.", "My sister lives in Malmo.", False),
    ],
)
def test_a_sentence_that_only_corrects(
    sentence: str, wrong: str, right: str, nothing_else: bool, check: StatementCheck
):
    assert check.corrections.nothing_else(sentence, wrong, right, READING) is nothing_else


def test_what_is_taken_back_in_the_same_line_was_never_meant(scene: Scene):
    def read(request: Request) -> str:
        return f"She plays the {'trombone' if 'trombone' in str(request.messages) else 'sousaphone'}."

    agent = scene.agent({"extractor": "NO_TRAIT", "reader": read}, modules=READS, checks={**CHECKED, "verbatim": True})
    talk = agent.conversation("maya", at=START)
    said = "My daughter plays the trombone in the school band. Wait, what am I saying, it's the sousaphone she plays."
    talk.observe(said, speaker="Maya", at=START)
    talk.end_session()
    meant = "My daughter plays the sousaphone in the school band."
    assert [trait.text for trait in talk.persona("Maya")] == [meant]
    assert talk.records[0].text.startswith(f"Maya: {meant}")
    assert talk.utterances[0].text == said
    asked = "Which instrument does my daughter play in the band?"
    assert talk.respond(asked, "Maya", START + 30 * DAY).text == "She plays the sousaphone."


def test_a_line_that_only_corrects_is_no_trait(scene: Scene):
    talk = scene.agent({}, checks={**CHECKED, "verbatim": True}).conversation("maya")
    said = ("My daughter Ines goes to school in Lund.", "Nice.", "Wait, wrong town! It's Malmo, not Lund.")
    for n, (text, speaker) in enumerate(zip(said, ("User", talk.agent_name, "User"), strict=True)):
        talk.observe(text, speaker, START + timedelta(minutes=n))
    talk.end_session()
    assert [trait.text for trait in talk.persona("User")] == ["My daughter Ines goes to school in Malmo."]


def test_a_slip_is_put_right_although_others_speak_in_between(scene: Scene):
    agent = scene.agent({}, checks={**CHECKED, "verbatim": True})
    talk, phone = agent.conversation("maya"), agent.conversation("maya", thread="phone")
    talk.observe("I was born in Split.", "Maya", START)
    for n in range(8):
        phone.observe(f"It is {n} o'clock.", "Ben", START)
    talk.observe("Sorry, I meant Zadar, not Split.", "Maya", START)
    talk.end_session()
    assert [trait.text for trait in talk.persona("Maya")] == ["I was born in Zadar."]


def test_a_slip_is_not_said_even_if_nothing_else_is_found(scene: Scene):
    talk = scene.agent(
        {"reader": "You were born in Split.", "generator": "In Split."}, modules=READS, checks=CHECKED
    ).conversation("maya")
    for n, text in enumerate(("I was born in Split.", "Sorry, I meant Zadar, not Split.")):
        talk.observe(text, speaker="Maya", at=START + timedelta(minutes=n))
    talk.end_session()
    assert "Split" not in talk.respond("Where was I born?", "Maya", START + 30 * DAY).text


def test_a_check_without_weights_finds_no_slip_and_a_broken_file_is_named(tmp_path: Path):
    assert Corrections(tmp_path).log_odds("Sorry, I meant Zadar!") == -np.inf
    for broken in ("[1]", '{"": NaN}', '{"": -5, "sorry": null}', "{}"):
        (tmp_path / "corrects.json").write_text(broken)
        with pytest.raises(ModelError, match=r"corrects\.json has no weights of words .*training\.corrects"):
            Corrections(tmp_path)


def test_the_shipped_weights_are_those_of_the_shipped_check():
    assert (shipped_path("data/adapters/check") / "corrects.json").is_file()
