"""Models that fail or talk rubbish, and a user who interrupts: what was said is kept, and the conversation goes on."""

from collections.abc import Callable
from typing import Any

import pytest
from agent_parts import DAY, START, Scene, echo

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.conversation import Conversation
from ld_agent.errors import BackboneError
from ld_agent.languages import ENGLISH
from ld_agent.turn import INTERRUPTED

RUBBISH = [
    "",
    " \n\t ",
    "\x00",
    "<|im_start|>assistant\n<|im_end|>",
    "bee " * 2500,
    "((((" * 300,
    "\ud800 half",
    "Sam:",
    '"',
    "\n\n\n\nMaya: I am Maya.\nSam: And I am Sam.",
]


def is_whole(agent: Agent, conversation: str = "maya") -> bool:
    """Whether everything was digested and extracted once, and the file is sound."""
    store = agent.store
    key = store.open_conversation(conversation, "Sam").key
    numbers = [r.session for r in store.records(key)]
    closed = store.db.row("SELECT count(*) FROM session WHERE conversation = ? AND closed", (key,))[0]
    return (
        numbers == list(range(1, closed + 1))
        and store.unextracted(key) == []
        and store.db.row("PRAGMA integrity_check") == ("ok",)
    )


class Failing:
    """A script's answer that fails on chosen calls, counted from 1, and is well otherwise."""

    def __init__(self, well: Callable[[Request], str], *calls: int) -> None:
        self._well, self._calls, self.called = well, calls, 0

    def __call__(self, request: Request) -> str:
        self.called += 1
        if self.called in self._calls or not self._calls:
            raise BackboneError("the model is away")
        return self._well(request)


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_rubbish_of_every_module_costs_a_fallback_and_never_an_exception(scene: Scene, rubbish: str) -> None:
    agent = scene.agent(dict.fromkeys(("generator", "summarizer", "extractor"), lambda request: rubbish))
    maya = agent.conversation("maya")
    for day in range(3):
        reply = maya.respond(f"I keep {day} bees in Lyon.", "Maya", START + day * DAY)
        assert reply.text.strip()
        assert reply.utterance is not None
        assert maya.utterances[-1].text.strip()
        if not rubbish.strip():
            assert reply.text == ENGLISH.words.speechless
            assert any("empty reply" in note for note in reply.notes)
    agent.close()
    again = scene.agent()
    talk = again.conversation("maya")
    assert len(talk.utterances) == 6
    assert [r.session for r in talk.records] == [1, 2, 3]
    assert all(r.text.strip() for r in talk.records)
    if not rubbish.strip():
        assert all(r.fallback for r in talk.records)
        assert "I keep 0 bees in Lyon." in talk.records[0].text
    assert is_whole(again)


def test_a_generator_that_fails_loses_no_utterance_and_reply_tries_again(scene: Scene) -> None:
    agent = scene.agent({"generator": Failing(echo, 1, 2, 4)})
    maya = agent.conversation("maya")
    with pytest.raises(BackboneError, match="the model is away"):
        maya.respond("I keep bees.", "Maya", START)
    with pytest.raises(BackboneError):
        maya.reply()
    assert [u.text for u in maya.utterances] == ["I keep bees."]
    assert maya.reply().heard.text == "I keep bees."
    assert [u.speaker for u in maya.utterances] == ["Maya", "Sam"]
    with pytest.raises(BackboneError):
        maya.respond("I paint.", "Maya", START)
    assert maya.respond("Hello?", "Maya", START).traits == {"Maya": ("I keep bees.", "I paint.")}
    maya.end_session()
    assert is_whole(agent)


@pytest.mark.parametrize("module", ["summarizer", "extractor"])
@pytest.mark.parametrize("failing_calls", [(), (1,), (2,), (1, 2, 3)])
def test_what_fails_beside_the_reply_is_noted_and_made_up_for_later(
    scene: Scene, module: str, failing_calls: tuple[int, ...]
) -> None:
    from agent_parts import confessed, retold

    well = {"summarizer": retold, "extractor": confessed}[module]
    agent = scene.agent({module: Failing(well, *failing_calls)})
    maya = agent.conversation("maya")
    notes: list[str] = []
    for day, text in enumerate(("I keep bees.", "I paint.", "I sing.", "I sail.")):
        notes += maya.respond(text, "Maya", START + day * DAY).notes
    if failing_calls in ((), (1, 2, 3)):  # a single failed call is made up for in the same turn
        assert any("the model is away" in note for note in notes)
    assert all("waiting" in note or "set aside" in note for note in notes)
    agent.close()
    again = scene.agent()
    assert [t.text for t in again.conversation("maya").persona("Maya")] == [
        "I keep bees.", "I paint.", "I sing.", "I sail.",
    ]  # fmt: skip
    assert is_whole(again)
    assert len(again.conversation("maya").records) == 4


