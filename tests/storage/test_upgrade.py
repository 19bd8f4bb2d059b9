"""A store of schema 3, as the version before threads wrote it, is upgraded with everything in it kept."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from ld_agent.storage.rows import microseconds
from ld_agent.storage.sqlite.connection import APPLICATION_ID
from ld_agent.storage.sqlite.migrations import MIGRATIONS
from ld_agent.storage.sqlite.store import SQLiteStore

AT = datetime(2024, 5, 1, 18, 30, tzinfo=UTC)
DAY = timedelta(days=1)
VECTOR = np.arange(4, dtype="<f4")
CONVERSATION = 7
SAID = [
    ("u1", 1, "Maya", "I keep bees.", AT, 1),
    ("u2", 1, "Sam", "How nice.", AT, 1),
    ("u3", 2, "Maya", "I moved to Lyon.", AT + DAY, 1),
    ("u4", 3, "Ben", "Who is there?", AT + 2 * DAY, 0),
]
RECORDS = [
    ("m1", "events", 1, "Maya keeps bees.", AT, ["bee"], ["u1", "u2"], 0, {}, VECTOR.tobytes()),
    ("m3", "recursive", 1, "Maya: keeps bees.", AT, [], ["u1"], 1, {"version": 1}, None),
]
TRAITS = [
    ("t1", "Maya", "I live in Nice.", AT, "u1", AT, 2, "t2", VECTOR.tobytes()),
    ("t2", "Maya", "I live in Lyon.", AT + DAY, "u3", AT + DAY, 1, None, None),
]


def stored(value: object) -> object:
    if isinstance(value, datetime):
        return microseconds(value)
    return json.dumps(value) if isinstance(value, list | dict) else value


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    db = sqlite3.connect(path)
    for migration in MIGRATIONS[:3]:
        db.executescript(migration)
    db.execute("PRAGMA user_version = 3")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(
        "INSERT INTO meta VALUES ('encoder', ?)", (json.dumps({"dimension": 4, "name": "mini"}, separators=(",", ":")),)
    )
    db.execute("INSERT INTO conversation VALUES (?, 'maya', 'Sam', 4, 3, 2)", (CONVERSATION,))
    db.execute("INSERT INTO conversation VALUES (9, 'ben', 'Sam', 0, 0, 0)")
    db.executemany("INSERT INTO session VALUES (?, ?, ?)", [(CONVERSATION, n, int(n < 3)) for n in (1, 2, 3)])
    for table, columns, rows in (
        ("utterance", "id, session, speaker, text, at, extracted", SAID),
        ("record", "id, view, session, text, at, topics, sources, fallback, details, vector", RECORDS),
        ("trait", "id, speaker, text, at, source, last_at, mentions, superseded_by, vector", TRAITS),
    ):
        places = ", ?" * len(rows[0])
        for row in rows:
            statement = f"INSERT INTO {table} (conversation, {columns}) VALUES (?{places})"
            db.execute(statement, (CONVERSATION, *map(stored, row)))
    db.executemany(
        "INSERT INTO digested VALUES (?, ?, ?)", [(CONVERSATION, "events", 1), (CONVERSATION, "recursive", 1)]
    )
    db.execute("INSERT INTO observed VALUES (?, 'conditional', 'u1')", (CONVERSATION,))
    db.execute("INSERT INTO passage VALUES (1, '[[],[],[]]', x'00')")
    db.commit()
    db.close()
    return path


def test_a_store_of_schema_3_keeps_everything(old_store: Path) -> None:
    store = SQLiteStore(old_store)
    assert [(c.key, c.id, c.agent) for c in store.conversations()] == [(9, "ben", "Sam"), (CONVERSATION, "maya", "Sam")]
    said = store.utterances(CONVERSATION)
    assert [(u.id, u.session, u.speaker, u.text, u.at) for u in said] == [row[:5] for row in SAID]
    assert [u.id for u in store.unextracted(CONVERSATION)] == ["u4"]
    assert [u.id for u in store.open_utterances(CONVERSATION)] == ["u4"]
    assert store.open_threads(CONVERSATION) == [""]
    records = store.records(CONVERSATION)
    for record, row in zip(records, RECORDS, strict=True):
        kept = (record.id, record.view, record.session, record.text, record.at, [*record.topics], [*record.sources])
        assert (*kept, int(record.fallback), dict(record.details)) == row[:9]
    assert not any(r.pinned for r in records)
    assert [(r.channel, r.said_by) for r in records] == [("chat", ("Maya",))] * 2
    assert {(u.channel, u.interrupted) for u in said} == {("chat", False)}
    traits = store.personas(CONVERSATION).traits()
    assert [(t.id, t.speaker, t.text, t.at, t.source, t.last_at, t.mentions, t.superseded_by) for t, _ in traits] == [
        row[:8] for row in TRAITS
    ]
    assert {t.channel for t, _ in traits} == {"chat"}
    holds = [(t.holds_from, t.holds_until, t.ended_by) for t, _ in traits]
    assert holds == [(None, AT + DAY, "u3"), (None, None, "")]
    assert [None if v is None else v.tolist() for _, v in traits] == [VECTOR.tolist(), None]
    shelf = store.shelf(CONVERSATION, "events")
    [row] = shelf.rows_after(0)
    assert row.vector is not None
    assert row.vector.tolist() == VECTOR.tolist()
    assert shelf.passage_words([1]) == {1: "[[],[],[]]"}
    store.check_encoder("mini", 4)
    store.close()


def test_a_store_of_schema_3_is_upgraded_in_place(old_store: Path) -> None:
    store = SQLiteStore(old_store)
    assert store.speakers(CONVERSATION) == ["Maya", "Sam", "Ben"]
    shelf = store.shelf(CONVERSATION, "events")
    shelf.enable()
    assert [s.number for s in shelf.undigested()] == [2]
    assert [u.id for u in store.shelf(CONVERSATION, "conditional").unobserved(1, "Sam")] == []
    said = store.append(CONVERSATION, "Maya", "Me.", AT + 2 * DAY, 3600, lambda: AT, thread="")
    assert (said.id, said.session) == ("u5", 3)
    elsewhere = store.append(CONVERSATION, "Zoe", "Hi.", AT + 2 * DAY, 3600, lambda: AT, thread="phone")
    assert elsewhere.session == 4
    assert store.speakers(CONVERSATION) == ["Maya", "Sam", "Ben", "Zoe"]
    store.close()
    again = SQLiteStore(old_store)
    assert again.counts(CONVERSATION) == {"sessions": 4, "utterances": 6, "records": 2, "traits": 1}
    again.close()
