"""Marks of relevant memories, with the real store, index and encoder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ld_agent.cli.annotate import register
from ld_agent.errors import DataFileError, InputError, StoreError
from ld_agent.evaluation.judging.annotation import Mark, add_mark, load_marks
from ld_agent.storage.base import Draft
from ld_agent.storage.sqlite.store import Store

START = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    made = typer.Typer()
    register(made)
    return made


def test_marks_are_saved_and_scorers_compared(app: typer.Typer, tmp_path: Path, store_of_two: Path):
    marks = tmp_path / "marks.jsonl"
    common = ["--store", str(store_of_two), "memory.k=1"]
    typed = "Who is Biscuit the beagle?\n1\nWho bought the violin?\n2\n\n"
    done = CliRunner().invoke(
        app, ["annotate", str(marks), "--conversation", "alice", "--at", "2024-06-01T00:00:00Z", *common], input=typed
    )
    assert done.exit_code == 0, done.output
    assert [mark.relevant for mark in load_marks(marks)] == [("m1",), ("m2",)]
    done = CliRunner().invoke(app, ["marks", str(marks), "--json", *common])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["queries"], found["records"]) == (2, 4)
    assert found["scorers"] == {
        name: {"accuracy": 1.0, "recall": 1.0, "precision": 1.0} for name in ("paper", "hybrid", "dense", "bm25")
    }


@pytest.fixture
def store_of_two(tmp_path: Path) -> Path:
    """A memory of two events of "alice"."""
    path = tmp_path / "two.db"
    store = Store(path)
    key = store.open_conversation("alice", "Sam").key
    for number, text in enumerate(["Maya adopted a beagle, Biscuit.", "Maya sold her violin to Ben."], 1):
        draft = Draft(text, START.replace(day=number), number, topics=tuple(text.lower().split()))
        store.shelf(key, "events").digest(number, [draft])
    store.close()
    return path


def test_an_invalid_number_marks_nothing(app: typer.Typer, tmp_path: Path, store_of_two: Path):
    marks = tmp_path / "marks.jsonl"
    done = CliRunner().invoke(
        app,
        ["annotate", str(marks), "--conversation", "alice", "--store", str(store_of_two)],
        input="Who is Biscuit?\n7\n",
    )
    assert isinstance(done.exception, InputError)
    assert not marks.exists()


def test_invalid_mark_files_are_rejected(app: typer.Typer, tmp_path: Path, store_of_two: Path):
    with pytest.raises(InputError, match=r"none\.jsonl"):
        load_marks(tmp_path / "none.jsonl")
    broken = tmp_path / "broken.jsonl"
    add_mark(broken, Mark("alice", "?", "2024-06-01T00:00:00Z", ("m1",), ("m9",)))
    with pytest.raises(DataFileError, match="line 1: relevant contains 'm9'"):
        load_marks(broken)
    foreign = tmp_path / "foreign.jsonl"
    add_mark(foreign, Mark("bob", "?", "2024-06-01T00:00:00Z", ("m1",), ()))
    done = CliRunner().invoke(app, ["marks", str(foreign), "--store", str(store_of_two)])
    assert isinstance(done.exception, StoreError)
