"""Rows for the reader: answers rest on their passages, and passages that do not answer stand beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ld_agent.config import Config
from ld_agent.modules.registry import NOT_SAID
from training import reader
from training.row_building import BuildRequest
from training.rows import read_rows, write_rows

SAMPLES = sorted((Path(__file__).parents[2] / "data" / "samples" / "msc_personasummary").rglob("*.txt"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    out = tmp_path_factory.mktemp("rows") / "reader.jsonl"
    write_rows(out, reader.rows(BuildRequest(SAMPLES, Config(), out)))
    return [(row.prompt[-1].content, row.target) for row in read_rows(out)]


def test_most_answers_are_in_their_passages(built: list[tuple[str, str]]):
    answered = [(prompt.partition("\n\n")[0], target) for prompt, target in built if target != NOT_SAID]
    assert 0.3 < len(answered) / len(built) < 0.6
    names = [
        (passage, name) for passage, target in answered for name in re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}", target)
    ]
    assert len(names) > 500
    assert sum(name in passage for passage, name in names) > 0.97 * len(names)


def test_a_question_is_asked_of_passages_with_and_without_its_answer(built: list[tuple[str, str]]):
    targets: dict[str, set[bool]] = {}
    for prompt, target in built:
        question = prompt.rpartition(" asks: ")[2].rpartition(": ")[2].casefold()
        targets.setdefault(question, set()).add(target == NOT_SAID)
    assert sum(len(kinds) == 2 for kinds in targets.values()) > 2000


def test_rows_are_the_same_each_time(built: list[tuple[str, str]], tmp_path: Path):
    again = reader.rows(BuildRequest(SAMPLES, Config(), tmp_path / "again.jsonl"))
    assert [row["messages"][-1]["content"] for row in again] == [target for _, target in built]
