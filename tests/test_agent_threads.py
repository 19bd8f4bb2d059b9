"""Threads: an agent serves many at once, a conversation one caller at a time, and no two wait for each other.

Interleavings that once hung are forced by events; `running.resources` names the order of locks.
"""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene, echo

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.conversation import Conversation
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


PATIENCE = 30.0
"""Seconds after which a thread counts as hung."""


class Thread(threading.Thread):
    """A daemon that begins at once, and whose failure fails the test."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work, self._failure = work, list[BaseException]()
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as exc:
            self._failure.append(exc)

    def end(self) -> None:
        self.join(PATIENCE)
        assert not self.is_alive(), "hung"
        assert not self._failure, self._failure


class Meeting:
    """Two threads inside their locks at one time: one in a transaction of the store, one that will want the store.

    Right before the first transaction, another agent edits a memory, so that the writer's mirrors are out of date.

    Args:
        agent: whose first transaction from now on begins once the other is inside its lock.
        other: the other's work; calls `i_am_inside` while it holds its lock.
    """

    def __init__(
        self, scene: Scene, agent: Agent, other: Callable[[], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._scene, self._work, self._writing = scene, other, agent.store.writing
        self._inside, self._written = threading.Event(), threading.Event()
        self.other: Thread | None = None
        monkeypatch.setattr(agent.store, "writing", self._watched)

    @contextmanager
    def _watched(self, key: int | None) -> Iterator[None]:
        if first := self.other is None:
            maya = self._scene.agent().conversation("maya")
            maya.edit(maya.records[0].id, "Maya paints boats.")
            self.other = Thread(self._work)
            assert self._inside.wait(PATIENCE)
        with self._writing(key):
            if first:
                self._written.set()
            yield

    def i_am_inside(self) -> None:
        self._inside.set()
        assert self._written.wait(PATIENCE)

    def hold(self, writer: Callable[[], object]) -> None:
        """Run both to their ends."""
        Thread(writer).end()
        assert self.other is not None
        self.other.end()


def maya_said(agent: Agent) -> Conversation:
    """Maya's conversation with one finished session and the beginning of another."""
    maya = agent.conversation("maya")
    maya.respond("I paint.", "Maya", START)
    maya.end_session()
    maya.respond("I keep bees.", "Maya", START + DAY)
    return maya


def test_a_conversation_is_opened_while_another_is_learned_from(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening holds `loading` and wants the store; learning holds the store and must not want `loading`."""
    agent = scene.agent()
    maya, open_conversation = maya_said(agent), agent.store.open_conversation

    def opened(conversation_id: str, name: str) -> object:
        if conversation_id == "ben":
            meeting.i_am_inside()
        return open_conversation(conversation_id, name)

    monkeypatch.setattr(agent.store, "open_conversation", opened)
    meeting = Meeting(scene, agent, lambda: agent.conversation("ben"), monkeypatch)
    meeting.hold(maya.resume)
    assert [trait.text for trait in maya.traits() if trait.speaker == "Maya"] == ["I paint.", "I keep bees."]
    assert maya.records[0].text == "Maya paints boats."


@pytest.mark.parametrize("ended", [False, True], ids=["learned from", "ended"])
def test_an_index_is_made_while_another_conversation_is(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """Who makes an index wants the store; who writes, after a correction elsewhere, must not want the indexes."""
    agent = scene.agent()
    maya = maya_said(agent)
    if ended:
        maya.resume()  # so that only the session is left to be ended

    def make() -> Nothing:
        meeting.i_am_inside()
        assert agent.store.is_stored(maya.key)
        return Nothing()

    meeting = Meeting(scene, agent, lambda: agent.resources.indexes.get(0, "events", make), monkeypatch)
    meeting.hold(maya.end_session if ended else maya.resume)


class Nothing:
    """An index of no size."""

    nbytes = 0


def test_a_program_that_ends_waits_for_the_work_at_hand(tmp_path: Path):
    """A thread killed inside a model's code takes the process down with it."""
    script = """
import sys, threading
from pathlib import Path
from ld_agent.running.background import Background

begun = threading.Event()

def work():
    begun.set()
    while threading.main_thread().is_alive():
        pass
    Path(sys.argv[1]).write_text(str(sum(range(3_000_000))))

Background().put("work", work)
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "done"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "done").exists()
