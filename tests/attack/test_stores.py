"""Exports that were cut or changed, and store files that are broken or none: whole, or refused with one line."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene

from ld_agent.errors import LDAgentError
from ld_agent.storage.exchange import AHEAD, export_lines, import_lines
from ld_agent.storage.sqlite.store import SQLiteStore


@pytest.fixture
def exported(scene: Scene) -> bytes:
    """A small export of every kind of line."""
    maya = scene.agent().conversation("maya")
    for turn, text in enumerate(("I keep bees.", "I moved to Oslo.", "I sing in a choir.")):
        maya.respond(text, "Maya", START + turn * DAY)
    maya.pin(maya.traits()[0].id)
    return "".join(f"{line}\n" for line in export_lines(scene.opened[0].store, "maya")).encode()


def refused(work: Callable[[], object]) -> str:
    """The one line with which something is refused; "": it is not."""
    try:
        work()
    except LDAgentError as exc:
        return str(exc).replace("\n", "two lines")
    return ""


def imported(store: SQLiteStore, content: bytes, **more: object) -> str:
    """Why an export is refused; "": it was imported. Then it is exported again, and deleted."""
    lines = content.splitlines(keepends=True)
    if refusal := refused(lambda: import_lines(store, lines, "the file", "maya", **more)):
        assert store.conversations() == [], "a refused import left something"
        return refusal
    assert "".join(f"{line}\n" for line in export_lines(store, "maya")).encode() == content
    store.delete_conversation(store.conversations()[0].key)
    return ""


def test_an_export_cut_anywhere_is_imported_whole_or_not_at_all(exported: bytes, tmp_path: Path, whole: bool) -> None:
    store = SQLiteStore(tmp_path / "cut.db")
    assert imported(store, exported) == ""
    last = len(exported.rstrip(b"\n"))
    for place in range(0, last, 1 if whole else 97):
        assert imported(store, exported[:place]), place
    store.close()


def test_an_export_with_a_changed_byte_is_imported_or_refused(exported: bytes, tmp_path: Path, whole: bool) -> None:
    store, chance = SQLiteStore(tmp_path / "changed.db"), random.Random(5)
    for _ in range(3_000 if whole else 60):
        place = chance.randrange(len(exported))
        changed = exported[:place] + bytes([chance.randrange(256)]) + exported[place + 1 :]
        lines = changed.splitlines(keepends=True)
        if reason := refused(lambda lines=lines: import_lines(store, lines, "the file", "maya")):
            assert "two lines" not in reason
            assert store.conversations() == []
        else:
            assert list(export_lines(store, "maya"))
            store.delete_conversation(store.conversations()[0].key)
    store.close()


def rows(content: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in content.splitlines()]


def written(lines: list[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def test_what_is_no_number_is_not_imported(exported: bytes, tmp_path: Path) -> None:
    lines = rows(exported)
    record = next(line for line in lines if line.get("kind") == "record")
    record["details"] = {"weights": [1, {"of": float("nan")}]}
    store = SQLiteStore(tmp_path / "s.db")
    assert "NaN is not a number" in imported(store, written(lines))
    store.close()


def test_traits_that_supersede_each_other_in_a_circle_are_not_imported(exported: bytes, tmp_path: Path) -> None:
    lines = rows(exported)
    traits = [line for line in lines if line.get("kind") == "trait"]
    store = SQLiteStore(tmp_path / "s.db")
    for ring in (traits[:1], traits[:3]):
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            one["superseded_by"] = other["id"]
        assert "is superseded by itself" in imported(store, written(lines))
    for trait in traits:
        trait["superseded_by"] = traits[-1]["id"] if trait is not traits[-1] else None
    assert imported(store, written(lines)) == ""
    store.close()


def test_what_is_still_to_come_is_imported_only_of_a_session_that_has_ended(exported: bytes, tmp_path: Path) -> None:
    store, times = (
        SQLiteStore(tmp_path / "s.db"),
        [str(line["at"]) for line in rows(exported) if line.get("kind") == "utterance"],
    )
    assert times[-1] > START.isoformat()
    assert "is still to come" in imported(store, exported, latest=START + AHEAD)
    assert imported(store, exported, latest=START + 4 * DAY) == ""
    ended = [line | {"closed": True} if line.get("kind") == "session" else line for line in rows(exported)]
    assert imported(store, written(ended), latest=START + AHEAD) == ""
    store.close()


def test_a_store_file_that_is_broken_or_none_is_refused_with_one_line(
    scene: Scene, tmp_path: Path, whole: bool
) -> None:
    maya = scene.agent().conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    scene.close()
    scene.opened.clear()
    [path] = tmp_path.glob("store.db")
    sound, chance, reasons = path.read_bytes(), random.Random(3), list[str]()
    foreign = tmp_path / "foreign.db"
    other = sqlite3.connect(foreign)
    other.execute("CREATE TABLE utterance (x)")
    other.commit()
    other.close()
    contents = [b"", b"SQLite format 3\0", b"x" * 5_000, sound[:4096], sound[: len(sound) // 2], foreign.read_bytes()]
    contents.append(
        sound.replace(b"CREATE TABLE conv", b"CREATE TABLE \x87onv")
    )  # SQLite's message about it is no text
    for _ in range(300 if whole else 12):
        place, size = chance.randrange(len(sound)), chance.choice((1, 16, 512))
        contents.append(sound[:place] + chance.randbytes(size) + sound[place + size :])
    for number, content in enumerate(contents):
        broken = tmp_path / f"broken{number}.db"
        broken.write_bytes(content)
        reasons += filter(None, [refused(lambda path=broken: read(path))])
    assert len(reasons) >= 4
    assert not [reason for reason in reasons if "two lines" in reason]


def read(path: Path) -> None:
    """Open a store and read everything."""
    with closing(SQLiteStore(path)) as store:
        list(export_lines(store))