def test_ending_a_session_while_all_models_are_away_raises_nothing(scene: Scene) -> None:
    agent = scene.agent({"summarizer": Failing(echo), "extractor": Failing(echo)})
    maya = agent.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    assert maya.end_session() == []
    agent.close()
    again = scene.agent()
    again.conversation("maya")
    assert is_whole(again)


# ---- interruption


def interrupting(after: int, text: str = "Well, let me see what I know of bees.") -> Callable[[Request], str]:
    """A model whose user presses Ctrl-C after some pieces of the answer."""

    def answer(request: Request) -> str:
        for piece in text.split(" ")[:after]:
            assert request.on_text is not None
            request.on_text(piece + " ")
        raise KeyboardInterrupt

    return answer


def test_an_interrupted_reply_keeps_what_was_said(scene: Scene) -> None:
    agent = scene.agent({"generator": interrupting(4)})
    maya = agent.conversation("maya")
    heard: list[str] = []
    reply = maya.respond("I keep bees.", "Maya", START, on_text=heard.append, interruptible=True)
    assert reply.text == "Well, let me see"
    assert "".join(heard).strip() == reply.text
    assert [u.text for u in maya.utterances] == ["I keep bees.", reply.text]
    assert INTERRUPTED in reply.notes
    assert maya.end_session()
    assert is_whole(agent)


def test_a_reply_interrupted_before_its_first_word_is_none_and_can_be_asked_for_again(scene: Scene) -> None:
    agent = scene.agent({"generator": interrupting(0)})
    maya = agent.conversation("maya")
    reply = maya.respond("I keep bees.", "Maya", START, interruptible=True)
    assert (reply.text, reply.utterance, reply.notes) == ("", None, (INTERRUPTED,))
    assert [u.text for u in maya.utterances] == ["I keep bees."]
    agent.close(end_sessions=False)
    again = scene.agent()
    assert again.conversation("maya").reply().heard.text == "I keep bees."


def test_an_unexpected_interruption_propagates(scene: Scene) -> None:
    agent = scene.agent({"generator": interrupting(4)})
    maya = agent.conversation("maya")
    with pytest.raises(KeyboardInterrupt):
        maya.respond("I keep bees.", "Maya", START, on_text=lambda piece: None)
    assert [u.text for u in maya.utterances] == ["I keep bees."]
    assert [u.text for u in maya.running] == ["I keep bees."]
    agent.close()
    assert is_whole(scene.agent())


@pytest.mark.parametrize("module", ["summarizer", "extractor"])
@pytest.mark.parametrize("interruptible", [True, False])
def test_an_interruption_outside_the_reply_leaves_everything_consistent(
    scene: Scene, module: str, interruptible: bool
) -> None:
    agent = scene.agent({module: KeyboardInterrupt()})
    maya: Conversation = agent.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)

    def go_on() -> Any:
        return maya.respond("I paint.", "Maya", START + DAY, interruptible=interruptible)

    if interruptible:
        reply = go_on()
        assert reply.utterance is None
        assert INTERRUPTED in reply.notes
    else:
        with pytest.raises(KeyboardInterrupt):
            go_on()
    assert maya.utterances[2].text == "I paint."
    agent.close(end_sessions=False)
    again = scene.agent()
    talk = again.conversation("maya")
    if talk.running[-1].speaker != "Sam":
        talk.reply()
    assert [t.text for t in talk.persona("Maya")] == ["I keep bees.", "I paint."]
    assert is_whole(again)


def test_an_interruption_while_the_utterance_is_stored_is_noticed_afterwards(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    append = agent.store.append

    def interrupted(*values: Any) -> Any:
        append(*values)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(agent.store, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            maya.respond("I keep bees.", "Maya", START)
    assert maya.respond("Hello?", "Maya", START).traits == {"Maya": ("I keep bees.",)}
    assert [u.text for u in maya.running][:2] == ["I keep bees.", "Hello?"]
