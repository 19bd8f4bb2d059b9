"""Killed with SIGKILL before any SQL statement, a store opens again with all that was acknowledged, and work goes on."""

import json
import os
import random
from pathlib import Path

import pytest
from agent_process import Processes, Task

from ld_agent.storage.sqlite.store import SQLiteStore

TEXTS = ["I keep bees in Lyon.", "I paint the bees.", "I sing in a choir.", "I moved to Oslo.", "I bought a boat."]
GAPS = [0, 60, 7200, 60, 86_400]
WHOLE = os.environ.get("ATTACK") == "whole"
POINTS, SEED = 30, int(os.environ.get("ATTACK_SEED", "20240501"))


def conversation(path: Path, **more: object) -> Task:
    return {"store": str(path), "conversation": "maya", "speaker": "Maya", "texts": TEXTS, "gaps": GAPS} | more


def acknowledged(lines: list[str]) -> list[tuple[str, str]]:
    return [(i, text) for i, text in (json.loads(line)[:2] for line in lines) if i.startswith("u")]


@pytest.fixture(scope="module")
def statements(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many SQL statements the conversation takes when nobody kills it."""
    [whole] = processes.run(conversation(tmp_path_factory.mktemp("whole") / "store.db"))
    assert whole["status"] == 0, whole
    assert len(acknowledged(whole["lines"])) == 2 * len(TEXTS)
    return int(json.loads(whole["lines"][-1])[1])


def points(statements: int) -> list[int]:
    """Where to kill: spread over the whole conversation, with a fixed seed; in the whole programme before every statement."""
    if WHOLE:
        return list(range(1, statements + 1))
    dice = random.Random(SEED)
    share = statements / POINTS
    return [1 + int(n * share + dice.random() * share) for n in range(POINTS)]


def test_whatever_was_acknowledged_survives_kills_and_pending_work_is_finished(
    processes: Processes, statements: int, tmp_path: Path
) -> None:
    assert statements > 5 * POINTS
    seen: dict[str, int] = {}
    dice = random.Random(SEED + 1)
    for number, point in enumerate(points(statements)):
        path = tmp_path / f"{point}.db"
        [killed] = processes.run(conversation(path, kill_before=point))
        assert (killed["status"], killed["signal"]) == (None, 9), (point, killed)
        said, lost = acknowledged(killed["lines"]), 2
        if number % 4 == 3:  # killed once more while the work of the first is finished
            more = conversation(path, texts=["I never sleep."], gaps=[7200], kill_before=dice.randrange(20, 90))
            [killed] = processes.run(more)
            assert killed["signal"] == 9
            said, lost = said + acknowledged(killed["lines"]), 4

        store = SQLiteStore(path)
        assert store.db.row("PRAGMA integrity_check") == ("ok",), point
        found = store.find_conversation("maya")
        stored = [(u.id, u.text) for u in store.utterances(found.key)] if found else []
        assert [pair for pair in stored if pair in said] == said, point
        assert len(stored) <= len(said) + lost, point
        pending = bool(found) and bool(store.unextracted(found.key) or store.shelf(found.key, "events").undigested())
        seen["pending"] = seen.get("pending", 0) + pending
        seen["unacknowledged"] = seen.get("unacknowledged", 0) + (len(stored) > len(said))
        store.close()

        [again] = processes.run(conversation(path, texts=["And on we go."], gaps=[60]))
        assert again["status"] == 0, (point, again)
        assert_finished(path, point, stored)
    assert min(seen.values()) >= 3, f"the kills fell beside the interesting places: {seen}"


def test_a_killed_deletion_is_atomic(processes: Processes, tmp_path: Path) -> None:
    gone = 0
    for point in range(12, 60, 2):
        path = tmp_path / f"{point}.db"
        processes.run(conversation(path, texts=TEXTS[:1], gaps=[0]))
        [killed] = processes.run(conversation(path, texts=[], delete=True, kill_before=point))
        SQLiteStore(path).close()
        content = b"".join(file.read_bytes() for file in tmp_path.glob(f"{point}.db*") if file.suffix != ".out")
        store = SQLiteStore(path)
        found = store.find_conversation("maya")
        assert (found is None) == (b"bees" not in content), point
        if found is not None:
            assert len(store.utterances(found.key)) == 2, point
            assert killed["lines"] == []
        gone += found is None
        assert store.db.row("PRAGMA integrity_check") == ("ok",), point
        store.close()
        if killed["status"] == 0:
            break
    assert gone >= 3


def assert_finished(path: Path, point: int, before: list[tuple[str, str]]) -> None:
    store = SQLiteStore(path)
    found = store.find_conversation("maya")
    assert found is not None
    key = found.key
    utterances = store.utterances(key)
    assert [(u.id, u.text) for u in utterances][: len(before)] == before, point
    assert [u.id for u in utterances] == [f"u{n}" for n in range(1, len(utterances) + 1)], point
    assert [u.speaker for u in utterances] == ["Maya", "Sam"] * (len(utterances) // 2), point
    assert utterances[-2].text == "And on we go."
    closed = [n for (n,) in store.db.rows("SELECT number FROM session WHERE conversation = ? AND closed", (key,))]
    assert [r.session for r in store.records(key)] == closed == list(range(1, utterances[-1].session + 1)), point
    assert sorted(i for r in store.records(key) for i in r.sources) == sorted(u.id for u in utterances), point
    assert store.unextracted(key) == [], point
    told = [u.text for u in utterances if u.speaker == "Maya" and u.text.startswith("I ")]
    traits = [(trait.text, trait.mentions) for trait, _ in store.personas(key).traits() if trait.speaker == "Maya"]
    assert traits == [(text, 1) for text in told], point
    assert store.db.row("PRAGMA integrity_check") == ("ok",), point
    store.close()
