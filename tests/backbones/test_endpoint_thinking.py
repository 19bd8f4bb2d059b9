"""Endpoints whose models reason, are filtered or call tools: what is shown and stored, and what has to wait."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agent_parts import DAY, START
from stage import Call, Stage, echoes, fails, says
from test_endpoint import ask

from ld_agent.agent import Agent
from ld_agent.backbones.base import Completion
from ld_agent.backbones.endpoint import EndpointBackbone
from ld_agent.config import Config
from ld_agent.errors import ConfigError
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

Play = Callable[[Call], None]
Connect = Callable[..., EndpointBackbone]
LIMIT = "the limit went to reasoning; raise modules."
NONE = {
    "only a field": ({"content": "", "reasoning_content": "Newts."}, "length", LIMIT),
    "hidden": ({"content": ""}, "length", LIMIT),
    "cut off": ({"content": "<think>\nOkay, she keeps"}, "length", LIMIT),
    "no answer after it": ({"content": None, "reasoning": "Newts."}, "stop", "the model's answer was only reasoning"),
    "nothing": ({"content": ""}, "stop", "the endpoint gave an empty answer"),
    "blank": ({"content": " \n\n"}, "stop", "the endpoint gave an empty answer"),
    "filtered": ({"content": ""}, "content_filter", "content filter withheld"),
    "tool": ({"content": None, "tool_calls": []}, "tool_calls", "called a tool"),
}


def sends_message(message: dict[str, Any], finish: str = "stop") -> Play:
    """A message, in one piece or streamed: what it has besides content comes first, then the content word by word."""

    def play(call: Call) -> None:
        if not call.body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
            return call.send(200, json.dumps({"choices": [choice]}).encode())
        content = message.get("content")
        words = content.replace(" ", " \0").split("\0") if isinstance(content, str) else [content]
        deltas = [{k: v} for k, v in message.items() if k != "content"] + [{"content": word} for word in words]
        chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        return call.send(200, f"{text}data: [DONE]\n\n".encode(), "text/event-stream")

    return play


def answers(backbone: EndpointBackbone) -> Iterator[Completion]:
    """The answer to one request, and the same streamed."""
    yield from backbone.generate([ask()])
    yield from backbone.generate([ask(on_text=lambda piece: None)])


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Newts."}]},
    {"type": "text", "text": "How "},
    {"type": "text", "text": "many?"},
]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "How many?", "reasoning_content": "Newts."},
        {"content": "How many?", "reasoning": "Newts. </think>"},
        {"content": "<think>Newts.</think>How many?"},
        {"content": PARTS},
        {"content": None, "refusal": "How many?"},
    ],
)
def test_an_answer_is_without_its_reasoning(connect: Connect, message: dict[str, Any]) -> None:
    for answer in answers(connect(sends_message(message))):
        assert (answer.text, answer.finish, answer.lack) == ("How many?", "stop", "")


def test_what_a_filter_leaves_is_cut_short(connect: Connect) -> None:
    [answer] = connect(says("How many? And", "content_filter")).generate([ask()])
    assert (answer.text, answer.finish, answer.lack) == ("How many? And", "length", "")


def test_a_stream_that_breaks_while_reasoning_is_tried_again(stage: Stage, connect: Connect) -> None:
    def breaks(call: Call) -> None:
        delta = {"choices": [{"index": 0, "delta": {"reasoning_content": "Newts."}}]}
        call.send(200, f"data: {json.dumps(delta)}\n\n".encode(), "text/event-stream", Content_Length="999")

    backbone = connect(breaks, sends_message({"content": "How many?", "reasoning_content": "Newts."}))
    [answer] = backbone.generate([ask(on_text=lambda piece: None)])
    assert (answer.text, len(stage.bodies)) == ("How many?", 2)


# ---- backbone.extra


def test_a_refused_extra_parameter_is_left_out_from_then_on(stage: Stage, connect: Connect) -> None:
    def strict(call: Call) -> None:
        if "reasoning_effort" in call.body:
            fails(400, {"message": "Unrecognized request argument supplied: reasoning_effort"})(call)
        else:
            echoes(call)

    backbone = connect(strict, extra={"reasoning_effort": "low", "top_k": 20})
    backbone.generate([ask()])
    backbone.generate([ask()])
    assert [("reasoning_effort" in body, body["top_k"]) for body in stage.bodies] == [
        (True, 20),
        (False, 20),
        (False, 20),
    ]


def test_extra_cannot_replace_what_is_asked(connect: Connect) -> None:
    with pytest.raises(ConfigError, match=r"backbone\.extra has 'messages'"):
        connect(echoes, extra={"messages": []})


# ---- an agent at an endpoint

MakeAgent = Callable[..., Agent]


@pytest.fixture
def agent(
    stage: Stage, config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor
) -> Iterator[MakeAgent]:
    opened: list[Agent] = []

    def make(*plays: Play, **settings: Any) -> Agent:
        stage.plays = list(plays)
        keys = {"kind": "openai", "model": "m", "base_url": f"http://127.0.0.1:{stage.server_port}/v1"}
        chosen = config(**{f"backbone.{key}": value for key, value in keys.items()} | settings)
        opened.append(Agent(chosen, encoder=encoder, topics=topics))
        return opened[-1]

    yield make
    for one in opened:
        one.close(end_sessions=False)


@pytest.mark.parametrize(("message", "finish", "why"), NONE.values(), ids=NONE)
def test_without_an_answer_the_turn_has_a_reply_and_learning_waits(
    agent: MakeAgent, message: dict[str, Any], finish: str, why: str
) -> None:
    first = agent(sends_message(message, finish))
    talk = first.conversation("maya")
    shown: list[str] = []
    reply = talk.respond("I keep nine newts.", at=START, on_text=shown.append)
    assert (reply.text, shown) == (ENGLISH.words.speechless, [])
    assert [note for note in reply.notes if why in note and note.endswith("a stock phrase is used instead")]
    later = talk.respond("They live in a pond.", at=START + DAY)
    assert [note for note in later.notes if why in note and "waiting for their traits" in note]
    assert [note for note in later.notes if why in note and "waiting to be summarized" in note]
    assert (talk.records, talk.persona("User")) == ([], [])
    first.close(end_sessions=False)

    again = agent(says("I keep nine newts.")).conversation("maya")
    again.resume(at=START + 9 * DAY)
    assert [trait.text for trait in again.persona("User")] == ["I keep nine newts."]
    # the second answer is about nothing that was said, so that her words stand in for it
    assert [record.text for record in again.records] == ["I keep nine newts.", "User: They live in a pond."]


def test_a_model_that_once_left_its_reasoning_open_is_held_back_from_then_on(agent: MakeAgent) -> None:
    talk = agent(sends_message({"content": "She keeps newts.\n</think>\n\nHow many newts do you keep?"})).conversation(
        "m"
    )
    shown: list[str] = []
    assert talk.respond("I keep newts.", at=START, on_text=shown.append).text == "How many newts do you keep?"
    assert "".join(shown).endswith("How many newts do you keep?")
    shown.clear()
    talk.respond("What do I keep?", at=START, on_text=shown.append)
    assert "She keeps" not in "".join(shown)


@pytest.mark.parametrize("name", ["deepseek-r1:7b", "Qwen3-4B-Thinking-2507", "QwQ-32B", "phi-4-reasoning"])
def test_a_model_that_reasons_by_its_name_is_held_back_until_its_first_answer(agent: MakeAgent, name: str) -> None:
    reasons = sends_message({"content": "She keeps newts.\n</think>\n\nHow many newts do you keep?"})
    shown: list[str] = []
    talk = agent(reasons, **{"backbone.model": name}).conversation("maya")
    talk.respond("I keep newts.", at=START, on_text=shown.append)
    assert "".join(shown) == "How many newts do you keep?"


def test_a_model_that_only_has_such_a_name_streams_from_its_second_answer_on(agent: MakeAgent) -> None:
    answers = iter(["How many newts do you", "Where do all of them"])

    def play(call: Call) -> None:
        sends_message({"content": next(answers) if call.body.get("stream") else "NO_TRAIT"}, "length")(call)

    talk = agent(play, **{"backbone.model": "rethinker"}).conversation("maya")
    assert [*talk.stream("I keep newts.", at=START)] == ["How many newts do you"]
    assert len([*talk.stream("They are green.", at=START)]) > 1


def test_a_declared_model_is_held_back_at_once_and_reasons_within_the_whole_limit(
    stage: Stage, agent: MakeAgent
) -> None:
    thinking = agent(
        sends_message({"content": "She keeps newts.\n</think>\n\nHow many newts do you keep?"}),
        **{"backbone.thinking": True, "modules.memory.max_new_tokens": 500, "memory.views": ["conditional"]},
    )
    shown: list[str] = []
    talk = thinking.conversation("maya")
    talk.respond("I keep newts.", at=START, on_text=shown.append)
    assert "She keeps" not in "".join(shown)
    talk.end_session()
    assert 500 in [body["max_tokens"] for body in stage.bodies]


def test_reasoning_that_the_limit_cut_off_is_no_answer_of_a_declared_model(agent: MakeAgent) -> None:
    cut = sends_message({"content": "Okay, she says that she keeps"}, "length")
    talk = agent(cut, **{"backbone.thinking": True}).conversation("maya")
    shown: list[str] = []
    reply = talk.respond("I keep newts.", at=START, on_text=shown.append)
    assert (reply.text, shown) == (ENGLISH.words.speechless, [])
    assert LIMIT in reply.notes[0]
    undeclared = agent(cut).conversation("ben").respond("I keep newts.", at=START)
    assert undeclared.text == "Okay, she says that she keeps"


def test_a_failed_piece_of_work_names_its_module(agent: MakeAgent) -> None:
    talk = agent(sends_message({"content": ""}, "length")).conversation("maya")
    talk.observe("I keep newts.", at=START)
    talk.end_session()
    [events] = [f for f in talk.relation.resources.store.failures(talk.key) if f.work == "events"]
    assert "modules.summarizer.max_new_tokens" in events.error
