"""Two processes on one store: no lost update, no id given twice, each sees what the other said, or one clear error."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene, requests_of
from agent_process import Processes, Task

from ld_agent.backbones.base import Request
from ld_agent.errors import EncoderMismatchError
from ld_agent.storage.opening import open_store
from ld_agent.storage.sqlite.store import SQLiteStore


def writer(path: Path, conversation: str, speaker: str, turns: int, **more: object) -> Task:
    texts = ["I keep bees." if n % 2 else f"{speaker} says {n}." for n in range(turns)]
    return {"store": str(path), "conversation": conversation, "speaker": speaker, "texts": texts} | more


# ---- real processes at the same time


def test_writers_to_one_conversation_lose_nothing(processes: Processes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    turns = 15
    runs = processes.run(*(writer(path, "maya", "Maya", turns, end_every=5) for _ in range(2)))
    assert [run["status"] for run in runs] == [0, 0], runs
    store = SQLiteStore(path)
    key = store.open_conversation("maya", "Sam").key
    said = [(u.id, u.text) for u in store.utterances(key)]
    assert [i for i, _ in said] == [f"u{n}" for n in range(1, 4 * turns + 1)]
    assert sorted(said) == sorted(tuple(json.loads(line)) for run in runs for line in run["lines"][:-1])
    times = [u.at for u in store.utterances(key)]
    assert times == sorted(times)
    closed = [n for (n,) in store.db.rows("SELECT number FROM session WHERE conversation = ? AND closed", (key,))]
    assert sorted(r.session for r in store.records(key)) == closed
    assert Counter(i for r in store.records(key) for i in r.sources) == Counter(i for i, _ in said)
    assert store.unextracted(key) == []
    [(trait, _)] = store.personas(key).traits()
    assert trait.mentions == 2 * (turns // 2)
    store.close()


@pytest.mark.parametrize("kill_before", [60, 175, 333])
def test_on_postgres_one_is_killed_in_a_turn_and_the_other_resumes(
    processes: Processes, tmp_path: Path, new_database: Callable[[], str], kill_before: int
) -> None:
    address = new_database()
    task = writer(tmp_path / "unused", "maya", "Maya", 10, end_every=5, out=str(tmp_path / "run")) | {"store": address}
    one, other = processes.run(task | {"kill_before": kill_before}, task)
    assert (one["status"], one["signal"]) == (None, 9), one
    assert other["status"] == 0, other
    [last] = processes.run(task)
    assert last["status"] == 0, last
    store = open_store(address)
    key = store.open_conversation("maya", "Sam").key
    said = [(u.id, u.text) for u in store.utterances(key)]
    acknowledged = [tuple(json.loads(line)) for run in (one, other, last) for line in run["lines"]]
    acknowledged = [pair for pair in acknowledged if pair[0].startswith("u")]
    assert [i for i, _ in said] == [f"u{n}" for n in range(1, len(said) + 1)]
    assert set(acknowledged) <= set(said)
    assert len(set(acknowledged)) == len(acknowledged)
    assert len(said) - len(acknowledged) <= 2, "of the killed turn alone there may be more than was acknowledged"
    sources = Counter(i for r in store.records(key) for i in r.sources)
    assert set(sources.values()) == {1}
    store.close()


def test_a_writer_whose_conversation_is_deleted_gets_one_clear_error(processes: Processes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    processes.run(writer(path, "maya", "Maya", 1))
    deleter = writer(path, "maya", "Maya", 0, delete=True)
    wrote, deleted = processes.run(writer(path, "maya", "Maya", 400), deleter)
    assert json.loads(wrote["lines"][-1])[0] == "error", "the deletion came after the writing"
    assert wrote["status"] == 1
    error = json.loads(wrote["lines"][-1])
    assert error[1] == "StoreError"
    assert "deleted" in error[2]
    assert "reopen it" in error[2]
    assert json.loads(deleted["lines"][0]) == ["deleted"]
    store = SQLiteStore(path)
    assert store.db.row("PRAGMA integrity_check") == ("ok",)
    assert store.db.row("SELECT count(*) FROM utterance") == (0,)
    store.close()


# ---- two agents on one store, step by step


def test_each_sees_in_its_context_what_the_other_heard_said_and_learnt(scene: Scene) -> None:
    one, two = scene.agent(), scene.agent()
    here, there = one.conversation("maya"), two.conversation("maya")
    here.respond("I keep bees.", "Maya", START)
    there.respond("And wasps?", "Maya", START)
    said = [m.content for m in requests_of(two, "generator")[-1].messages if m.role != "system"]
    assert said[-3] == "I keep bees."
    assert said[-1] == "And wasps?"
    reply = here.respond("Well?", "Maya", START)
    heard = [m.content for m in requests_of(one, "generator")[-1].messages if m.role == "user"]
    assert heard[-3:] == ["I keep bees.", "And wasps?", "Well?"]
    assert reply.traits == there.respond("So?", "Maya", START).traits == {"Maya": ("I keep bees.",)}
    there.end_session()
    assert here.end_session() == []
    assert [r.record.id for r in here.recall("bees", START + DAY)] == ["m1"]
    assert len(there.records) == 1


def test_what_is_said_between_hearing_and_replying_is_not_overtaken(scene: Scene) -> None:
    """The other process speaks while the model thinks: the reply comes after it, and is not refused for its time."""

    def meanwhile(request: Request) -> str:
        there.observe("I am faster.", "Ben", START + timedelta(minutes=5))
        return "I thought for long."

    one, two = scene.agent({"generator": meanwhile}), scene.agent()
    here, there = one.conversation("maya"), two.conversation("maya")
    reply = here.respond("I keep bees.", "Maya", START)
    assert reply.utterance is not None
    assert [(u.speaker, u.at - START) for u in here.utterances] == [
        ("Maya", timedelta(0)), ("Ben", timedelta(minutes=5)), ("Sam", timedelta(minutes=5)),
    ]  # fmt: skip
    here.resume()
    assert [u.speaker for u in here.running] == ["Maya", "Ben", "Sam"]


def test_the_end_of_a_session_does_not_end_the_one_that_the_other_has_begun(scene: Scene) -> None:
    def meanwhile(request: Request) -> str:
        if not there.utterances[1:]:
            there.observe("A new day.", "Maya", START + DAY)
        return "NO_TRAIT"

    one, two = scene.agent({"extractor": meanwhile}), scene.agent()
    here, there = one.conversation("maya"), two.conversation("maya")
    here.observe("I keep bees.", "Maya", START)
    assert [r.session for r in here.end_session()] == [1]
    there.resume()
    assert [u.text for u in there.running] == ["A new day."]


def test_a_change_of_encoder_by_another_process_is_noticed_before_anything_is_written(scene: Scene) -> None:
    one, two = scene.agent(), scene.agent()
    maya = one.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    two.store.change_encoder("another", 768)
    with pytest.raises(EncoderMismatchError, match="was encoded by another"):
        maya.respond("And wasps.", "Maya", START)
    with pytest.raises(EncoderMismatchError):
        scene.agent()
    assert len(maya.utterances) == 2
