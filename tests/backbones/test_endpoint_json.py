"""Answers as JSON from endpoints that can, cannot, or say they can: what is sent, read, counted and remembered."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from agent_parts import START
from stage import Call, Stage, fails, says

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.json_form import FLAG, TEXT, TEXTS, form_of, parts_in

NEWTS = "I keep nine newts in a pond."
RECORD = {
    "note": "User keeps nine newts in a pond.",
    "related": "none",
    "situation": "User tells of nine newts in a pond.",
    "remember": True,
}
PROSE = "Note: User keeps nine newts in a pond.\nRelated: none\nSituation: User tells of nine newts.\nRemember: yes"
Play = Callable[[Call], None]


def asks_json(call: Call) -> bool:
    return "response_format" in call.body


def plays(record: str, traits: str, reply: str = "Lovely.") -> Play:
    """Answers each module's call; a reply's call alone streams or has no examples."""

    def play(call: Call) -> None:
        system = call.body["messages"][0]["content"]
        is_record, is_extraction = "take notes" in system, "reveal" in system
        says(record if is_record else traits if is_extraction else reply)(call)

    return play


@pytest.fixture
def agent(
    stage: Stage, config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor
) -> Iterator[Callable[..., Agent]]:
    opened: list[Agent] = []

    def make(play: Play, **settings: Any) -> Agent:
        stage.plays = [play]
        keys = {"kind": "openai", "model": "m", "base_url": f"http://127.0.0.1:{stage.server_port}/v1"}
        chosen = {f"backbone.{key}": value for key, value in keys.items()} | {"backbone.json_answers": True}
        views = {"memory.views": ["conditional"], "memory.conditional.decision": "apart"}
        opened.append(Agent(config(**chosen | views | settings), encoder=encoder, topics=topics))
        return opened[-1]

    yield make
    for one in opened:
        one.close(end_sessions=False)


def formats(stage: Stage) -> list[dict[str, Any]]:
    return [body["response_format"]["json_schema"] for body in stage.bodies if "response_format" in body]


def told(agent: Agent) -> tuple[Sequence[str], Sequence[str]]:
    """The traits and the records of somebody who said one thing."""
    talk = agent.conversation("maya")
    talk.respond(NEWTS, at=START)
    talk.resume(at=START)
    return [trait.text for trait in talk.persona("User")], [record.text for record in talk.records]


def test_traits_and_records_are_asked_for_and_read_as_json(stage: Stage, agent: Callable[..., Agent]) -> None:
    traits = {"thought": "Traits: I have a cat.", "traits": ["I keep nine newts", "NO_TRAIT", "i have a pond."]}
    asked = agent(plays(json.dumps(RECORD), json.dumps(traits)), **{"modules.extractor.prompting": "chain_of_thought"})
    kept = " ".join((RECORD["situation"], RECORD["note"]))
    assert told(asked) == (["I keep nine newts.", "I have a pond."], [kept])
    asked_for = [list(form["schema"]["properties"]) for form in formats(stage)]  # by several threads, in any order
    assert sorted(asked_for) == sorted([*[["thought", "traits"]] * 2, [*RECORD]]), "traits of both utterances"
    assert all(form["strict"] and form["schema"]["additionalProperties"] is False for form in formats(stage))
    for body in stage.bodies:  # the examples are answers of the form
        examples = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
        form = body.get("response_format", {"json_schema": None})["json_schema"]
        assert form is None or (examples and all(parts_in(example, form["schema"]) for example in examples))
    assert asked.models.as_json == {"extractor": (0, 2), "memory": (0, 1)}


def test_every_language_shows_its_examples_as_json(stage: Stage, agent: Callable[..., Agent]) -> None:
    for language in ("en", "zh", "ko"):
        for prompting in ("direct", "chain_of_thought"):
            models = agent(says("{}"), language=language).models
            stage.bodies.clear()
            Extractor(models, prompting).extract([NEWTS])
            examples = [m["content"] for m in stage.bodies[0]["messages"] if m["role"] == "assistant"]
            said = [parts_in(example, formats(stage)[0]["schema"]) for example in examples]
            assert all(parts is not None for parts in said), (language, examples)
            assert [bool(parts and parts["traits"]) for parts in said].count(True) >= 2
            assert all(parts and parts.get("thought", "-") for parts in said)


def test_nothing_worth_a_record_is_said_as_json_too(agent: Callable[..., Agent]) -> None:
    no = json.dumps(RECORD | {"note": "none", "remember": False})
    assert told(agent(plays(no, '{"traits": []}')))[1] == []


def test_an_endpoint_that_refuses_the_format_is_asked_for_prose_from_then_on(
    stage: Stage, agent: Callable[..., Agent]
) -> None:
    answers = plays(PROSE, "I keep nine newts.")

    def strict(call: Call) -> None:
        fails(400, {"message": "response_format is not supported"})(call) if asks_json(call) else answers(call)

    asked = agent(strict)
    kept = "User tells of nine newts. User keeps nine newts in a pond."
    assert told(asked) == (["I keep nine newts."], [kept])
    refused = len(formats(stage))
    talk = asked.conversation("maya")
    talk.respond("And two toads.", at=START)
    talk.resume(at=START)
    assert len(formats(stage)) == refused
    assert "Facts about the person" in str(stage.bodies[-1]) or "Note: " in str(stage.bodies[-1])


def test_an_endpoint_that_ignores_the_format_is_read_as_prose_and_counted(agent: Callable[..., Agent]) -> None:
    asked = agent(plays(PROSE, "I keep nine newts."))
    assert told(asked) == (["I keep nine newts."], ["User tells of nine newts. User keeps nine newts in a pond."])
    assert asked.models.as_json == {"extractor": (2, 2), "memory": (1, 1)}


@pytest.mark.parametrize("settings", [{"backbone.json_answers": False}, {"modules.extractor.prompting": "brief"}])
def test_json_is_not_asked_for_unless_wanted_and_never_of_a_tuned_module(
    stage: Stage, agent: Callable[..., Agent], settings: dict[str, Any]
) -> None:
    told(agent(plays(PROSE, "I keep nine newts."), **{"memory.views": ["events"]} | settings))
    assert stage.bodies
    assert formats(stage) == []


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I have a dog.",
        "[]",
        '{"text": "a"}',
        '{"text": 1, "texts": [], "flag": true}',
        '{"text": "a", "texts": [1], "flag": true}',
        '{"text": "a", "texts": ["b"], "flag": "yes"}',
        '{"text": "a", "texts": ["b"',
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_form_has_no_parts(answer: str) -> None:
    assert parts_in(answer, form_of({"text": TEXT, "texts": TEXTS, "flag": FLAG})) is None
