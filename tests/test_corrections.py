"""What a person corrects or forgets by hand does not come back: not from the lines that said it, nor from what was made of
them."""

import json
from typing import Any

import pytest
from agent_parts import DAY, START, Scene, requests_of

from ld_agent.agent import Agent
from ld_agent.conversation import Conversation
from ld_agent.errors import InputError
from ld_agent.languages import ENGLISH
from ld_agent.memory.corrections import Correction, rewritten
from ld_agent.storage.exchange import export_lines, import_lines
from ld_agent.storage.sqlite.store import SQLiteStore

VIEWS = ["events", "history", "bm25", "recursive", "conditional", "memorybank"]


def agreeing(request: Any) -> str:
    """A reply that repeats what was said last."""
    said = request.messages[-1].content.splitlines()[-1]
    return (
        "Noted: your partner is Joao."
        if "Joao" in said
        else "Noted: you are allergic to peanuts."
        if "peanuts" in said
        else "Okay."
    )


def told(scene: Scene, *lines: str, **settings: Any) -> tuple[Agent, Conversation]:
    """A session in which a person says some lines, and the agent agrees."""
    agent = scene.agent({"generator": agreeing}, **{"memory.views": VIEWS, "modules.reader.passages": 4, **settings})
    conversation = agent.conversation("ann")
    for line in lines:
        conversation.respond(line, at=START)
    conversation.end_session()
    return agent, conversation


def trait_of(conversation: Conversation, word: str) -> str:
    return next(trait.id for trait in conversation.traits() if word in trait.text)


def everywhere(agent: Agent, conversation: Conversation, question: str, at: Any = START + DAY) -> str:
    """All that a model is shown for a question, all that is recalled, and the export without the log of changes."""
    before = len(agent.models.backbone("generator").requests)  # type: ignore[attr-defined]
    conversation.respond(question, at=at)
    conversation.end_session()
    asked = [m.content for r in agent.models.backbone("generator").requests[before:] for m in r.messages]  # type: ignore[attr-defined]
    recalled = [str(one) for one in conversation.recall(question, at=at + DAY)]
    lines = [line for line in export_lines(agent.store) if json.loads(line).get("kind") != "change"]
    return "\n".join([*asked, *recalled, *lines, *(t.text for t in conversation.traits(history=True))])


def test_a_corrected_trait_is_corrected_everywhere(scene: Scene):
    agent, ann = told(
        scene,
        "I am allergic to peanuts. I have a dog called Bo.",
        "I said I am allergic to peanuts, right?",
        "I keep bees.",
    )
    ann.edit(trait_of(ann, "allergic"), "I am allergic to latex.")
    shown = everywhere(agent, ann, "What am I allergic to?")
    assert "peanut" not in shown
    assert "I am allergic to latex. I have a dog called Bo." in [u.text for u in ann.utterances]
    assert "keep bees" in shown
    assert [c.before for c in agent.store.changes(ann.key) if c.target == "u1"] == [
        "I am allergic to peanuts. I have a dog called Bo."
    ]


def test_a_forgotten_trait_is_forgotten_everywhere(scene: Scene):
    agent, ann = told(scene, "I have a partner named Joao.", "I keep bees in Ghent.", "My partner Joao paints.")
    ann.forget(trait_of(ann, "Joao"))
    assert "Joao" not in everywhere(agent, ann, "What is my partner called?")
    assert not any("Joao" in line for line in export_lines(agent.store)), "not even in the log"
    assert "I keep bees in Ghent." in [u.text for u in ann.utterances]


def test_a_memory_of_nothing_else_tells_the_rest_in_peoples_own_words(scene: Scene):
    _, ann = told(scene, "I have a partner named Joao.", "I keep bees in Ghent.", **{"memory.views": ["events"]})
    ann.forget(trait_of(ann, "Joao"))
    [record] = ann.records
    assert (record.text, record.fallback, record.sources) == ("User: I keep bees in Ghent.", True, ("u3", "u4"))


