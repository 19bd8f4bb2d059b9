"""What a turn asks of the store costs the same however much the conversation holds, counted in SQLite's own steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ld_agent.storage.base import UNENCODED, Draft
from ld_agent.storage.sqlite.store import Store

START = datetime(2024, 5, 1, 18, 30, tzinfo=UTC)
FEW, MANY = 20, 1000
SESSIONS_APART = timedelta(hours=5)


def filled(path: Path, sessions: int) -> tuple[Store, int]:
    """A store with that many sessions of two utterances, each with a record and a trait."""
    store = Store(path)
    key = store.open_conversation("maya", "Sam").key
    shelf, personas = store.shelf(key, "events"), store.personas(key)
    shelf.enable()
    with store.writing(key):
        for number in range(sessions):
            at = START + number * SESSIONS_APART
            for speaker in ("Maya", "Sam"):
                said = store.append(key, speaker, f"I have {number} bees.", at, 3600, lambda: at)  # noqa: B023
                personas.mark_extracted(said.id)
            store.close_session(key)
            shelf.digest(said.session, [Draft(f"{number} bees.", at, said.session, UNENCODED)])
            personas.add("Maya", f"I have {number} bees.", at, said.id, UNENCODED)
    return store, key


def turn(store: Store, key: int) -> dict[str, Callable[[], object]]:
    """What a turn asks of the store, in order."""
    at = START + MANY * SESSIONS_APART
    shelf = store.shelf(key, "events")
    return {
        "is_stored": lambda: store.is_stored(key),
        "append": lambda: store.append(key, "Maya", "I am back.", at, 3600, lambda: at),
        "open_threads": lambda: store.open_threads(key),
        "open_utterances": lambda: store.open_utterances(key),
        "open_utterances of all threads": lambda: store.open_utterances(key, None),
        "last_utterance": lambda: store.last_utterance(key, ""),
        "last_utterance of all threads": lambda: store.last_utterance(key),
        "unextracted": lambda: store.unextracted(key),
        "mark_extracted": lambda: store.personas(key).mark_extracted(store.unextracted(key)[0].id),
        "speakers": lambda: store.speakers(key),
        "pinned": lambda: store.pinned(key),
        "rows_after": lambda: list(shelf.rows_after(2**40)),
        "newest": shelf.newest,
        "close_session": lambda: store.close_session(key),
        "undigested": shelf.undigested,
        "backlog": shelf.backlog,
        "digest": lambda: shelf.digest(shelf.undigested()[0].number, [Draft("Back.", at, 1, UNENCODED)]),
        "records of a session": lambda: store.records(key, session=2),
    }


def steps(path: Path, sessions: int) -> dict[str, int]:
    """How many instructions of SQLite's virtual machine each of these takes."""
    store, key = filled(path, sessions)
    counts: dict[str, int] = {}
    for name, call in turn(store, key).items():
        count = 0

        def counted() -> int:
            nonlocal count
            count += 1
            return 0

        store.db._db.set_progress_handler(counted, 1)
        call()
        store.db._db.set_progress_handler(None, 0)
        counts[name] = count
    store.close()
    return counts


def test_no_call_of_a_turn_reads_more_in_a_long_conversation(tmp_path: Path) -> None:
    few, many = steps(tmp_path / "few.db", FEW), steps(tmp_path / "many.db", MANY)
    assert many == pytest.approx(few, rel=0.2, abs=60)
