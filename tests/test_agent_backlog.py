"""What an agent finds when it opens a conversation: pins, work set aside, a long backlog, what another process changed."""

from datetime import timedelta

from agent_parts import DAY, START, Scene, confessed, requests_of, retold

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.errors import BackboneError
from ld_agent.storage.rows import PATIENCE


def prompt_of_last_reply(agent: Agent) -> str:
    return "\n".join(m.content for m in requests_of(agent, "generator")[-1].messages)


def test_a_pinned_record_and_trait_are_in_every_prompt(scene: Scene) -> None:
    agent = scene.agent(**{"personas.cap": 1, "memory.gamma": 0.99})
    maya = agent.conversation("maya")
    for day, text in enumerate(("I keep bees.", "I sail boats.", "I bake bread.")):
        maya.respond(text, "Maya", START + day * DAY)
    maya.end_session()
    asked = "What is the weather like?"
    maya.respond(asked, "Maya", START + 10 * DAY)
    assert "I keep bees." not in prompt_of_last_reply(agent)
    record = next(r for r in maya.records if "I keep bees" in r.text)
    trait = next(t for t in maya.traits() if "sail" in t.text)
    maya.pin(record.id)
    maya.pin(trait.id)
    maya.respond(asked, "Maya", START + 20 * DAY)
    assert "I keep bees." in prompt_of_last_reply(agent)
    assert trait.text in prompt_of_last_reply(agent)
    maya.pin(record.id, False)
    maya.pin(trait.id, False)
    maya.respond(asked, "Maya", START + 30 * DAY)
    assert "I keep bees." not in prompt_of_last_reply(agent)


def test_a_conversation_opens_and_answers_although_work_is_set_aside(scene: Scene) -> None:
    def away(request: Request) -> str:
        raise BackboneError("the model is away")

    broken = {"extractor": away, "summarizer": away}
    for day in range(PATIENCE + 1):
        agent = scene.agent(broken)
        maya = agent.conversation("maya")
        maya.respond(f"I own {day} boats.", "Maya", START + day * DAY)
        agent.close(end_sessions=False)
    agent = scene.agent(broken)
    maya = agent.conversation("maya")
    failures = agent.store.failures(maya.key)
    assert {f.work for f in failures if f.set_aside} == {"traits", "events"}
    assert maya.respond("Hello?", "Maya", START + 9 * DAY).text
    well = scene.agent()
    maya = well.conversation("maya")
    assert well.store.failures(maya.key) == []
    assert {r.session for r in maya.records} >= {1, 2, 3}


def test_a_long_backlog_is_worked_off_in_order_and_once(scene: Scene) -> None:
    sessions = 30
    first = scene.agent()
    key = first.conversation("maya").key
    with first.store.writing(key):
        for number in range(sessions):
            at = START + number * DAY
            first.store.append(key, "Maya", f"I own {number} boats.", at, 3600, lambda: at)  # noqa: B023
        first.store.append(key, "Maya", "And now?", START + sessions * DAY, 3600, lambda: START)
    first.close(end_sessions=False)
    agent = scene.agent({"summarizer": retold, "extractor": confessed})
    maya = agent.conversation("maya")
    assert [r.session for r in maya.records] == list(range(1, sessions + 1))
    assert len(requests_of(agent, "summarizer")) == sessions
    assert maya.reply().heard.text == "And now?"
    assert len([t for t in maya.traits(history=True) if t.speaker == "Maya"]) == sessions
    maya.respond("Bye.", "Maya", START + sessions * DAY + timedelta(minutes=5))
    assert len(requests_of(agent, "summarizer")) == sessions
