"""SQLite's own plan of every statement of a turn and of a session's end: none reads or sorts a whole history."""

import re
import sqlite3
from datetime import timedelta

from agent_parts import START, Scene

from ld_agent.storage.sqlite.store import SQLiteStore

VIEWS = ["events", "recursive", "conditional", "dense"]
PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)")
SCAN = re.compile(r"SCAN (?!json_each)|AUTOMATIC")
SORT = re.compile(r"USE TEMP B-TREE FOR ORDER BY")
OF_ALL = re.compile(
    r"SEARCH (session|utterance|record|trait|digested|observed) .*\(conversation=\?( AND (view|thread)=\?)?\)$"
)
"""A search that reads all rows of a conversation or view."""
FEW_SORTED = re.compile(r"session_open|SELECT max\(number\)|json_each")
"""What bounds the rows that a statement may sort: open sessions, the last session, or ids that were given."""
FEW_READ = re.compile(
    r"session_open|extracted = 0|pinned = 1|max\(number\)|LIMIT \d|SELECT count\(\*\) FROM record|SELECT DISTINCT channel"
)
"""The same for those it may read. Two read a view's records after a session, in under 1 µs each: the count for an index that
grows, and the channels of all that a rewritten memory was made from."""


def statements(scene: Scene) -> dict[str, list[str]]:
    """By statement of three turns and a session's end, the lines of its plan."""
    agent = scene.agent(**{"memory.views": VIEWS, "memory.quotes": 80})
    assert isinstance(agent.store, SQLiteStore)
    seen: dict[str, None] = {}
    maya = agent.conversation("maya")
    for day in range(3):
        maya.respond(f"I keep {day} bees in Lyon.", at=START + timedelta(days=day))
    db: sqlite3.Connection = agent.store.db._db
    db.set_trace_callback(lambda sql: seen.setdefault(sql))
    maya.respond("How many bees do I keep in Lyon?", at=START + timedelta(days=9))
    maya.respond("And in Paris?", at=START + timedelta(days=9, minutes=3))
    maya.respond("I keep wasps in Paris.", at=START + timedelta(days=9, minutes=6))
    maya.end_session()
    db.set_trace_callback(None)
    return {sql: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")] for sql in seen if PLANNED.match(sql)}


def test_no_statement_reads_or_sorts_a_whole_history(scene: Scene) -> None:
    plans = statements(scene)
    assert {sql.split()[0] for sql in plans} == {"SELECT", "INSERT", "UPDATE", "DELETE"}

    def planned(steps: re.Pattern[str], but: re.Pattern[str] = re.compile(r"(?!)")) -> dict[str, list[str]]:
        return {sql: plan for sql, plan in plans.items() if any(map(steps.match, plan)) and not re.search(but, sql)}

    assert planned(SCAN) == {}
    assert planned(SORT, FEW_SORTED) == {}
    assert planned(OF_ALL, FEW_READ) == {}
