"""Rows of the memory module: every answer is one that the mechanisms read, and rests on what was said."""

import random
from pathlib import Path
from typing import Any

import pytest

from ld_agent.backbones.base import Completion
from ld_agent.config import load_config
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.conditional import labelled, yes_or_no
from ld_agent.memory.views.memochat import memos_of, picked_numbers
from ld_agent.memory.views.memory_text import facts_from
from ld_agent.memory.views.reflection import judgement
from ld_agent.types import Utterance
from training.memory import rows
from training.memory_rows import deciding, folded
from training.persons import third_person
from training.rows import BuildRequest

READING = ENGLISH.reading

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
KINDS = {
    "record": "Write these lines",
    "reflection": 'write one line "Enough:"',
    "rewrite": "Write the new memory",
    "memos": "The topics of these",
    "choice": "Numbers of the notes",
    "portrait": "Describe ",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """(prompt, answer) by kind, of the shipped samples."""
    sources = [*sorted((SAMPLES / "msc_personasummary").rglob("*.txt")), SAMPLES / "dialogsum.jsonl"]
    request = BuildRequest(sources, load_config("default"))
    found: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}
    for row in rows(request):
        shown, answer = row["messages"][-2]["content"], row["messages"][-1]["content"]
        for kind, mark in KINDS.items():
            if mark in shown:
                found[kind].append((shown, answer))
    return found


def test_records_are_parsed_leniently(built: dict[str, list[tuple[str, str]]]):
    assert built["record"]
    for shown, answer in built["record"]:
        parts = labelled(answer)
        if yes_or_no(parts.get("remember", "yes")) is False:
            assert parts == {"remember": "no"}
        else:
            assert parts["note"]
            assert parts["situation"]
            assert parts["related"]
            assert ("remember" in parts) == ("Remember: [yes or no]" in shown)


def test_rewrites_reflections_choices_and_memos_are_read(built: dict[str, list[tuple[str, str]]]):
    for _, answer in built["rewrite"]:
        assert all(facts_from(answer, [line.partition(":")[0] for line in answer.splitlines()], READING).values())
    for _, answer in built["reflection"]:
        assert judgement(answer, 20).chosen is not None or judgement(answer, 20).keywords
    for _, answer in built["choice"]:
        assert picked_numbers(answer, 20) is not None
    assert built["memos"]
    for shown, answer in built["memos"]:
        count = shown.count("\n") - 4
        run = [Utterance(f"u{n}", "Ann", answer, None, 1) for n in range(count)]  # type: ignore[arg-type]
        memos = memos_of(Completion(answer, 1, 1), run, READING)
        assert len(memos) == len(answer.splitlines())
        assert not any(memo.fallback for memo in memos)


@pytest.mark.parametrize(
    ("fact", "about"),
    [
        ("I am a nurse and I love my job.", "Maya is a nurse and they love their job."),
        ("I last went camping in May", "Maya last went camping in May."),
        ("I really don't like fish.", "Maya really doesn't like fish."),
        ("My sister visits me.", "Maya's sister visits them."),
        ("I study law.", "Maya studies law."),
        ("I need help and agreed to it.", "Maya needs help and agreed to it."),
        ("I especially like figs from the US.", "Maya especially likes figs from the US."),
        ("I am old but am healthy, as I am lucky.", "Maya is old but is healthy, as they are lucky."),
        ("Cats are great!", "Cats are great."),
    ],
)
def test_a_trait_is_stated_about_somebody(fact: str, about: str):
    assert third_person(fact, "Maya") == about


def reply_row(turn: int, heard: str) -> dict[str, Any]:
    earlier = [{"role": role, "content": "x"} for _ in range(turn - 1) for role in ("user", "assistant")]
    messages = [{"role": "system", "content": "You are Sam."}, *earlier, {"role": "user", "content": heard}]
    return {
        "messages": [*messages, {"role": "assistant", "content": "Oh!"}],
        "episode": "e",
        "session": 2,
        "turn": turn,
    }


def test_a_session_is_one_row_with_all_its_replies():
    [row] = folded([reply_row(1, "Hi."), reply_row(3, "I sail."), reply_row(2, "Rain.")])
    assert (row["turn"], row["further"]) == (3, 2)


def test_replies_with_a_decision_ask_for_it_and_state_it():
    rows = [reply_row(1, "I sail."), reply_row(2, "Hi."), reply_row(3, "unknown")]
    made = deciding(rows, {"I sail.": True, "Hi.": False}, 10, random.Random(1))
    assert [row["messages"][-1]["content"] for row in made] == ["Reply: Oh!\nRemember: yes", "Reply: Oh!\nRemember: no"]
    assert all("answer in two lines" in row["messages"][0]["content"] for row in made)
