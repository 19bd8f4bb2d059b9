"""What corpora and benchmarks contain, worked by hand, and the tables that it fills."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli_commands import CommandLine

from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.jsonl import write_episodes
from ld_agent.evaluation.statistics import statistics
from ld_agent.evaluation.tables.runs import collect
from ld_agent.evaluation.tasks.ecm import ASSISTANT, USER, sample, write_samples

SAMPLES = Path(__file__).parent.parent.parent / "data" / "samples"
START = datetime(2024, 5, 1, 18, 0, tzinfo=UTC)


def said(speaker: str, text: str, session: int, traits: tuple[str, ...] | None = None) -> Turn:
    return Turn(speaker, text, START + timedelta(days=session), session, traits)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    long = Episode(
        "long",
        "Sam",
        (said("Ann", "I keep bees.", 1, ("I keep bees.",)), said("Sam", "Do you?", 1), said("Ann", "Yes, ten.", 2)),
        {"Ann": ("I keep bees.", "I am tall.")},
    )
    short = Episode("short", "Sam", (said("Ann", "Hello there.", 1), said("Sam", "Hi.", 1)))
    write_episodes(tmp_path / "corpus.jsonl", [long, short])
    return tmp_path / "corpus.jsonl"


def test_a_corpus_by_session(corpus: Path):
    found = statistics(corpus)
    assert (found["episodes"], found["utterances"]) == (2, 5)
    assert found["by_session"] == {
        "1": {"dialogues": 2, "utterances": 4, "mean_length": 4.0, "longest": 5},  # 5 and 3 words
        "2": {"dialogues": 1, "utterances": 1, "mean_length": 7.0, "longest": 7},  # with its first session
    }
    assert statistics(corpus, limit=1)["episodes"] == 1
    assert statistics(corpus, length=len)["by_session"]["2"]["longest"] == len("I keep bees.Do you?Yes, ten.")


def test_a_benchmark_by_sample(tmp_path: Path):
    turns = (said(USER, "I row.", 1), said(ASSISTANT, "Where?", 1), said(USER, "At home.", 2))
    probe = ("What do I do?", "You row.")
    samples = [sample(Episode("a", ASSISTANT, turns), [probe] * 3), sample(Episode("b", ASSISTANT, turns[:2]), [probe])]
    write_samples(tmp_path / "knowledge.jsonl", "knowledge", samples, {})
    found = statistics(tmp_path / "knowledge.jsonl")
    assert (found["samples"], found["sessions"], found["utterances"], found["questions"]) == (2, 1.5, 2.5, 2)


def test_the_tables_of_statistics_are_filled(tmp_path: Path, command_line: CommandLine):
    msc = SAMPLES / "msc_session_3.txt"
    ran = command_line("statistics", msc, SAMPLES / "carecall.json", "--out", tmp_path / "statistics", "--json")
    first, second = json.loads(ran.out)["statistics"]
    table = command_line("tables", "a10", "--from", tmp_path).out
    of_3 = first["by_session"]["3"]
    row = " | ".join(f"**{value}**" for value in (of_3["dialogues"], of_3["utterances"], f"{of_3['mean_length']:.2f}"))
    assert f"ours: Session 3 (samples/msc_session_3.txt)** | {row}" in table
    assert "ours: Session 5, not run" in table  # the sample has three sessions
    assert "lengths in words" in table
    assert f"| **{second['by_session']['2']['utterances']}** |" in command_line("tables", "a11", "--from", tmp_path).out
    assert "utterances" in command_line("statistics", msc).out


def test_a_file_that_is_not_figures_is_left_out_and_named(tmp_path: Path):
    (tmp_path / "figures.json").write_text('{"figures": [{"data": "x"}]}')
    assert "not figures" in collect(tmp_path).left_out[0]