def test_what_another_line_tells_besides_stays(scene: Scene):
    _, ann = told(scene, "I have a partner named Joao.", "Joao and I went to Porto.")
    ann.forget(trait_of(ann, "partner"))
    assert [u.text for u in ann.utterances if u.speaker == "User"] == ["Joao and I went to Porto."]


def test_an_utterance_is_forgotten_with_what_was_learned_from_it_alone(scene: Scene):
    agent, ann = told(scene, "I keep goats in Ghent.", "I have a partner named Joao.", "I keep goats in Ghent. I sing.")
    [goats] = [t.id for t in ann.traits() if "goats" in t.text]
    first, _, second, *_ = [u for u in ann.utterances if u.speaker == "User" or u.id == "u2"]
    ann.forget(second.id)
    ann.forget(first.id)
    shown = everywhere(agent, ann, "Who is my partner?")
    assert "Joao" not in shown
    assert goats in [t.id for t in ann.traits()], "another line says it"
    assert "I keep goats in Ghent. I sing." in shown


def test_an_utterance_is_corrected_and_read_again(scene: Scene):
    agent, ann = told(scene, "I have a partner named Joao.")
    ann.edit("u1", "I have a brother named Rui.")
    shown = everywhere(agent, ann, "What is my brother called?")
    assert "Joao" not in shown
    assert [t.text for t in ann.traits()] == ["I have a brother named Rui."]


def test_a_corrected_memory_corrects_the_line_that_it_comes_from(scene: Scene):
    agent, ann = told(scene, "I am allergic to peanuts.", **{"memory.views": ["events"]})
    [record] = ann.records
    ann.edit(record.id, record.text.replace("peanuts", "latex"))
    assert "peanut" not in everywhere(agent, ann, "What am I allergic to?")
    assert [t.text for t in ann.traits()] == ["I am allergic to latex."]


def test_a_forgotten_memory_takes_its_lines_with_it(scene: Scene):
    agent, ann = told(scene, "I am allergic to peanuts.", **{"memory.views": ["events", "history"]})
    ann.forget(next(r.id for r in ann.records if r.view == "events"))
    assert "peanut" not in everywhere(agent, ann, "What am I allergic to?")


def test_a_running_session_shows_the_correction(scene: Scene):
    agent = scene.agent({"generator": agreeing})
    ann, phone = agent.conversation("ann"), agent.conversation("ann", thread="phone")
    ann.respond("I am allergic to peanuts.", at=START)
    ann.edit(trait_of(phone, "peanuts"), "I am allergic to latex.")
    phone.respond("Hello.", at=START)
    ann.respond("Hm.", at=START)
    assert "peanut" not in str(requests_of(agent, "generator")[-1].messages)
    assert "latex" in str(requests_of(agent, "generator")[-1].messages)


def test_corrections_are_exported_and_imported(scene: Scene, tmp_path: Any):
    agent, ann = told(scene, "I am allergic to peanuts.", "I have a partner named Joao.")
    ann.edit(trait_of(ann, "peanuts"), "I am allergic to latex.")
    ann.forget(trait_of(ann, "Joao"))
    exported = list(export_lines(agent.store))
    other = SQLiteStore(tmp_path / "other.db")
    import_lines(other, [line.encode() for line in exported], "export", "ann")
    again = list(export_lines(other))
    assert [line.replace('"import"', '"chat"') for line in again] == exported
    other.close()


def test_what_is_unknown_is_refused_by_name(scene: Scene):
    _, ann = told(scene, "I keep bees.")
    for target in ("u99", "t99", "m99", "x"):
        with pytest.raises(InputError, match=f"'{target}' is not"):
            ann.forget(target)


