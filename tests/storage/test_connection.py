"""Opening the file: what is made, what is refused and in which words, and what two processes do to each other there."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ld_agent.errors import StoreError
from ld_agent.storage.opening import open_store
from ld_agent.storage.sqlite import connection
from ld_agent.storage.sqlite.connection import APPLICATION_ID, Connection
from ld_agent.storage.sqlite.migrations import MIGRATIONS
from ld_agent.storage.sqlite.store import SQLiteStore

Fill = Callable[..., int]


def child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def raw(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Ask a database behind the store's back."""
    database = sqlite3.connect(path)
    try:
        with database:
            return database.execute(sql).fetchall()
    finally:
        database.close()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that a user without rights can reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="ld_agent-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


# ---- making and migrating


@pytest.mark.parametrize("exists", [False, True])
def test_a_store_is_created_if_missing_or_empty(path: Path, exists: bool) -> None:
    if exists:
        path.touch()
    SQLiteStore(path).close()
    assert raw(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert raw(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert raw(path, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize("version", range(len(MIGRATIONS)))
def test_every_older_version_is_brought_up_to_date_once(
    path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MIGRATIONS", MIGRATIONS[:version])
    Connection(path).close()
    monkeypatch.undo()
    for _ in range(2):
        SQLiteStore(path).close()
    fresh = path.with_name("fresh.db")
    SQLiteStore(fresh).close()
    schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert raw(path, schema) == raw(fresh, schema)
    assert raw(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_a_failed_migration_leaves_the_store_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SQLiteStore(path).close()
    monkeypatch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE half (n);\nCREATE TABLE half (n);\n"))
    with pytest.raises(StoreError, match="half already exists"):
        SQLiteStore(path)
    monkeypatch.undo()
    assert raw(path, "SELECT count(*) FROM sqlite_master WHERE name = 'half'") == [(0,)]
    SQLiteStore(path).close()


def test_a_store_of_a_newer_version_is_refused_and_untouched(path: Path) -> None:
    SQLiteStore(path).close()
    raw(path, "PRAGMA user_version = 99")
    raw(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer ld_agent \(schema 99, this one knows \d+\); upgrade ld_agent"):
        SQLiteStore(path)
    assert path.read_bytes() == before


# ---- what is no store


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is no database" * 99, "not an ld_agent store"),
        (b"short", "not an ld_agent store"),
        (b"\0" * 4096, "not an ld_agent"),
    ],
)
def test_a_file_that_is_not_a_database_is_refused_and_untouched(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match=message) as raised:
        SQLiteStore(path)
    assert str(path) in str(raised.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "sql",
    ["CREATE TABLE notes (text)", "PRAGMA user_version = 7", "PRAGMA user_version = 1", "PRAGMA application_id = 5"],
)
def test_a_database_of_someone_else_is_refused_and_untouched(path: Path, sql: str) -> None:
    raw(path, sql)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database, but not an ld_agent store; give another --store"):
        SQLiteStore(path)
    assert path.read_bytes() == before


def test_a_folder_and_a_path_without_a_folder_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing" / "store.db"):
        with pytest.raises(StoreError, match="cannot be opened; check that its folder exists") as raised:
            SQLiteStore(place)
        assert str(place) in str(raised.value)


WRITE_AS_NOBODY = """
import os, sys
from ld_agent.errors import StoreError
from ld_agent.storage.sqlite.store import SQLiteStore
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    store = SQLiteStore(sys.argv[1])
    print("read", [c.id for c in store.conversations()])
    store.open_conversation("new", "Sam")
except StoreError as exc:
    print(exc)
"""


@pytest.fixture
def closed_store(public_folder: Path) -> Path:
    """A file with one conversation, and a copy of it in a folder of its own whose log is still to be merged."""
    path, copy = public_folder / "a ?#% store.db", public_folder / "copy"
    store = SQLiteStore(path)
    store.open_conversation("old", "Sam")
    shutil.copytree(public_folder, copy, ignore=shutil.ignore_patterns("copy", "*-shm"))
    store.close()
    return path


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555)])
def test_a_store_that_cannot_be_written_can_be_read_and_says_so(closed_store: Path, file: int, folder: int) -> None:
    closed_store.chmod(file)
    closed_store.parent.chmod(folder)
    assert child(WRITE_AS_NOBODY, closed_store).stdout.splitlines() == [
        "read ['old']",
        f"{closed_store}: the store is read-only; make the file and its folder writable",
    ]


def test_a_read_only_folder_gets_no_store_and_its_unmerged_log_is_named(closed_store: Path) -> None:
    folder = closed_store.parent / "copy"
    folder.chmod(0o555)
    assert "copy both files to a writable folder" in child(WRITE_AS_NOBODY, folder / closed_store.name).stdout
    message = child(WRITE_AS_NOBODY, folder / "new.db").stdout
    assert message == f"{folder / 'new.db'}: the store cannot be opened; check that its folder exists and is writable\n"
    folder.chmod(0o755)


# ---- a failing disk


def test_a_full_disk_says_so_and_keeps_what_was_stored(store: SQLiteStore, path: Path, fill: Fill) -> None:
    key = fill(store, "maya")
    said = store.utterances(key)
    pages = store.db.row("PRAGMA page_count")[0]
    store.db.rows(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(
        StoreError, match="the disk is full; free some space and try again, nothing that was stored is lost"
    ):
        store.append(key, "Maya", "x" * 100_000, said[-1].at, 3600, lambda: said[-1].at)
    assert store.utterances(key) == said
    store.db.rows("PRAGMA max_page_count = 1000000")
    assert store.append(key, "Maya", "x" * 100_000, said[-1].at, 3600, lambda: said[-1].at).id == "u5"


def test_corrupt_pages_are_reported_as_damage(store: SQLiteStore, path: Path, fill: Fill) -> None:
    key = fill(store, "maya")
    store.append(key, "Maya", "z" * 200_000, store.utterances(key)[-1].at, 3600, lambda: store.utterances(key)[-1].at)
    store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)

    def read() -> None:
        damaged = SQLiteStore(path)
        damaged.utterances(key)

    with pytest.raises(StoreError, match="the store is damaged; restore it from a copy"):
        read()


# ---- transactions


def test_a_store_locked_for_longer_than_the_patience_gives_one_clear_line(path: Path) -> None:
    holder, store = SQLiteStore(path), SQLiteStore(path, busy_seconds=0.05)
    with (
        holder.db.transaction(),
        pytest.raises(StoreError, match="another process kept the store locked; try again when it is done"),
    ):
        store.open_conversation("maya", "Sam")
    store.open_conversation("maya", "Sam")
    holder.close()
    store.close()


def test_a_closed_store_says_so(store: SQLiteStore) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store was closed; open it again"):
        store.conversations()


OPEN_AT_ONCE = """
import os, sys
from ld_agent.storage.sqlite.store import SQLiteStore
for number in range(15):
    gate_out, gate_in = os.pipe()
    children = []
    for who in range(4):
        pid = os.fork()
        if pid == 0:
            os.close(gate_in)
            os.read(gate_out, 1)
            try:
                SQLiteStore(f"{sys.argv[1]}/{number}.db").open_conversation(f"c{who}", "Sam")
            except BaseException as exc:
                print(exc, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(pid)
    os.close(gate_out)
    os.close(gate_in)
    for pid in children:
        os.waitpid(pid, 0)
    store = SQLiteStore(f"{sys.argv[1]}/{number}.db")
    if len(store.conversations()) != 4:
        print("lost", store.conversations())
    store.close()
"""


def test_processes_that_make_one_store_at_the_same_time_all_get_it(tmp_path: Path) -> None:
    result = child(OPEN_AT_ONCE, tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".db")]) == 15


@pytest.mark.parametrize("path", ["", " "])
def test_a_store_without_a_name_would_keep_nothing_and_is_refused(path: str):
    with pytest.raises(StoreError, match="the store has no name"):
        open_store(path)
