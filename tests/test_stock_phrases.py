"""What an agent says because its model gave no reply tells nothing: no mechanism remembers it."""

import pytest
from agent_parts import DAY, START, Scene, requests_of

from ld_agent.languages import ENGLISH
from ld_agent.memory.views import VIEWS
from ld_agent.running.rebuild import rebuild

PHRASE = ENGLISH.words.speechless
VIEWS_OF_TEXT = [name for name in VIEWS if name not in ("none", "golden")]


@pytest.mark.parametrize("view", VIEWS_OF_TEXT)
def test_no_mechanism_remembers_a_stock_phrase(scene: Scene, view: str) -> None:
    agent = scene.agent(
        {"generator": "", "summarizer": "", "extractor": lambda request: PHRASE, "memory": ""},
        **{"memory.views": [view], "modules.extractor.grounded": False},
    )
    talk = agent.conversation("maya")
    talk.respond("I keep nine newts.", "Maya", START)
    assert talk.respond("They live in a pond.", "Maya", START).text == PHRASE
    talk.end_session()
    assert [record.text for record in talk.records if PHRASE[:9] in record.text] == []
    shown = {text for request in requests_of(agent, "extractor") for text in [request.messages[-1].content]}
    assert not [text for text in shown if PHRASE in text]
    assert agent.store.unextracted(talk.key) == []


def test_an_extract_of_a_session_has_the_words_of_people(scene: Scene) -> None:
    talk = scene.agent({"generator": "I do love a garden pond, newts and all.", "summarizer": ""}).conversation("maya")
    for text in ("I keep nine newts.", "They live in a pond."):
        talk.respond(text, "Maya", START)
    [record] = talk.end_session()
    assert (record.text, record.fallback) == ("Maya: I keep nine newts. Maya: They live in a pond.", True)


def test_a_session_in_which_nobody_said_more_leaves_no_record(scene: Scene) -> None:
    agent = scene.agent()
    talk = agent.conversation("maya")
    talk.observe(PHRASE, "Sam", START)
    talk.observe("I keep nine newts.", "Maya", START + DAY)
    talk.end_session()
    assert [record.session for record in talk.records] == [2]


def test_a_rebuild_forgets_them_too(scene: Scene) -> None:
    agent = scene.agent({"generator": ""}, **{"memory.views": ["none"]})
    talk = agent.conversation("maya")
    talk.respond("I keep nine newts.", "Maya", START)
    talk.end_session()
    agent.close()
    again = scene.agent(**{"memory.views": ["dense"]})
    [stored] = again.store.conversations()
    assert rebuild(again, stored, lambda view, count: None) == []
    assert [record.text for record in again.store.records(stored.key)] == ["Maya: I keep nine newts."]


def test_a_rebuild_waits_for_an_answer(scene: Scene) -> None:
    agent = scene.agent({"summarizer": "<think>newts"})
    talk = agent.conversation("maya")
    talk.respond("I keep nine newts.", "Maya", START)
    talk.end_session()
    [stored] = agent.store.conversations()
    [problem] = rebuild(agent, stored, lambda view, count: None)
    assert "only reasoning" in problem
    assert talk.records == []


def test_the_agents_own_words_are_stored_without_reasoning(scene: Scene) -> None:
    talk = scene.agent().conversation("maya")
    assert talk.observe("<think>newts</think>How many?", "Sam", START).text == "How many?"
    assert talk.observe("I typed <think>.", "Maya", START).text == "I typed <think>."


def test_a_mechanism_that_gets_no_answer_recalls_nothing_and_says_so(scene: Scene) -> None:
    agent = scene.agent({"memory": "<think>newts"}, **{"memory.views": ["memochat"]})
    talk = agent.conversation("maya")
    talk.respond("I keep nine newts.", "Maya", START)
    talk.end_session()
    assert talk.records == []
    notes = talk.respond("What do I keep?", "Maya", START + DAY).notes
    assert any("memochat: 1 waiting to be summarized: the model's answer was only reasoning" in note for note in notes)
