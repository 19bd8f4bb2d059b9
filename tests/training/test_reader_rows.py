"""Rows for the reader: answers rest on their passages, and passages that do not answer stand beside them."""

import json
import random
import re
from pathlib import Path

import pytest
from training_parts import Commands

from ld_agent.config import Config
from ld_agent.modules.registry import NOT_SAID
from training import reader
from training.rows import BuildRequest, read_rows, write_rows

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "samples" / "msc_personasummary").rglob("*.txt"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    out = tmp_path_factory.mktemp("rows") / "reader.jsonl"
    write_rows(out, reader.rows(BuildRequest(SAMPLES, Config())))
    return [(row.prompt[-1].content, row.target) for row in read_rows(out)]


def test_most_answers_are_in_their_passages(built: list[tuple[str, str]]):
    answered = [(prompt.partition("\n\n")[0], target) for prompt, target in built if target != NOT_SAID]
    assert 0.3 < len(answered) / len(built) < 0.6
    names = [
        (passage, name) for passage, target in answered for name in re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}", target)
    ]
    assert len(names) > 500
    # people who write in lower case are answered with capitals
    assert sum(name.casefold() in passage.casefold() for passage, name in names) > 0.97 * len(names)


def test_a_question_is_asked_of_passages_with_and_without_its_answer(built: list[tuple[str, str]]):
    targets: dict[str, set[bool]] = {}
    for prompt, target in built:
        question = prompt.rpartition(" asks: ")[2].rpartition(": ")[2].casefold()
        targets.setdefault(question, set()).add(target == NOT_SAID)
    assert sum(len(kinds) == 2 for kinds in targets.values()) > 2000


def test_what_one_of_two_people_did_is_asked_of_the_other():
    boat = [one for one in reader.of_passages(random.Random(7)) if "narrowboat" in one.answer + one.tempting]
    asked = {one.question: (one.answer, {speaker for speaker, _ in one.passage.lines}) for one in boat}
    assert asked["What kind of home has Freya bought?"] == ("Freya has bought a narrowboat.", {"Freya", "Oisín"})
    assert asked["What kind of home has Oisín bought?"] == ("", {"Oisín"})


def test_a_question_about_one_speaker_is_read_in_that_speakers_lines_and_what_names_or_asks_them():
    lines = (("Ann", "I run. Do you?"), ("Ben", "I swim."), ("Ann", "Ben swims in lakes."), ("Ann", "It rains."))
    assert reader.as_read(lines, "Where does Ben swim?") == (("Ann", "Do you?"), *lines[1:3])
    assert reader.as_read(lines, "Where do I run?") == lines


def test_labelled_answers_are_rows_too():
    rows = [(one.passage.asker, one.question, one.answer) for one in reader.of_claims()]
    assert ("Oksana", "Where is my dentist?", "In Mill Street, over the bakery.") in rows
    assert ("Oksana", "When is my next appointment?", "") in rows


def own_file(folder: Path, traits: list[str]) -> Path:
    said = [
        {"speaker": "Ann", "text": trait, "at": f"2024-01-01T00:0{n}:00+00:00", "traits": [trait]}
        for n, trait in enumerate(traits)
    ]
    said.append({"speaker": "Sam", "text": "Oh.", "at": "2024-01-01T01:00:00+00:00", "traits": []})
    file = folder / "own.jsonl"
    file.write_text(json.dumps({"id": "own", "agent": "Sam", "utterances": said}) + "\n")
    return file


def test_a_file_of_ones_own_is_built_and_held_out(tmp_path: Path, command: Commands):
    file = own_file(tmp_path, ["I sail on lakes.", "I have two dogs.", "I live in Oslo."])
    train, held_out = tmp_path / "train.jsonl", tmp_path / "eval.jsonl"
    done = command("build", "reader", "--from", file, "--out", train, "--eval-out", held_out)
    assert done.code == 0, done.err
    sides = [[json.loads(line) for line in path.read_text().splitlines()] for path in (train, held_out)]
    episodes = [{row["episode"] for row in rows} for rows in sides]
    assert 0.02 < len(episodes[1]) / len(episodes[0]) < 0.1
    assert not episodes[0] & episodes[1]
    rows = [*sides[0], *sides[1]]
    assert {row["corpus"] for row in rows} == {"memory", "jsonl"}
    assert {(row["module"], *row["sources"]) for row in rows} == {("reader", "own.jsonl")}


def test_a_file_in_which_nobody_tells_enough_is_named(tmp_path: Path, command: Commands):
    file = own_file(tmp_path, ["I sail on lakes.", "I have two dogs."])
    done = command("build", "reader", "--from", file, "--out", tmp_path / "train.jsonl")
    assert done.code == 1
    assert "own.jsonl: nobody told 3 short traits" in done.err


def test_rows_are_the_same_each_time(built: list[tuple[str, str]], tmp_path: Path):
    again = reader.rows(BuildRequest(SAMPLES, Config()))
    assert [row["messages"][-1]["content"] for row in again] == [target for _, target in built]
