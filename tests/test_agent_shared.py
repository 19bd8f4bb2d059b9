"""What callers, threads, agents and a person's own corrections share: one memory, one persona bank, work that is pending."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from agent_parts import DAY, START, Scene, confessed, echo, requests_of

from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import BackboneError, ReplyStopped
from ld_agent.running.rebuild import rebuild
from ld_agent.running.resources import Resources
from ld_agent.running.stream import AsyncReplyStream, SyncReplyStream
from ld_agent.turn import INTERRUPTED
from ld_agent.types import ReplyOptions


def test_options_change_one_reply_of_every_method(scene: Scene) -> None:
    agent = scene.agent({"generator": "Well."})
    maya, options = agent.conversation("maya"), ReplyOptions(max_new_tokens=7)
    maya.respond("I keep bees.", "Maya", START, options=options)
    maya.observe("Anybody there?", "Maya", START)
    maya.reply(options=options)
    list(maya.stream("And goats.", "Maya", START, options=options))
    maya.respond("And a dog.", "Maya", START)
    asked = [request.max_new_tokens for request in agent.models.backbone("generator").requests
             if request.module == "generator"]  # fmt: skip
    assert asked[:3] == [7, 7, 7]
    assert asked[3] > 7


def test_a_listener_stops_a_reply_by_an_exception_of_its_own_and_ctrl_c_stays_ctrl_c(scene: Scene) -> None:
    def stop(piece: str) -> None:
        raise ReplyStopped

    def interrupt(piece: str) -> None:
        raise KeyboardInterrupt

    maya = scene.agent({"generator": "Well, let me see."}).conversation("maya")
    reply = maya.respond("I keep bees.", "Maya", START, on_text=stop)
    assert INTERRUPTED in reply.notes
    with pytest.raises(KeyboardInterrupt):
        maya.respond("And goats.", "Maya", START, on_text=interrupt)
    assert INTERRUPTED in maya.reply(on_text=interrupt, interruptible=True).notes


class Hesitant:
    """A model that says its second sentence once nobody listens any more."""

    def __init__(self) -> None:
        self.listened: SyncReplyStream | AsyncReplyStream | None = None

    def __call__(self, request: Request) -> str:
        assert request.on_text is not None
        request.on_text("Well, let me see. ")
        assert self.listened is not None
        assert self.listened._abandoned.wait(60)
        request.on_text("They sting.")
        return "The listener has left, and this is of no use."


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stream_closed_early_keeps_what_was_said(scene: Scene, asynchronous: bool) -> None:
    model = Hesitant()
    maya = scene.agent({"generator": model}).conversation("maya")
    model.listened = stream = (maya.astream if asynchronous else maya.stream)("I keep bees.", "Maya", START)

    async def listen() -> str:
        pieces = aiter(stream)  # type: ignore[arg-type]
        piece = await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        return piece

    if asynchronous:
        first = asyncio.run(listen())
    else:
        pieces = iter(stream)  # type: ignore[arg-type]
        first = next(pieces)
        pieces.close()  # type: ignore[attr-defined]
    assert "Well, let me see.".startswith(first.strip())
    assert stream.reply is not None
    assert INTERRUPTED in stream.reply.notes
    assert stream.reply.text == "Well, let me see. They sting."
    assert [u.text for u in maya.utterances] == ["I keep bees.", stream.reply.text]


@pytest.mark.anyio
async def test_coroutines_hold_many_conversations_concurrently(scene: Scene) -> None:
    agent = scene.agent()

    async def hold(name: str) -> str:
        talk = agent.conversation(name)
        await talk.arespond(f"I like {name}.", "Maya", START)
        return "".join([piece async for piece in talk.astream("And you?", "Maya", START)])

    assert all(await asyncio.gather(*(hold(name) for name in ("bees", "boats", "books"))))
    for name in ("bees", "boats", "books"):
        assert [t.text for t in agent.conversation(name).persona("Maya")] == [f"I like {name}."]


def test_threads_have_their_own_session_and_share_persona_and_memory(scene: Scene) -> None:
    agent = scene.agent()
    phone, desk = (agent.conversation("maya", thread=name) for name in ("phone", "desk"))
    phone.respond("I keep bees.", "Maya", START)
    reply = desk.respond("I paint.", "Maya", START)
    assert reply.traits == {"Maya": ("I keep bees.",)}
    assert [u.text for u in phone.running][:1] == ["I keep bees."]
    assert [u.text for u in desk.running][:1] == ["I paint."]
    assert len(phone.end_session()) == 1
    assert phone.running == ()
    assert len(desk.running) == 2
    assert [r.record.session for r in desk.recall("bees", START + DAY)] == [
        2,
        1,
    ]  # first the line of the running session


def test_a_model_of_your_own_answers_a_prompt_and_is_observed(scene: Scene) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    maya.observe("I keep bees.", "Ben", START)
    prompt = maya.messages("How are they?", "Maya", START)
    assert "How are they?" in prompt.messages[-1]["content"]
    assert prompt.traits == {"Ben": ("I keep bees.",)}
    assert requests_of(agent, "generator") == []
    maya.observe("I am fine.", maya.agent_name, START)
    assert [t.text for t in maya.persona("Sam")] == ["I am fine."]


def test_changes_by_hand_reach_the_prompt_the_index_and_another_agent(scene: Scene) -> None:
    one, two = (scene.agent().conversation("maya") for _ in range(2))
    one.respond("I keep bees in Lyon.", "Maya", START)
    one.end_session()
    two.recall("pecans", START + DAY)
    [trait] = one.persona("Maya")
    [record] = one.records
    one.edit(trait.id, "I grow pecans.")
    one.edit(record.id, "Maya grows pecans in Lyon.")
    for talk in (one, two, scene.agent().conversation("maya")):
        assert [t.text for t in talk.persona("Maya")] == ["I grow pecans."]
        [recalled] = talk.recall("Who grows pecans in Lyon?", START + DAY)
        assert recalled.record.text == "Maya grows pecans in Lyon."
        assert recalled.s_sem > 0.5
    two.forget(record.id)
    two.forget(trait.id)
    for talk in (one, two, scene.agent().conversation("maya")):
        assert talk.recall("Who grows pecans in Lyon?", START + DAY) == []
        assert [t for t in talk.traits() if t.speaker == "Maya"] == []


def test_work_that_keeps_failing_is_set_aside_and_a_rebuild_retries(scene: Scene) -> None:
    away = [True]

    def extractor(request: Request) -> str:
        if away[0] and "bees" in request.messages[-1].content:
            raise BackboneError("the model is away")
        return confessed(request)

    agent = scene.agent({"extractor": extractor, "generator": lambda request: "Yes."})
    maya = agent.conversation("maya")
    notes = [note for day in range(5) for note in maya.respond(
        "I keep bees." if not day else f"I own {day} boats.", "Maya", START + day * DAY).notes]  # fmt: skip
    assert any("set aside" in note for note in notes)
    assert [f.item for f in agent.store.failures(maya.key) if f.set_aside] == ["u1"]
    learned = [t.text for t in maya.persona("Maya", history=True)]
    assert "I own 4 boats." in learned
    assert "I keep bees." not in learned
    away[0] = False
    stored = agent.store.find_conversation("maya")
    assert stored is not None
    assert rebuild(agent, stored, lambda view, count: None) == []
    assert "I keep bees." in [t.text for t in maya.persona("Maya", history=True)]
    assert agent.store.failures(maya.key) == []


def test_a_background_agent_learns_without_a_further_call(scene: Scene) -> None:
    agent = scene.agent({"generator": echo}, background=True)
    maya = agent.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    assert agent._background is not None
    agent._background.wait()
    assert [t.text for t, _ in agent.store.personas(maya.key).traits()] == ["I keep bees."]


def test_two_threads_that_load_at_once_do_not_wait_for_each_other(config: Callable[..., Config]):
    resources = Resources(config(), ScriptedBackbone({}))
    with resources.loading:
        other = threading.Thread(target=lambda: resources.topics, daemon=True)
        other.start()
        other.join(0.2)  # it waits for what this thread holds
        assert resources.topics is not None
    other.join(20)
    assert not other.is_alive()
    resources.close()
