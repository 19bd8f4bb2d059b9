"""The learned check, on claims that it was not tuned on; and what is stored because of it."""

import os
import pickle
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ld_agent.answering import only_memory_answers
from ld_agent.backbones.local.adapter_files import read_adapter
from ld_agent.checks.changes import changed, ended_by, ended_since, ending, in_which_slips_are_right, over
from ld_agent.checks.kept import (
    ENDS,
    READ,
    asks_for_memory,
    deciding,
    may_last,
    own_words,
    true_event,
    true_traits,
    truth_of_answers,
)
from ld_agent.checks.learned import LABELS, StatementCheck
from ld_agent.errors import ModelError
from ld_agent.files import shipped_path
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.modules.situation import Situation
from ld_agent.passed import Passed
from ld_agent.types import Utterance
from training.change_rows import later_rows
from training.check_rows import MARKS, REMARKED, asked_rows, claim_rows, question_of, remark_rows

HELD_OUT = Path(__file__).parents[2] / "data/training/claims/held_out"
READING = ENGLISH.reading


@pytest.fixture(scope="module")
def check() -> StatementCheck:
    return StatementCheck("shipped:adapters/check", verbatim=True)


def test_a_check_without_tensors_is_refused(tmp_path: Path):
    folder = shutil.copytree(shipped_path("data/adapters/check"), tmp_path / "check")
    file = folder / "adapter_model.safetensors"
    save_file({name: values for name, values in load_file(file).items() if "lora_" not in name}, file)
    with pytest.raises(ModelError, match=r"checks\.adapter .*missing adapter keys"):
        StatementCheck(str(folder))


def test_agents_share_what_is_loaded_until_the_folder_changes(tmp_path: Path):
    folder = shutil.copytree(shipped_path("data/adapters/check"), tmp_path / "check")
    first, second = StatementCheck(str(folder)), StatementCheck(str(folder), verbatim=True)
    assert first._model is second._model
    assert (first.verbatim, second.verbatim) == (False, True)
    os.utime(folder / "adapter_model.safetensors", (2**32, 2**32))
    assert StatementCheck(str(folder))._model is not first._model


def test_it_tells_supported_claims_from_others(check: StatementCheck):
    rows = [row for name in ("first", "second") for row in list(claim_rows(HELD_OUT / f"{name}.txt"))[::4]]
    supported = check.probabilities([pair for pair, _ in rows])[:, 0]
    true = np.array([LABELS.index(label) == 0 for _, label in rows])
    assert len(rows) > 300
    assert (supported[true][:, None] > supported[~true]).mean() > 0.75  # area under the curve


def test_a_trait_keeps_only_words_that_its_speaker_said(check: StatementCheck):
    lines = [("Nell", "hm"), ("Nell", "My rabbit is called Tofu.")]
    assert true_traits(check, lines, ["My rabbit is called Tofu."], READING) == ["My rabbit is called Tofu."]
    assert true_traits(check, lines, ["I have a rabbit farm in Tofu."], READING) == ["My rabbit is called Tofu."]
    assert true_traits(check, [("Nell", "The drummer came late.")], ["I am a drummer."], READING) == []
    assert (
        true_traits(check, [("Nell", 'It says "I live in Kiel and have four goats".')], ["I live in Kiel."], READING)
        == []
    )


def test_a_title_in_a_sentence_stays(check: StatementCheck):
    said = 'I love novels like "The Great Gatsby".'
    assert true_traits(check, [("Nell", said)], ["I love novels."], READING) == [said]


def test_what_is_over_tomorrow_is_no_trait(check: StatementCheck):
    assert true_traits(check, [("Nell", "I am going to bed.")], ["I am going to bed."], READING) == []


def test_what_ends_a_trait_is_kept_in_the_words_of_its_speaker(check: StatementCheck):
    lines = [("Nell", "I quit the Blue Heron. Since Monday I drive a tram.")]
    assert true_traits(check, lines, [], READING) == ["I quit the Blue Heron.", "Since Monday I drive a tram."]
    lines = [("Nell", "I gave it up last week.")]
    assert true_traits(check, lines, [], READING) == []
    assert true_traits(check, lines, [], READING, ends=True) == ["I gave it up last week."]
    of_others = [("Nell", "Lenka moved out at the weekend. It rained.")]
    assert true_traits(check, of_others, [], READING) == []
    assert true_traits(check, of_others, [], READING, ends=True) == ["Lenka moved out at the weekend."]


