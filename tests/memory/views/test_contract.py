"""What every view promises, and every pair of views: it takes in, recalls, persists, survives, forgets and moves house."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from agent_parts import DAY, START, Scene, prompt_of, requests_of
from agent_process import Processes

from ld_agent.agent import Agent, Conversation
from ld_agent.errors import BackboneError
from ld_agent.memory.views import VIEWS
from ld_agent.prompts import as_line
from ld_agent.storage.exchange import export_lines, import_file
from ld_agent.storage.sqlite.store import SQLiteStore

PAIRS = [pair for pair in combinations(VIEWS, 2) if not any(VIEWS[name].alone for name in pair)]
SETS = [(name,) for name in VIEWS] + PAIRS
SILENT = {"none", "golden"}  # the latter where nothing is annotated
LATER = START + 20 * DAY
QUESTION = "Do you remember the bees in my garden?"
GARBAGE = ["", "%%% bees bees bees bees bees bees bees bees bees bees bees bees bees bees bees bees bees"]


def named(value: Any) -> str:
    return "+".join(value) if isinstance(value, tuple) else str(value)


def two_sessions(agent: Agent) -> Conversation:
    """Three people over two finished sessions."""
    talk = agent.conversation("garden")
    talk.respond("I keep bees in my garden in Lyon.", "Maya", START)
    talk.observe("I paint the bees of Maya, in oil.", "Ben", START)
    talk.respond("The bees gave me honey this summer.", "Maya", START)
    talk.respond("I sing in a choir on Mondays.", "Ben", START + DAY)
    talk.end_session()
    return talk


def recalled(talk: Conversation, text: str = QUESTION) -> list[tuple[str, str]]:
    return [(r.record.view, r.record.text) for r in talk.recall(text, LATER)]


@pytest.mark.parametrize("views", SETS, ids=named)
def test_what_was_said_is_taken_in_recalled_and_still_there_when_reopened(views: tuple[str, ...], scene: Scene):
    settings = {"memory.views": list(views), "memory.gamma": -1.0}
    talk = two_sessions(scene.agent(**settings))
    store, key = talk.relation.resources.store, talk.key
    assert all(store.shelf(key, view).undigested() == [] for view in views)
    said = {utterance.id for utterance in talk.utterances}
    for record in talk.records:
        assert record.view in views
        assert set(record.sources) <= said, record
        assert record.text.strip(), record
        assert record.at <= START + DAY
    remembering = set(views) - SILENT
    assert {record.view for record in talk.records} == remembering
    before = recalled(talk)
    assert {view for view, _ in before} <= remembering
    assert bool(before) == bool(remembering)
    assert not talk.recall(QUESTION, START - DAY), "nothing younger than the question"
    talk.relation.resources.close()

    again = scene.agent(**settings)
    talk = again.conversation("garden")
    assert recalled(talk) == before
    assert again.store.shelf(talk.key, views[0]).count() == sum(r.view == views[0] for r in talk.records)
    reply = talk.respond(QUESTION, "Maya", LATER)
    assert bool(reply.recalled) == bool(remembering)
    prompt = prompt_of(requests_of(again, "generator")[-1])
    for own in reply.recalled:
        assert as_line(own.record.text)[:40] in prompt


@pytest.mark.parametrize("views", [(name,) for name in VIEWS], ids=named)
def test_an_export_brings_every_view_along_and_a_deletion_leaves_nothing(
    views: tuple[str, ...], scene: Scene, tmp_path: Path
):
    settings = {"memory.views": list(views), "memory.gamma": -1.0}
    agent = scene.agent(**settings)
    talk = two_sessions(agent)
    lines = list(export_lines(agent.store))
    moved, path = tmp_path / "moved.jsonl", tmp_path / "other.db"
    moved.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    other = SQLiteStore(path)
    import_file(other, moved)
    assert list(export_lines(other)) == lines
    other.close()
    before = recalled(talk)
    asked = len(requests_of(agent, "memory")) + len(requests_of(agent, "summarizer"))
    there = scene.agent(**settings | {"store.path": str(path)})
    assert recalled(there.conversation("garden")) == before
    fresh = requests_of(there, "memory") + requests_of(there, "summarizer")
    assert len(fresh) < max(asked, 1), "what was taken in is not taken in again"

    talk.delete()
    tables = ("conversation", "session", "utterance", "observed", "digested", "record", "trait")
    assert {table: agent.store.db.row(f"SELECT count(*) FROM {table}")[0] for table in tables} == dict.fromkeys(
        tables, 0
    )


@pytest.mark.parametrize("views", [(name,) for name in VIEWS], ids=named)
@pytest.mark.parametrize("answer", [*GARBAGE, BackboneError("the model is away")], ids=lambda a: repr(str(a))[:20])
def test_garbage_from_the_model_and_its_failure_lose_nothing(
    views: tuple[str, ...], answer: str | BackboneError, scene: Scene
):
    agent = scene.agent({"memory": answer, "summarizer": answer}, **{"memory.views": list(views), "memory.gamma": -1.0})
    talk = two_sessions(agent)
    reply = talk.respond(QUESTION, "Maya", LATER)
    assert reply.text
    assert [u.text for u in talk.utterances if u.speaker == "Ben"] == [
        "I paint the bees of Maya, in oil.",
        "I sing in a choir on Mondays.",
    ]
    if not isinstance(answer, BackboneError):
        return
    agent.close(end_sessions=False)
    talk = scene.agent(**{"memory.views": list(views), "memory.gamma": -1.0}).conversation("garden")
    assert all(talk.relation.resources.store.shelf(talk.key, view).undigested() == [] for view in views), (
        "what waited is made up for"
    )
    assert bool(recalled(talk)) == bool(set(views) - SILENT)


@pytest.mark.parametrize("view", VIEWS)
def test_each_of_several_conversations_remembers_for_itself(view: str, scene: Scene):
    agent = scene.agent(**{"memory.views": [view], "memory.gamma": -1.0})
    two_sessions(agent)
    other = agent.conversation("other")
    other.respond("I collect stamps from Peru.", "Zoe", START)
    other.end_session()
    assert not any("bees" in text for _, text in recalled(other))


def test_killed_anywhere_every_view_finishes_its_work_when_the_store_is_opened_again(
    processes: Processes, tmp_path: Path
):
    together = [name for name in VIEWS if not VIEWS[name].alone]
    task: dict[str, Any] = {
        "conversation": "garden",
        "speaker": "Maya",
        "texts": ["I keep bees.", "I moved to Oslo.", "I bought a boat."],
        "gaps": [0, 7200, 7200],
        "settings": {"memory.views": together},
    }
    [whole] = processes.run(task | {"store": str(tmp_path / "whole.db")})
    assert whole["status"] == 0, whole
    statements = int(whole["lines"][-1].split(",")[1].strip(" ]"))
    for share in (0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97):
        path = tmp_path / f"{share}.db"
        [killed] = processes.run(task | {"store": str(path), "kill_before": int(statements * share)})
        assert killed["signal"] == 9, killed
        [again] = processes.run(task | {"store": str(path), "texts": ["And on we go."], "gaps": [7200]})
        assert again["status"] == 0, again
        store = SQLiteStore(path)
        found = store.find_conversation("garden")
        assert found is not None
        assert {view: len(store.shelf(found.key, view).undigested()) for view in together} == dict.fromkeys(
            together, 0
        ), share
        texts = [u.text for u in store.utterances(found.key) if u.speaker == "Maya"]
        for view in ("conditional", "recursive"):
            records = [r for r in store.records(found.key) if r.view == view]
            assert len({r.sources for r in records}) == len(records) == len(texts), (view, share, records)
        store.close()
