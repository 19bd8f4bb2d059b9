"""Export and import: the same bytes again, whatever was said; a broken line is named and nothing of its file is taken in."""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ld_agent.errors import DataFileError, StoreError
from ld_agent.storage.exchange import copy_conversation, export_lines, import_file, import_into
from ld_agent.storage.rows import Draft
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.storage.store import Store
from ld_agent.types import UNNAMABLE

ENGINES = ("sqlite", "postgres")
Fill = Callable[..., int]
START = datetime(2024, 5, 1, 18, 30, 0, 123456, tzinfo=UTC)
VECTOR = np.ones(4, np.float32)
ALPHABETS = [
    "abc \t\r\n\"\\/'",
    "\0\x01\x1b\x7f\x85",
    "你好，世界。한국어かな",
    "مرحبا \u202e\u200f שלום",
    "👩‍👩‍👧‍👦🏳️‍🌈é\u0301",
    "\u2028\u2029\ufeff\ufffd\uffff",
]
FLOATS = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 1e22, 123456789.123456789, float("inf"), 1 / 3]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    opened = SQLiteStore(tmp_path / "other.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def exported(fill: Fill) -> tuple[str, ...]:
    """The lines of an export of two conversations."""
    with closing(SQLiteStore(":memory:")) as store:
        fill(store, "maya")
        fill(store, "zoe", "pistachio")
        return tuple(export_lines(store))


def save(store: Store, path: Path, conversation: str | None = None) -> bytes:
    path.write_text("".join(line + "\n" for line in export_lines(store, conversation)), encoding="utf-8", newline="\n")
    return path.read_bytes()


def strange(dice: random.Random) -> str:
    """A text of any script, never blank."""
    return "x" + "".join(dice.choice(dice.choice(ALPHABETS)) for _ in range(dice.randrange(30)))


def strange_name(dice: random.Random) -> str:
    """A name of any script, without what a name may not contain."""
    return "".join(c for c in strange(dice) if unicodedata.category(c) not in UNNAMABLE)


def fill_strangely(store: Store, name: str, dice: random.Random) -> None:
    """A conversation of random texts, times, traits, records and details."""
    key = store.open_conversation(name, strange_name(dice)).key
    at = START
    for _ in range(dice.randrange(1, 12)):
        at += timedelta(microseconds=dice.randrange(1, 10**11))
        said = store.append(key, strange_name(dice), strange(dice), at, 3600, lambda: START)
        if dice.random() < 0.5:
            store.personas(key).mark_extracted(said.id)
        if dice.random() < 0.3:
            trait = store.personas(key).add(said.speaker, strange(dice), at, said.id, VECTOR)
            holds = {"holds_from": dice.choice([None, at - timedelta(days=9)]), "ended_by": dice.choice(["", said.id])}
            until = {"holds_until": dice.choice([None, at]), "otherwise_until": dice.choice([None, at])}
            holds["planned_by"] = dice.choice(["", said.id])
            store.personas(key).update(replace(trait, mentions=dice.randrange(1, 9), **until, **holds))
    details = {strange(dice): dice.choice(FLOATS) for _ in range(4)} | {
        "b": [None, True, {"z": 2**70, "a": strange(dice)}]
    }
    text, topics = strange(dice), (strange(dice), strange(dice))
    shelf = store.shelf(key, "events")
    for number in [session.number for session in shelf.undigested()]:
        draft = Draft(text, at, number, VECTOR, topics, ("u1",), number % 2 == 0, details)
        shelf.digest(number, [] if dice.random() < 0.3 else [draft])


@pytest.mark.parametrize("seed", range(8))
def test_export_import_export_gives_the_same_bytes(store: Store, other: Store, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(5):
        fill_strangely(store, f"{number} {strange(dice)}", dice)
    first = save(store, tmp_path / "first.jsonl")
    assert first.count(b"\n") > 20
    assert import_file(other, tmp_path / "first.jsonl") == 5
    assert save(other, tmp_path / "second.jsonl") == first


def test_a_conversation_moved_to_another_store_continues_there(
    store: Store, other: Store, tmp_path: Path, fill: Fill
) -> None:
    fill(store, "maya")
    fill(store, "zoe", "pistachio")
    exported = save(store, tmp_path / "maya.jsonl", "maya")
    assert b"pistachio" not in exported
    fill(other, "ben", "almond")
    before = list(export_lines(other, "ben"))
    assert import_file(other, tmp_path / "maya.jsonl") == 1
    assert [c.id for c in other.conversations()] == ["ben", "maya"]
    assert list(export_lines(other, "ben")) == before
    assert save(other, tmp_path / "again.jsonl", "maya") == exported
    for taken in (store, other):
        key = taken.open_conversation("maya", "Sam").key
        at = taken.utterances(key)[-1].at
        assert taken.append(key, "Maya", "on we go", at, 3600, lambda: START).id == "u5"
        assert taken.personas(key).add("Maya", "I sing.", at, "u5", VECTOR).id == "t3"
        assert [u.text for u in taken.open_utterances(key)] == ["walnut after all", "on we go"]
        assert [u.id for u in taken.unextracted(key)] == ["u2", "u3", "u4", "u5"]
        assert [s.number for s in taken.shelf(key, "events").undigested()] == []
    assert other.without_vector()


def test_a_conversation_that_is_there_already_is_refused_and_kept(
    store: Store, other: Store, tmp_path: Path, fill: Fill
) -> None:
    fill(store, "maya")
    fill(store, "zoe")
    save(store, tmp_path / "both.jsonl")
    fill(other, "zoe", "almond")
    before = list(export_lines(other))
    with pytest.raises(StoreError, match=r"both.jsonl, line \d+: .*already has a conversation 'zoe'; delete it first"):
        import_file(other, tmp_path / "both.jsonl")
    assert list(export_lines(other)) == before


def test_an_unknown_conversation_is_not_exported_and_the_known_ones_are_named(store: Store, fill: Fill) -> None:
    fill(store, "maya")
    with pytest.raises(StoreError, match="no conversation 'Maya'; it has: maya"):
        list(export_lines(store, "Maya"))


def test_each_conversation_is_exported_as_of_one_moment(
    store: Store, open_store: Callable[[], Store], fill: Fill
) -> None:
    key = fill(store, "maya")
    whole = list(export_lines(store))
    fill(store, "zoe")
    other = open_store()
    lines = export_lines(store)
    torn = [next(lines) for _ in range(3)]
    at = other.utterances(key)[-1].at
    other.append(key, "Maya", "a late word", at, 3600, lambda: at)
    other.delete_conversation(other.open_conversation("zoe", "Sam").key)
    assert [*torn, *lines] == whole


# ---- broken files

LATER = ("utterances", "closed", "id", "number", "superseded_by", "at", "session")
"""Columns whose values may be contradicted by a later line only."""


def changed(lines: list[str], kind: str, values: dict[str, Any]) -> int:
    """Change the first line of a kind in place, or take the key named by "drop" away; returns the line's index."""
    index = next(i for i, line in enumerate(lines) if json.loads(line)["kind"] == kind)
    row = json.loads(lines[index]) | values
    row.pop(row.pop("drop", ""), None)
    lines[index] = json.dumps(row)
    return index


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("conversation", {"id": 5}),
        ("conversation", {"agent": None}),
        ("conversation", {"utterances": 2}),
        ("conversation", {"records": "1"}),
        ("conversation", {"drop": "traits"}),
        ("session", {"number": 2**63}),
        ("session", {"closed": 1}),
        ("session", {"closed": False}),
        ("digested", {"view": ["events"]}),
        ("utterance", {"text": None}),
        ("utterance", {"text": "\ud800"}),
        ("utterance", {"at": "yesterday"}),
        ("utterance", {"at": "0001-01-01T00:00:00+14:00"}),
        ("utterance", {"session": 7}),
        ("utterance", {"id": "u2"}),
        ("utterance", {"id": "u99"}),
        ("utterance", {"extracted": "no"}),
        ("utterance", {"drop": "speaker"}),
        ("record", {"topics": [1]}),
        ("record", {"details": []}),
        ("record", {"sources": None}),
        ("conversation", {"id": " "}),
        ("conversation", {"agent": "Sam\nAnn"}),
        ("conversation", {"agent": ""}),
        ("conversation", {"utterances": 5}),
        ("session", {"number": 2}),
        ("digested", {"view": ""}),
        ("digested", {"session": 3}),
        ("utterance", {"id": "t1"}),
        ("utterance", {"text": " \n"}),
        ("utterance", {"speaker": ""}),
        ("utterance", {"speaker": "Ann\nSam"}),
        ("utterance", {"at": "2025-05-01T18:30:00+00:00"}),
        ("utterance", {"session": 2}),
        ("record", {"text": ""}),
        ("record", {"view": ""}),
        ("record", {"session": 3}),
        ("record", {"sources": ["u5"]}),
        ("trait", {"text": " "}),
        ("trait", {"speaker": "Ann\nSam"}),
        ("trait", {"source": "u5"}),
        ("trait", {"superseded_by": "t9"}),
        ("trait", {"ended_by": "u99"}),
        ("trait", {"planned_by": "u99"}),
        ("trait", {"holds_until": "2024-05-01T18:30:00"}),
        ("trait", {"mentions": 1.5}),
        ("trait", {"kind": "trail"}),
        ("trait", {"drop": "kind"}),
    ],
)
def test_a_line_that_does_not_fit_is_named_and_nothing_is_imported(
    exported: tuple[str, ...], tmp_path: Path, kind: str, values: dict[str, Any]
) -> None:
    *lines, end = exported
    first = next(i for i, line in enumerate(lines) if '"zoe"' in line)
    tail = lines[first:]
    number = first + changed(tail, kind, values) + 1
    (tmp_path / "broken.jsonl").write_text("\n".join([*lines[:first], *tail, end]) + "\n", encoding="utf-8")
    with closing(SQLiteStore(":memory:")) as store:
        with pytest.raises(DataFileError) as raised:
            import_file(store, tmp_path / "broken.jsonl")
        assert store.conversations() == []
        store.open_conversation("still usable", "Sam")
    assert raised.value.path.endswith("broken.jsonl")
    assert raised.value.line is not None
    assert number <= raised.value.line <= len(lines) + 1
    assert raised.value.line == number or set(values) & set(LATER)
    assert "nothing was imported" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "content"),
    [
        (1, b'{"format": "ld_agent.memory", "version": 3}\n'),
        (1, b"SQLite format 3\0"),
        (1, b"\xef\xbb\xbf{}"),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n{"kind": "session", "number": 1, "closed": true}\n'),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n[1]\n'),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n{"kind": "conversa'),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n{"kind": "\xff"}\n'),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n' + b"[" * 200_000),
        (2, b'{"format": "ld_agent.memory", "version": 1}\n{"kind": ' + b"9" * 5000 + b"}"),
    ],
)
def test_a_file_that_is_not_an_export_is_named_with_its_line(
    store: Store, tmp_path: Path, line: int, content: bytes
) -> None:
    (tmp_path / "no.jsonl").write_bytes(content)
    with pytest.raises(DataFileError, match=rf"no.jsonl, line {line}: ") as raised:
        import_file(store, tmp_path / "no.jsonl")
    assert len(str(raised.value)) < 500
    assert store.conversations() == []