def test_what_lasts_is_kept_even_if_the_extractor_missed_it(check: StatementCheck):
    assert true_traits(check, [("Nell", "I'm allergic to peanuts.")], [], READING) == ["I'm allergic to peanuts."]


def test_news_of_ones_people_is_kept_without_i(check: StatementCheck):
    told = "The twins start school in August. Fresh bread never fails. You'll love your new job in Bremen."
    assert true_traits(check, [("Nell", told)], [], READING) == ["The twins start school in August."]


def test_somebody_who_tells_all_in_one_sentence_is_understood_clause_by_clause(check: StatementCheck):
    said = (
        "A bit about me, since you ask: I'm from Galway but I've lived in Turin for six years, I've two boys, Cian and Odhran, "
        "I tune pianos for a living and on Sundays I sing in a choir, and my sister breeds goats."
    )
    kept = true_traits(check, [("Nell", said)], ["I have two boys."], READING)
    assert kept[0].endswith("I'm from Galway but I've lived in Turin for six years")
    assert kept[1] == "I've two boys, Cian and Odhran"
    assert own_words(check, [("Nell", said)], "Sam", READING) == [f"Nell: {said}"]


def test_half_of_a_quotation_or_of_a_condition_is_nobodys_statement(check: StatementCheck):
    told = (
        "and then she read it out to all of us at the table in the middle of lunch on the terrace, which nobody liked"
    )
    quoting = f"My sister wrote \"I'm pregnant again, I'm leaving Tom, and I'm moving to Lisbon in May\", {told}."
    wishing = (
        "If I had the money, I'd buy a vineyard, my wife would run it, I'd write in the shade all day, "
        "and our two sons would press the grapes there."
    )
    for said in (quoting, wishing):
        kept = true_traits(check, [("Nell", said)], [], READING)
        assert not [
            text for text in kept if "leaving" in text or "Lisbon" in text or "write" in text or "vineyard" in text
        ]


def test_a_line_ends_what_it_says_is_over(check: StatementCheck):
    known = ["Nell: I smoke.", "Nell: I live in Leeds.", "Nell: We have a parrot called Kiwi."]
    assert over(check, [([("Nell", "haven't touched a cigarette since may")], claim) for claim in known]) == [0]
    assert over(check, [([("Nell", "My sister moved to York.")], claim) for claim in known]) == []


def test_one_sentence_of_several_ends_a_trait(check: StatementCheck):
    known = ["Maya: I just moved to Bristol and I don't know a soul here yet.", "Maya: I have a dog named Biscuit."]
    said = "I moved to Bath last weekend. The flat has a garden, and Biscuit has already dug up the roses."
    assert ended_by(check, [("Maya", said)], known) == [0]
    assert ended_by(check, [("Maya", said)], []) == []
    assert ended_by(check, [("Maya", "The flat has a garden. Biscuit loves it!")], known) == []


def test_a_slip_corrected_ends_what_was_said_right_before(check: StatementCheck):
    known, corrected = (
        ["Maya: My train gets in at Euston.", "Maya: I have a dog named Biscuit."],
        "St Pancras, sorry. same time",
    )
    before = [("Maya", "my train gets in at euston"), ("Sam", "I see.")]
    assert ended_by(check, [*before, ("Maya", corrected)], known) == [0]
    assert ended_by(check, [("Maya", corrected)], known) == [], "it says nothing of a train"
    assert ended_by(check, [*before, ("Maya", "Is it St Pancras, then?")], known) == [], "a question ends nothing"


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("I have two cats.", "I have a dog."),
        ("I love Rome.", "We go to Oslo every summer."),
        ("My son is five.", "My daughter is seven."),
        ("I have a dog called Rex.", "And a cat called Tom."),
    ],
)
def test_of_two_facts_told_in_a_row_both_stay(check: StatementCheck, told: str, line: str):
    assert ended_by(check, [("Nell", told), ("Sam", "I see."), ("Nell", line)], [f"Nell: {told}"]) == []


