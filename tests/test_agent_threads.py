"""Threads: an agent serves many at once, a conversation one caller at a time, and says so when it has two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_parts import DAY, START, Scene, echo

from ld_agent.backbones.base import Request
from ld_agent.errors import ConversationBusyError


def test_a_second_caller_gets_an_error_and_nothing_is_lost(scene: Scene) -> None:
    thinking, go_on = threading.Event(), threading.Event()

    def think(request: Request) -> str:
        thinking.set()
        assert go_on.wait(60)
        return "Now I know."

    agent = scene.agent({"generator": think}, **{"agent.busy": "refuse"})
    maya = agent.conversation("maya")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(maya.respond, "I keep bees.", "Maya", START)
        assert thinking.wait(60)
        uses: list[Callable[[], object]] = [
            lambda: maya.respond("Me too!", "Ben", START),
            lambda: maya.observe("Me too!", "Ben", START),
            lambda: maya.recall("bees"),
            lambda: maya.persona("Maya"),
            lambda: agent.conversation("maya"),
            maya.end_session,
            maya.delete,
        ]
        for use in uses:
            with pytest.raises(ConversationBusyError, match="conversation 'maya' is in use by another caller; wait"):
                use()
        assert [u.text for u in maya.utterances] == ["I keep bees."]
        go_on.set()
        assert first.result().text == "Now I know."
    assert maya.respond("Me too!", "Ben", START).heard.id == "u3"


def test_a_conversation_is_free_again_after_steps_that_were_given_up(scene: Scene) -> None:
    maya = scene.agent().conversation("maya")
    steps = maya.turn("I keep bees.", "Maya", START)
    next(steps)
    with pytest.raises(ConversationBusyError):
        maya.recall("bees")
    steps.close()
    assert maya.reply().heard.text == "I keep bees."


def test_many_threads_hold_conversations_of_one_agent(scene: Scene) -> None:
    meeting = threading.Barrier(6)
    agent = scene.agent({"generator": echo})

    def hold(number: int) -> list[str]:
        meeting.wait(60)
        talk = agent.conversation(f"with {number}")
        texts = [f"I have {number} bees and {day} boats." for day in range(5)]
        for day, text in enumerate(texts):
            talk.respond(text, "Maya", START + day * DAY)
            talk.recall(text, START + day * DAY)
        talk.end_session()
        return texts

    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(hold, range(6)))
    for number, texts in enumerate(told):
        talk = agent.conversation(f"with {number}")
        assert [u.text for u in talk.utterances if u.speaker == "Maya"] == texts
        assert [u.id for u in talk.utterances] == [f"u{n}" for n in range(1, 11)]
        assert [r.session for r in talk.records] == [1, 2, 3, 4, 5]
        assert all(f"{number} bees" in r.text for r in talk.records)
    assert agent.store.db.row("PRAGMA integrity_check") == ("ok",)


def test_one_thread_opens_what_others_share(scene: Scene) -> None:
    meeting = threading.Barrier(4)
    agent = scene.agent()

    def opened(number: int) -> object:
        meeting.wait(60)
        while True:
            try:
                return agent.conversation("maya")
            except ConversationBusyError:
                continue

    with ThreadPoolExecutor(4) as pool:
        assert len({id(talk) for talk in pool.map(opened, range(4))}) == 1