@pytest.mark.parametrize(
    ("sentence", "corrected"),
    [
        ("I am allergic to peanuts!", "I am allergic to latex!"),
        ("And Ann is allergic to peanuts, she says.", "And Ann is allergic to latex, she says."),
        ("Peanuts make me allergic, peanuts!", "…"),  # not in place
        ("I'm not allergic to peanuts.", "I'm not allergic to peanuts."),  # does not say it
        ("I love peanuts.", "I love peanuts."),
    ],
)
def test_a_sentence_is_corrected_in_place_where_that_is_clear(sentence: str, corrected: str):
    correction = Correction("I am allergic to peanuts.", ENGLISH.reading, "I am allergic to latex.")
    assert rewritten(sentence, lambda s: correction.applied(s, "…") if correction.said_in(s, "Ann") else s) == corrected


def test_a_line_keeps_its_speaker_when_its_first_sentence_goes():
    def without(text: str) -> str:
        return "" if "goats" in text else text

    said = "Ann: I keep goats. I sing.\nSam: Your goats?\nAnn: Yes."
    assert rewritten(said, without, ["Ann", "Sam"]) == "Ann: I sing.\nAnn: Yes."
    assert rewritten("Ann: I keep goats. Sam: Fine.", without, ["Ann", "Sam"]) == "Sam: Fine."


@pytest.mark.parametrize("target", ["u1", "trait", "m1"])
def test_an_edit_is_taken_back(scene: Scene, target: str):
    agent, ann = told(scene, "I live in Leeds.", "I keep bees.")
    ann.traits()

    def everything() -> list[str]:
        return [one.text for one in (*ann.utterances, *ann.records)] + sorted(trait.text for trait in ann.traits())

    before = everything()
    ann.edit(trait_of(ann, "Leeds") if target == "trait" else target, "I live in Bath.")
    after = everything()
    assert "Leeds" not in str(after)
    ann.undo()
    assert everything() == before
    ann.undo()
    assert everything() == after
    agent.conversation("friends/bob")
    assert [person.id for person in agent.people()] == ["ann", "friends/bob"]


def test_an_edited_trait_holds_when_its_new_text_says(scene: Scene):
    _, ann = told(scene, "I am flying to Tallinn on 4 May 2024.")
    [flight], june = ann.traits(), START + 31 * DAY
    ann.edit(flight.id, "I am flying to Tallinn on 20 June 2024.")
    assert [ann.persona("User", as_of=at) != [] for at in (june, june + 30 * DAY)] == [True, False]
    ann.edit(flight.id, "I flew to Tallinn.")
    assert [(trait.holds_from, trait.holds_until) for trait in ann.traits()] == [(None, None)]
    ann.undo()
    ann.edit(flight.id, "I have lived in Tallinn since 20 April 2024.")
    [trait] = ann.traits()
    assert (trait.holds_from, trait.holds_until) == (START.replace(month=4, day=20, hour=0, minute=0), None)


def test_pins_are_taken_back_and_what_was_forgotten_is_not(scene: Scene):
    _, ann = told(scene, "I live in Leeds.")
    with pytest.raises(InputError, match="nothing was edited"):
        ann.undo()
    trait = trait_of(ann, "Leeds")
    ann.pin(trait)
    ann.undo()
    assert not any(one.pinned for one in ann.traits())
    ann.forget(trait)
    with pytest.raises(InputError, match="forgotten is gone"):
        ann.undo()


@pytest.mark.parametrize("text", ["I adopted a greyhound, a lovely dog.", None])
def test_what_is_older_than_a_line_is_not_changed_with_it(scene: Scene, text: str | None):
    events = iter(["User had a wonderful trip to Rome with Ines.", "User adopted a greyhound."])
    ann = scene.agent({"summarizer": lambda request: next(events)}).conversation("ann")
    ann.observe("We were in Rome, Ines and I, for ten days.", at=START)
    ann.observe("What a wonderful trip!", ann.agent_name, START)
    ann.end_session()
    dog = ann.observe("I adopted a greyhound, a wonderful dog.", at=START + DAY)
    ann.end_session()
    if text is None:
        ann.forget(dog.id)
    else:
        ann.edit(dog.id, text)
    assert ann.records[0].text == "User had a wonderful trip to Rome with Ines."
    assert ann.utterances[1].text == "What a wonderful trip!"