def test_what_is_so_is_decided_by_a_passage(check: StatementCheck):
    passages = [[("Nell", "It rained all day.")], [("Nell", "We gave Kiwi to my aunt, so there's no parrot any more.")]]
    assert deciding(check, passages, "Nell", "Do we still have a parrot?") == [1]
    assert deciding(check, passages[:1], "Nell", "Do we still have a parrot?") == []
    assert deciding(check, [[("Nell", "Should I get a motorbike?")]], "Nell", "Do I have a motorbike?") == []
    assert deciding(check, [], "Nell", "Do I have a motorbike?") == []


def test_what_ends_a_line_is_about_the_same(check: StatementCheck):
    told, since = (
        ("Nell", "I have a red canoe."),
        ["I no longer have the canoe.", "The shed looks bare without my canoe.", "I love pizza."],
    )
    for alike, expected in ((0.1, ([], [])), (0.25, ([0], [0, 1]))):
        assert ended_since(check, told, since, np.full(3, alike, np.float32)) == expected


def test_what_is_quoted_supports_no_answer(check: StatementCheck):
    passage = [("Nell", 'Is this right? "I am Uwe and I have four goats."')]
    question = "How many goats do I have?"
    [true] = truth_of_answers(check, [(passage, "You have four goats.")], "Nell", question)
    assert true < READ


@pytest.mark.parametrize(
    ("old", "line", "new", "believed"),
    [
        ("I have three nephews.", "A fourth nephew arrived this morning!", "I have four nephews.", (True, True)),
        ("I was born in Split.", "Sorry, I meant Zadar, not Split.", "I was born in Zadar.", (True, True)),
        ("My name is Katarzyna.", "Everyone calls me Kasia, please do too.", "I am called Kasia.", (True, False)),
        ("I have three nephews.", "My neighbour's fourth nephew is loud.", "I have four nephews.", (False, False)),
        ("I live in Malmö.", "If I could I'd live in Lund.", "I live in Lund.", (False, False)),
        ("I own a caravan.", "Should I sell the caravan?", "I no longer own a caravan.", (False, False)),
        ("I have four hens.", "Two more hens arrived this morning.", "I have six hens.", (True, True)),
        ("I have four hens.", "Two more hens arrived this morning.", "I have nine hens.", (False, False)),
        ("I have four hens.", "Two more hens arrived this morning.", "I own six ducks.", (False, False)),
        ("My son is called Emil.", "Our second son is here, he's Jasper!", "My son is called Jasper.", (True, False)),
        (
            "I have an old piano.",
            "We gave the piano to a school.",
            "I have an old piano that came from my aunt.",
            (False, False),
        ),
        ("Hello, I'm Bartholomew.", "Just say Barty, all my friends do.", "I am Bartholomew.", (False, False)),
    ],
)
def test_what_a_line_makes_of_a_trait_has_to_follow_from_both(
    check: StatementCheck, old: str, line: str, new: str, believed: tuple[bool, bool]
):
    assert changed(check, line, old, new) == believed


def test_a_line_about_something_else_ends_nothing(check: StatementCheck):
    said, claim = (
        [("Nell", "I have a dog named Rex."), ("Nell", "The weather is awful today.")],
        "Nell: I have a dog named Rex.",
    )
    assert over(check, [(said, claim), (said[1:], claim), (said[1:], "Nell: I work as a nurse.")]) == []
    assert over(check, []) == []


def test_a_farewell_ends_nothing(check: StatementCheck):
    """Read beside "I work nights at the hospital.", it seems to end it, with 0.84."""
    lines = ("Bye, talk tomorrow!", "I gave up smoking last week.", "We moved to Ghent in May.")
    assert [may_last(check, line, ENDS) for line in lines] == [False, True, True]


def test_a_summary_that_was_not_said_becomes_their_own_words(check: StatementCheck):
    lines = [("Nell", "My brother Ivo opens a cafe on Friday."), ("Sam", "Wish him luck!")]
    kept = true_event(check, lines, "Sam and Nell are buying a horse.", "Sam", READING)
    assert (kept.text, kept.dropped) == ("Nell: My brother Ivo opens a cafe on Friday.", 1)
    assert true_event(check, lines, "Nell's brother Ivo opens a cafe on Friday.", "Sam", READING).dropped == 0


