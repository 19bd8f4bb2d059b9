"""No command writes over what it reads, over its store or over any SQLite file, whatever name leads there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_commands import CommandLine, light_config

from ld_agent.errors import InputError
from ld_agent.files import check_output, is_sqlite, written_atomically
from ld_agent.storage.sqlite.store import SQLiteStore

TALK = '{"conversation": "c", "agent": "Sam", "utterances": []}\n'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    opened = SQLiteStore(path)
    opened.open_conversation("c", "Sam")
    opened.close()
    return path


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_store_and_what_sqlite_keeps_next_to_it_are_refused(store: Path, end: str) -> None:
    for given in (store, None):  # its store, or another SQLite file
        with pytest.raises(InputError, match="belongs to"):
            check_output(store.with_name(store.name + end), store=given)


def test_links_do_not_get_past(store: Path, tmp_path: Path) -> None:
    data = tmp_path / "in.jsonl"
    data.write_text(TALK)
    (tmp_path / "soft").symlink_to(data)
    os.link(data, tmp_path / "hard")
    for name in ("in.jsonl", "soft", "hard"):
        with pytest.raises(InputError, match=r"is the input .*in\.jsonl; give another file"):
            check_output(tmp_path / name, [None, "default", data])
    (tmp_path / "dangling").symlink_to(f"{store}-wal")
    with pytest.raises(InputError, match="belongs to the store"):
        check_output(tmp_path / "dangling", store=store)
    with pytest.raises(InputError, match="belongs to a SQLite database"):
        check_output(tmp_path / "dangling")


def test_other_files_pass(store: Path, tmp_path: Path) -> None:
    for name in ("new.jsonl", "new-wal", "-wal"):
        check_output(tmp_path / name, [tmp_path / "in.jsonl"], store)
    check_output(tmp_path / "new.jsonl", store=":memory:")
    assert not is_sqlite(tmp_path)


def test_a_file_is_replaced_only_when_its_block_ends_well(tmp_path: Path) -> None:
    path, link = tmp_path / "out.txt", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)

    def fail() -> None:
        with written_atomically(link) as file:
            file.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "before"
    with written_atomically(link) as file:
        file.write("after")
    assert path.read_text() == "after"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "out.txt"]
    for bad in (tmp_path, tmp_path / "none" / "x"):
        with pytest.raises(InputError, match="cannot be written"), written_atomically(bad):
            pass


def test_commands_refuse_with_one_line_and_change_nothing(
    store: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    data = Path(__file__).parent.parent / "data" / "samples" / "three_sessions.jsonl"
    talk = tmp_path / "talk.jsonl"
    talk.write_bytes(data.read_bytes())
    notes = tmp_path / "notes.txt"
    notes.write_text("keep me\n")
    config = light_config(tmp_path)
    before = {path: path.read_bytes() for path in (talk, store, notes, Path(config))}
    for arguments in (
        ["memory", "export", store, "--store", store],
        ["memory", "export", f"{store}-wal", "--store", store],
        ["run", talk, "-c", config, "--out", talk],
        ["run", talk, "-c", config, "--out", config],
        ["run", talk, "-c", config, "--out", notes],
        ["run", talk, "-c", config, "--store", store, "--out", store],
        ["run", talk, "-c", config, "--store", tmp_path / "new.db", "--out", tmp_path / "new.db"],
        ["eval", "response", talk, "-c", config, "--out", talk],
        ["ecm", "build", "continuing", "--from", talk, "-c", config, "--out", talk],
    ):
        done = command_line(*arguments)
        assert done.code == 1, (arguments, done)
        assert done.err.count("\n") == 1, done.err
        assert "give another file" in done.err
    assert {path: path.read_bytes() for path in before} == before
    assert not (tmp_path / "new.db").exists()