def test_an_empty_file_a_folder_and_no_file_are_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataFileError, match=r"empty.jsonl: is empty; give an export"):
        import_file(store, tmp_path / "empty.jsonl")
    for path in (tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(DataFileError, match="cannot be read"):
            import_file(store, path)


def cut(lines: list[str], path: Path) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def test_only_a_whole_export_makes_a_file(store: Store, tmp_path: Path, fill: Fill) -> None:
    fill(store, "maya")
    fill(store, "zoe")
    lines = list(export_lines(store))
    (tmp_path / "new").mkdir()
    for kept in range(1, len(lines)):
        with pytest.raises(DataFileError, match=rf"line {kept}: .*; nothing was imported"):
            import_into(tmp_path / "new" / "new.db", cut(lines[:kept], tmp_path / "cut.jsonl"))
    assert not list((tmp_path / "new").iterdir())
    for gone in range(1, 6):
        with pytest.raises(DataFileError):
            import_into(
                tmp_path / "new" / "new.db", cut(lines[:-gone] + lines[len(lines) - gone + 1 :], tmp_path / "cut.jsonl")
            )
    with pytest.raises(DataFileError, match="a line follows the end line"):
        import_into(tmp_path / "new" / "new.db", cut([*lines, lines[-1]], tmp_path / "cut.jsonl"))
    with pytest.raises(StoreError, match="there is no folder"):
        import_into(tmp_path / "none" / "s.db", cut(lines, tmp_path / "cut.jsonl"))
    assert import_into(tmp_path / "new" / "s.db", tmp_path / "cut.jsonl") == 2
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["s.db"]
    with pytest.raises(StoreError, match="already has a conversation 'maya'; delete it first"):
        import_into(tmp_path / "new" / "s.db", tmp_path / "cut.jsonl")


def test_a_session_out_of_order_is_named(store: Store, exported: tuple[str, ...], tmp_path: Path) -> None:
    changed(lines := [*exported[1:]], "session", {"number": 3})
    with pytest.raises(DataFileError, match="session 2 follows session 3"):
        import_file(store, cut([exported[0], *lines], tmp_path / "turned.jsonl"))


def test_an_export_of_version_1_is_imported_if_complete(store: Store, other: Store, tmp_path: Path, fill: Fill) -> None:
    fill(store, "maya")
    header, *lines, _ = export_lines(store)
    old = [json.dumps(json.loads(header) | {"version": 1}), *lines]
    assert import_file(other, cut(old, tmp_path / "old.jsonl")) == 1
    assert list(export_lines(other)) == list(export_lines(store))
    for row in (rows := [json.loads(line) for line in old]):
        for column in ("holds_from", "holds_until", "ended_by"):  # is then known from what superseded a trait
            row.pop(column, None)
    with closing(SQLiteStore(tmp_path / "third.db")) as third:
        import_file(third, cut([json.dumps(row) for row in rows], tmp_path / "older.jsonl"))
        ends = [(t.superseded_by, t.holds_until, t.ended_by) for t, _ in third.personas(1).traits()]
    assert ends == [("t2", START, "u1"), (None, None, "")]
    last = max(n for n, line in enumerate(old) if '"kind": "utterance"' in line)
    with pytest.raises(DataFileError, match="has 4 utterances, but 3 lines of them"):
        import_into(tmp_path / "new.db", cut(old[:last], tmp_path / "old.jsonl"))
    assert not (tmp_path / "new.db").exists()


def test_copies_of_a_conversation_differ_in_their_ids_alone(store: Store, fill: Fill) -> None:
    fill(store, "maya")
    copy_conversation(store, "maya", ["x", "y"])
    assert [c.id for c in store.conversations()] == ["maya", "x", "y"]
    _, _, *original, _ = export_lines(store, "maya")
    _, _, *copied, _ = export_lines(store, "y")
    assert copied == original