@pytest.mark.parametrize(
    ("said", "traits"),
    [
        ("I'm vegan.", ["I'm vegan."]),
        ("I'm vegan, any restaurant tips?", ["I'm vegan."]),
        ("My son is allergic to nuts, what can I bake?", ["My son is allergic to nuts."]),
        ("I'm a cook, am I?", []),
        ("Are you vegan, or is it a fashion?", []),
        ("If I went vegan, what would I eat?", []),
        ("So tired.", []),
    ],
)
def test_what_is_stated_before_a_question_or_in_two_words_is_a_trait(
    said: str, traits: list[str], check: StatementCheck
):
    assert true_traits(check, [("Nell", said)], [], READING) == traits


def test_an_event_tells_what_was_corrected_at_once_as_it_was_meant(check: StatementCheck, encoder: SentenceEncoder):
    said = [
        ("Nell", "I play the viola."),
        ("Sam", "Oh!"),
        ("Nell", "Cello, I mean! My son Ivo sings."),
    ]
    lines = in_which_slips_are_right(check, said, encoder.encode, READING)
    assert lines == [("Nell", "I play the cello."), ("Sam", "Oh!"), ("Nell", "My son Ivo sings.")]
    assert in_which_slips_are_right(check, lines, encoder.encode, READING) == lines


def test_what_is_quoted_in_a_question_is_not_put_into_the_next_sentence(check: StatementCheck):
    said = 'I keep hens, do you know "Hens are very clever" by Wim? My brother wrote "Ducks are even better" last year.'
    assert own_words(check, [("Nell", said)], "Sam", READING) == [
        "Nell: I keep hens.",
        'Nell: My brother wrote "Ducks are even better" last year.',
    ]


def test_the_agent_is_quoted_only_where_nobody_else_stated_something(check: StatementCheck):
    assert own_words(check, [("Nell", "Hm?"), ("Sam", "I like the rain a lot.")], "Sam", READING) == [
        "Sam: I like the rain a lot."
    ]
    asked = [("Nell", "Should I get a motorbike?"), ("Sam", "Only with a good helmet."), ("Nell", "Hm, maybe.")]
    assert own_words(check, asked, "Sam", READING) == [
        "Nell: Should I get a motorbike?",
        "Sam: Only with a good helmet.",
    ]
    asked = [("Nell", 'It says: "Retired chess player seeks a partner." Would you answer that?'), ("Sam", "Yes!")]
    assert own_words(check, asked, "Sam", READING)[0] == f"Nell: {asked[0][1]}"


def test_an_event_quotes_no_applause(check: StatementCheck):
    lines = [
        ("Nell", "That's great, Mel! I joined the fire brigade of Ostend. Wow, that's awesome."),
        ("Sam", "Thanks!"),
    ]
    assert own_words(check, lines, "Sam", READING) == ["Nell: I joined the fire brigade of Ostend."]
    assert own_words(check, [("Nell", "Wow, that's awesome.")], "Sam", READING) == ["Nell: Wow, that's awesome."]


def test_an_answer_needs_a_passage_that_says_it(check: StatementCheck):
    answers = [
        ([("Nell", line)], "Your cat is called Plum.") for line in ("My cat is called Plum.", "I work at a bank.")
    ]
    true = truth_of_answers(check, answers, "Nell", "What is my cat called?")
    assert [one >= READ for one in true] == [True, False]


def test_claims_become_questions_of_the_person():
    assert question_of("I have a cat.") == "Do I have a cat?"
    assert question_of("My brother is a vet.") == "Is my brother a vet?"
    assert question_of("I never smoke.") is None


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("What's my dog called?", True),
        ("When do I see the dentist?", True),
        ("When should I see the dentist?", False),
        ("How was your week?", False),
        ("I have savings for about a year.", False),
    ],
)
def test_what_was_told_is_asked_for(check, text, asks):
    assert asks_for_memory(check, text) is asks


def test_only_the_memory_can_answer_unless_something_else_came_with_the_question():
    heard = Utterance("u1", "Nell", "Do I have a dog?", datetime(2026, 3, 1, tzinfo=UTC), 2)
    plain = Situation("Sam", heard, people=("Nell",))
    assert only_memory_answers(plain)
    assert not only_memory_answers(replace(plain, passed=Passed(media=((heard.text, ({"type": "image_url"},)),))))
    assert not only_memory_answers(replace(plain, passed=Passed(begun="You")))


