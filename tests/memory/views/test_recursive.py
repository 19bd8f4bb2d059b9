"""Recursive summarization against hand-worked traces: M_i = LLM(P_m(S_i, M_{i-1})), what is refused, what is kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_parts import DAY, START, Scene, prompt_of, requests_of

from ld_agent.agent import Agent, Conversation
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.errors import ConfigError
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.memory_text import capped, facts_from, finished, lost, memory_text, repetitive
from ld_agent.memory.views.recursive import PATIENCE, reply_examples

READING = ENGLISH.reading

FIRST = "Maya:\n- Maya keeps bees.\n- Maya lives in Lyon.\nSam:\n- Sam sails."
SECOND = "Maya:\n- Maya keeps bees.\n- Maya moved to Oslo.\nSam:\n- Sam sails."
SAID = ["I live in Lyon and keep bees. Do you sail?", "I moved to Oslo with my bees."]
VIEWS = {"memory.views": ["recursive"]}


def made(scene: Scene, memory: Any, **settings: Any) -> Agent:
    return scene.agent({"memory": memory, "generator": "I sail."}, **VIEWS | settings)


def talked(agent: Agent, said: list[str]) -> Conversation:
    talk = agent.conversation("maya")
    start = len(talk.utterances) // 2
    for number, text in enumerate(said, start):
        talk.respond(text, "Maya", START + number * DAY)
        talk.end_session()
    return talk


def test_each_session_rewrites_the_memory_from_itself_and_the_version_before(scene: Scene):
    agent = made(scene, [FIRST, SECOND])
    talk = talked(agent, SAID)
    first, second = (request.messages[-1].content for request in requests_of(agent, "memory"))
    assert "<memory>\nnone\n</memory>" in first
    assert "Maya: I live in Lyon and keep bees. Do you sail?\nSam: I sail.\n</conversation>" in first
    assert "at most 20 in all" in first
    assert "<memory>\nMaya:\n- Maya keeps bees.\n- Maya lives in Lyon.\nSam:\n- Sam sails.\n</memory>" in second
    assert "bees. Do you sail?" not in second, "a session before the last is known by the memory alone"
    versions = talk.records
    assert [r.text for r in versions] == [
        "Maya: Maya keeps bees. Maya lives in Lyon.\nSam: Sam sails.",
        "Maya: Maya keeps bees. Maya moved to Oslo.\nSam: Sam sails.",
    ]
    assert [r.sources for r in versions] == [("u1", "u2"), ("u3", "u4")]
    assert versions[1].details["previous"] == versions[0].id


def test_the_newest_version_of_that_time_is_recalled_and_shapes_the_reply(scene: Scene):
    agent = made(scene, [FIRST, SECOND])
    talk = talked(agent, SAID)
    newest, before = talk.recall("What about boats?", START + 2 * DAY), talk.recall("boats?", START + DAY / 2)
    assert [r.record.text for r in newest] == [talk.records[1].text]
    assert [r.record.text for r in before] == [talk.records[0].text]
    assert (newest[0].score, newest[0].s_top, newest[0].decay) == (1.0, 0.0, 1.0)
    assert -1 <= newest[0].s_sem < 1
    talk.respond("Hello!", "Maya", START + 2 * DAY)
    without, _, prompt = map(prompt_of, requests_of(agent, "generator"))
    assert "Maya: Maya keeps bees. Maya moved to Oslo. Sam: Sam sails." in prompt
    assert "never contradict what you remember" in prompt
    assert "never contradict" not in without, "nothing to use: no steps to use it"


def test_a_version_is_as_old_as_the_newest_session_in_it(scene: Scene):
    agent = made(scene, [FIRST, SECOND])
    phone, talk = agent.conversation("maya", thread="phone"), agent.conversation("maya")
    phone.respond(SAID[1], "Maya", START)
    talk.respond(SAID[0], "Maya", START + 9 * DAY)
    talk.end_session()
    phone.end_session()
    assert [r.at for r in talk.records] == [START + 9 * DAY] * 2
    assert talk.recall("boats?", START + DAY) == []


def test_a_rewrite_that_is_empty_or_drops_too_much_is_refused_and_tried_again_with_the_next_turn(scene: Scene):
    agent = made(scene, [FIRST, "Maya:\n- Maya was in Oslo.", SECOND, SECOND])
    talk = talked(agent, SAID)
    assert [r.text for r in talk.records] == ["Maya: Maya keeps bees. Maya lives in Lyon.\nSam: Sam sails."]
    assert len(requests_of(agent, "memory")) == 2
    talk.respond("How are you?", "Maya", START + 2 * DAY)
    assert len(requests_of(agent, "memory")) == 3
    talk.respond("Fine?", "Maya", START + 2 * DAY)
    assert len(requests_of(agent, "memory")) == 3, "what was accepted is not asked again"
    talk.end_session()
    tries = requests_of(agent, "memory")[1:3]
    assert tries[0].messages == tries[1].messages
    assert (tries[0].temperature, tries[1].temperature) == (0.0, 0.7), "the same prompt would get the same answer"
    assert [r.session for r in talk.records] == [1, 2, 3]


def test_unchecked_every_answer_is_the_memory_as_published(scene: Scene):
    loses, invents = "Maya:\n- Maya was in Oslo.", "Ann lives in York."
    agent = made(scene, [FIRST, loses, invents, ""], **{"memory.recursive": {"checked": False}})
    talk = talked(agent, [*SAID, "Hello!", "Fine."])
    assert [r.text for r in talk.records[1:]] == ["Maya: Maya was in Oslo.", invents, invents]
    assert not any(r.fallback for r in talk.records)
    assert len(requests_of(agent, "memory")) == 4, "nothing is tried again"


def test_what_waits_is_said_and_a_reopened_conversation_tries_again(scene: Scene):
    agent = made(scene, [FIRST, ""])
    talk = talked(agent, SAID[:1])
    talk.respond(SAID[1], "Maya", START + DAY)
    reply = talk.respond("Hello?", "Maya", START + 2 * DAY)
    assert any("session 2 was refused" in note and "the old one is kept" in note for note in reply.notes)
    assert reply.recalled[0].record.session == 1
    agent.close(end_sessions=False)
    assert [r.session for r in made(scene, SECOND).conversation("maya").records] == [1, 2]


def test_a_session_that_waited_long_enough_is_carried_over(scene: Scene):
    agent = made(scene, lambda request: FIRST if "none" in request.messages[-1].content else "")
    talk = talked(agent, [*SAID, *["I am fine."] * PATIENCE])
    second = talk.records[1]
    assert (second.session, second.fallback) == (2, True)
    assert second.text.startswith("Maya: Maya keeps bees. Maya lives in Lyon.")
    assert 'said: "I moved to Oslo with my bees."' in second.text


def test_no_more_sentences_than_configured_and_nothing_invented(scene: Scene):
    talk = talked(made(scene, FIRST + "\n- Ann lives in York.", **{"memory.recursive": {"sentences": 2}}), SAID[:1])
    assert talk.records[0].text == "Maya: Maya lives in Lyon.\nSam: Sam sails."


def test_what_a_rewrite_invents_is_dropped_and_counted(scene: Scene):
    rewrite = "Maya:\n- Maya keeps bees.\n- Maya is a nurse.\n- Maya plays chess.\nSam:\n- Sam keeps horses."
    [version] = talked(made(scene, rewrite), SAID[:1]).records
    assert version.details["facts"] == {"Maya": ["Maya keeps bees."]}
    assert version.details["dropped"] == 3
    [plain] = talked(made(scene, rewrite, **{"memory.recursive": {"checked": False}}), SAID[:1]).records[-1:]
    assert "Maya is a nurse." in plain.text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Maya: Maya keeps bees. Maya li", "Maya: Maya keeps bees."),
        ("Maya: Maya keeps bees.\nSam: Sam sails. Sam sa", "Maya: Maya keeps bees.\nSam: Sam sails."),
        ("Maya:\n- Maya keeps bees\n- Maya li", "Maya:\n- Maya keeps bees"),
        ("Maya: Keeps bees, has a son, and li", "Maya: Keeps bees, has a son"),
        ("Maya: Sails, has a son, keeps bees, has a son, keeps bees, has a", "Maya: Sails, has a son, keeps bees"),
        ("小雨养蜂。小雨有儿子，小雨有儿子，小雨有", "小雨养蜂。小雨有儿子"),
        ("Maya keeps be", "Maya keeps be"),
        ("Maya: Maya keeps bees. Maya sails.", "Maya: Maya keeps bees. Maya sails."),
    ],
)
def test_an_answer_that_reached_its_limit_ends_before_the_cut_and_its_repetitions(text: str, kept: str):
    assert finished(text) == kept


def test_an_answer_that_reached_its_limit_while_it_repeats_itself_is_used(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    answered = ScriptedBackbone._answer
    monkeypatch.setattr(ScriptedBackbone, "_answer", lambda *a: replace(answered(*a), finish="length"))
    [version] = talked(made(scene, f"Maya: Lives in Lyon, {'keeps bees, ' * 30}kee"), SAID[:1]).records
    assert version.details["facts"] == {"Maya": ["Lives in Lyon, keeps bees"]}


def test_a_session_too_long_for_the_window_is_split(scene: Scene):
    backbone_window = {"modules.memory": {"max_new_tokens": 20}}
    agent = made(scene, lambda request: "Maya:\n- Maya has bees and honey.", **backbone_window)
    agent.models.backbone("memory")._window = 420  # type: ignore[attr-defined]
    talk = agent.conversation("maya")
    for _ in range(6):
        talk.observe(" ".join(["bees and honey"] * 15), "Maya", START)
    talk.end_session()
    asked = requests_of(agent, "memory")
    assert len(asked) > 1
    assert "- Maya has bees and honey" in asked[1].messages[-1].content
    assert len(talk.records) == 1


def test_n_shot_examples_come_from_a_file(scene: Scene, tmp_path: Path):
    row = {"memory": "User: has a cat.", "dialogue": [["User", "She purrs."]], "reply": "Your cat is happy."}
    path = tmp_path / "examples.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    agent = made(scene, FIRST, **{"memory.recursive": {"examples": str(path)}})
    talk = talked(agent, SAID)
    assert "a good reply is: Your cat is happy." in requests_of(agent, "generator")[-1].messages[0].content
    assert talk.last_reply is not None
    path.write_text('{"memory": 1}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"examples.jsonl, line 1: no example"):
        made(scene, FIRST, **{"memory.recursive": {"examples": str(path)}}).conversation("other")


def test_the_shipped_examples_are_examples():
    shown = reply_examples("shipped:samples/reply_examples.jsonl")
    assert [text.partition(".")[0] for text in shown] == ["Example 1", "Example 2", "Example 3"]
    assert "The user plays the cello" in shown[0]


def test_facts_are_read_by_speaker_in_any_shape():
    answer = (
        "Here is the new memory:\n**Maya**: 1. Maya keeps bees. She lives in Lyon.\n- Sam: Sails.\n"
        "Ben:\n* Ben has a son\n* Ben has a son"
    )
    assert facts_from(answer, ["Maya", "Ben"], READING) == {
        "Maya": ["Maya keeps bees.", "She lives in Lyon.", "Sam: Sails."],
        "Ben": ["Ben has a son"],
    }
    assert facts_from("Maya keeps bees. Nobody sleeps.", ["Maya"], READING) == {
        "Maya": ["Maya keeps bees."],
        "": ["Nobody sleeps."],
    }
    assert facts_from("Maya: Keeps bees. Sings in a choir. Ben: Plays chess on Sundays.", ["Maya", "Ben"], READING) == {
        "Maya": ["Keeps bees.", "Sings in a choir."],
        "Ben": ["Plays chess on Sundays."],
    }
    assert facts_from("none", ["Maya"], READING) == {}
    assert facts_from("Maya: Do you keep bees? I keep bees.", ["Maya"], READING) == {"Maya": ["I keep bees."]}


def test_what_a_rewrite_lost_and_what_holds_no_fact():
    old = {"Maya": ["Maya keeps bees.", "Maya lives in Lyon."], "Sam": ["Sam sails."]}
    assert lost(old, {"Maya": ["Maya has bees and lives in Oslo, once Lyon."]}, READING) == pytest.approx(1 / 3)
    assert lost({}, old, READING) == 0.0
    assert capped(old, 2) == {"Maya": ["Maya lives in Lyon."], "Sam": ["Sam sails."]}
    assert repetitive("so glad I am " * 12)
    assert not repetitive(memory_text(old))
