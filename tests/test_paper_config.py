"""LD-Agent as published (``-c paper``), and the prompts of the arms that another paper compares."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest
from agent_parts import DAY, START

from ld_agent import Agent, load_config
from ld_agent.backbones.base import Message
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

SCRIPT = {
    "generator": "Good to hear.",
    "extractor": "I keep bees.",
    "summarizer": "User keeps bees on a roof.",
    "memory": "User: keeps bees.",
}


def test_the_published_system_asks_and_answers_as_published(encoder: SentenceEncoder, topics: TopicExtractor):
    backbone = ScriptedBackbone(SCRIPT)
    config = load_config("paper", ["store.path=:memory:"])
    with Agent(config, backbone=backbone, encoder=encoder, topics=topics) as agent:
        conversation = agent.conversation("maya")
        for number in range(3):
            conversation.respond("I keep bees on my roof.", at=START + number * DAY)
        conversation.respond("They swarm.", at=START + 2 * DAY + timedelta(minutes=1))
        reply = conversation.respond("How are my bees?", at=START + 2 * DAY + timedelta(minutes=2))
        traits = [trait.text for trait in conversation.persona("User")]
        own = [trait.text for trait in conversation.persona("Sam")]
    assert reply.quotes == ()
    assert reply.recalled[0].score == pytest.approx(
        reply.recalled[0].decay * (reply.recalled[0].s_sem + reply.recalled[0].s_top)
    )
    assert traits == ["I keep bees."] * 5  # added each time, neither counted nor merged
    assert own == ["I keep bees."] * 5  # the agent's too, of what it only repeated
    [system, request] = [r for r in backbone.requests if r.module == "generator"][-1].messages
    assert (system.role, request.role) == ("system", "user")
    places = [
        request.content.index(part) for part in ("They swarm.", "on a roof", "traits of User", "How are my bees?")
    ]
    assert places == sorted(places)
    assert "30 words" in request.content
    assert "20 words" in next(r for r in backbone.requests if r.module == "summarizer").messages[-1].content


Asked = Callable[..., Sequence[Message]]


@pytest.fixture
def asked(encoder: SentenceEncoder, topics: TopicExtractor) -> Asked:
    """Makes the last prompt of an arm to which something is said on successive days."""

    def ask(arm: str, *said: str) -> Sequence[Message]:
        backbone = ScriptedBackbone(SCRIPT)
        config = load_config(arm, ["store.path=:memory:", "modules.generator.prompting=rsum"])
        with Agent(config, backbone=backbone, encoder=encoder, topics=topics) as agent:
            conversation = agent.conversation("maya")
            for day, text in enumerate(said):
                conversation.respond(text, at=START + day * DAY)
        return [r for r in backbone.requests if r.module == "generator"][-1].messages

    return ask


@pytest.mark.parametrize(
    ("arm", "shown", "absent"),
    [
        ("none", [], ["Said earlier", "The memory:"]),
        ("dense", ["Said earlier"], ["The memory:"]),
        ("recursive", ["The memory:"], ["Said earlier"]),
        ("recursive-dense", ["Said earlier", "The memory:"], []),
    ],
)
def test_the_prompts_of_rsum_show_what_their_arm_recalls(arm: str, shown: list[str], absent: list[str], asked: Asked):
    said = ["I keep bees on my roof.", "Bees like my roof.", "How are my bees on the roof?"]
    system, request = asked(arm, *said)
    assert (system.role, request.role) == ("system", "user")
    assert [text in request.content for text in shown] == [True] * len(shown)
    assert not any(text in request.content for text in absent)
    assert request.content.count("How are my bees on the roof?") == 1


def test_the_whole_history_is_one_dialogue_in_the_prompt_of_rsum(asked: Asked):
    """Table B.12's systems are given earlier sessions as dialogue, oldest first, and no instructions for them."""
    system, request = asked("full", "I keep bees.", "They swarm.", "How are they?")
    assert "what you are given" not in system.content
    assert "Said earlier" not in request.content
    dialogue = request.content.partition("<conversation>\n")[2].partition("\n</conversation>")[0]
    assert dialogue.splitlines() == [
        "User: I keep bees.", "Sam: Good to hear.", "User: They swarm.", "Sam: Good to hear.", "User: How are they?",
    ]  # fmt: skip