def test_a_line_ends_what_one_before_says_if_they_are_alike(check: StatementCheck):
    said = [("Nell", "I smoke."), ("Nell", "haven't touched a cigarette since may")]
    assert ending(check, said, np.ones((2, 2), np.float32)) == {1}
    assert ending(check, said, np.zeros((2, 2), np.float32)) == set()
    assert ending(check, said[:1], np.ones((1, 1), np.float32)) == set()


@pytest.mark.parametrize(
    ("older", "newer", "ended"),
    [
        ("I live in Rome.", "I just moved to Oslo.", True),
        ("I like coffee.", "I can't stand coffee any more.", True),
        ("I work as a nurse.", "I'm retired now.", True),
        ("I have two dogs.", "I have three dogs now.", True),
        ("My dog is called Rex.", "We got a second dog, Bruno.", False),
        ("I live in Oslo.", "My brother moved to Rome.", False),
        ("I have a dog.", "I have a cat.", False),
    ],
)
def test_what_a_newer_statement_ends(check: StatementCheck, older: str, newer: str, ended: bool):
    assert over(check, [([("Nell", newer)], f"Nell: {older}")]) == ([0] if ended else [])


def test_remarks_are_rows_beside_what_was_told(tmp_path: Path):
    talks = tmp_path / "talks.txt"
    talks.write_text("# Talks.\n\n* I have a cat.\nAnn: off to bed\nTom: Sleep well!\nAnn: night\n", "utf-8")
    told = [f"Bo: I have {n} hens." for n in range(REMARKED)]
    written = [(((("Bo", "…"),), claim), "supported") for claim in (*told, "Bo has a horse.")]
    rows = list(remark_rows(talks, written, random.Random(1)))
    assert sorted(rows) == sorted(
        (((("Bo", line),), claim), "unsaid") for line in ("off to bed", "night") for claim in told
    )


def test_a_row_on_what_came_later_shows_only_that(tmp_path: Path):
    claims = ("! Bo: I have three hens.", "+ Bo: My wife sings.", "- Bo: I have four hens.", "! Bo: I own hens.")
    (tmp_path / "hens.txt").write_text(
        "\n".join(["Bo: I have three hens. My wife sings.", "Ann: Nice!", "Bo: The fox got one.", "Ann: No!", *claims])
    )
    since = [("Ann", "Nice!"), ("Bo", "The fox got one.")]
    rows = [((since, "Bo: I have three hens."), "ended"), ((since, "Bo: My wife sings."), "unsaid")]
    assert list(later_rows(tmp_path / "hens.txt", MARKS)) == rows


def test_rows_on_what_is_asked_have_questions_and_talk_as_people_type_them():
    rows = list(asked_rows(shipped_path("data/training/claims/asked.txt"), [], random.Random(1)))
    typed = {
        label: [text for (_, text), of in rows if of == label and text.islower() and "?" not in text]
        for _, label in rows
    }
    assert len(typed["supported"]) > 500
    assert len(typed["unsaid"]) > 200
    assert not {*typed["supported"]} & {*typed["unsaid"]}


class Touching:
    """Pickled, it makes a file when it is read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> object:
        return open, (str(self._file), "w")


def test_a_pickle_in_place_of_an_adapter_is_refused_and_not_run(tmp_path: Path) -> None:
    folder, touched = shutil.copytree(shipped_path("data/adapters/check"), tmp_path / "check"), tmp_path / "touched"
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(pickle.dumps({"x": Touching(touched)}))
    with pytest.raises(ModelError, match="cannot be loaded") as refused:
        StatementCheck(str(folder))
    assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors cannot be read"):
        read_adapter("x", folder, {}, ValueError)
    assert not touched.exists()


def test_a_trait_that_is_little_like_a_line_is_ended_only_if_that_is_sure(check: StatementCheck):
    lines = [("Nell", "I've left the ward.")]
    claims = ["Nell: I volunteer at the library.", "Nell: I work on the ward."]
    assert [ended_by(check, lines, claims, [near, near]) for near in (True, False)] == [[0, 1], [1]]
