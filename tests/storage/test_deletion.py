"""Deleting a conversation leaves no byte of its texts in any file of the store, and every other conversation as it was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ld_agent.errors import StoreError
from ld_agent.storage.exchange import export_lines
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.storage.store import Store

Fill = Callable[..., int]
SECRET = "Quetzalcoatlus"


def bytes_of(path: Path) -> bytes:
    """Everything that stands in the store's files: database, write-ahead log, shared memory, journals."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def holds(path: Path, text: str) -> bool:
    content = bytes_of(path).lower()
    return any(text.lower().encode(encoding) in content for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


@pytest.mark.parametrize("checkpointed", [True, False])
def test_no_byte_is_left_and_the_others_are_intact(store: Store, path: Path, fill: Fill, checkpointed: bool) -> None:
    fill(store, "ben")
    key = fill(store, f"about {SECRET}", SECRET)
    fill(store, "zoe", "pistachio")
    kept = [list(export_lines(store, name)) for name in ("ben", "zoe")]
    at = store.utterances(key)[-1].at
    store.append(key, SECRET, f"{SECRET} " * 5000, at, 3600, lambda: at)  # overflow pages too
    personas = store.personas(key)
    trait, _ = personas.traits()[0]
    for mentions in range(200):  # rows that grow and move leave old copies behind
        personas.update(replace(trait, mentions=10**mentions % 2**63))
    if checkpointed:
        store.db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    assert holds(path, SECRET)
    store.delete_conversation(key)
    assert not holds(path, SECRET)
    assert holds(path, "pistachio")
    assert [list(export_lines(store, name)) for name in ("ben", "zoe")] == kept
    store.close()
    assert not holds(path, SECRET)
    again = SQLiteStore(path)
    assert [c.id for c in again.conversations()] == ["ben", "zoe"]
    assert again.db.row("PRAGMA integrity_check") == ("ok",)
    again.close()


def test_another_reader_is_named_and_the_next_opening_finishes(path: Path, fill: Fill) -> None:
    store, reader = SQLiteStore(path, busy_seconds=0.05), SQLiteStore(path)
    key = fill(store, "secret", SECRET)
    fill(store, "ben")
    with reader.db.snapshot():
        assert len(reader.conversations()) == 2
        with pytest.raises(StoreError, match="another process is reading the store, so old text may remain"):
            store.delete_conversation(key)
        assert [c.id for c in store.conversations()] == ["ben"]
        assert holds(path, SECRET)
        SQLiteStore(path, busy_seconds=0.05).close()  # still being read: opens all the same
        assert holds(path, SECRET)
    store.close()
    reader.close()
    SQLiteStore(path).close()
    assert not holds(path, SECRET)
