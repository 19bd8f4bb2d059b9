"""Conditional memory against hand-worked traces: decide with the reply, record, recall with self-reflection."""

from typing import Any

import pytest
from agent_parts import DAY, START, Scene, requests_of

from ld_agent.agent import Agent, Conversation
from ld_agent.errors import BackboneError, ConfigError
from ld_agent.memory.views.conditional import labelled, yes_or_no
from ld_agent.memory.views.reflection import judgement
from ld_agent.modules.replies import ReplyStream, decision, reply_text

YES, NO = "Reply: Lovely bees!\nRemember: yes", "Reply: Hello you!\nRemember: no"
RECORD = "Related: none\nSituation: Maya tells of her garden.\nNote: Maya keeps bees in Lyon."
BEES = "I keep bees in my garden in Lyon."
LATER = START + 9 * DAY


def made(scene: Scene, replies: Any, memory: Any = RECORD, **settings: Any) -> Agent:
    script = {"generator": replies, "memory": memory, "extractor": "NO_TRAIT"}
    return scene.agent(script, **{"memory.views": ["conditional"]} | settings)


def after_one_turn(scene: Scene, replies: Any, memory: Any = RECORD, said: str = BEES, **settings: Any) -> Conversation:
    """A conversation in which Maya said one thing, which is taken in."""
    talk = made(scene, replies, memory, **settings).conversation("maya")
    talk.respond(said, "Maya", START)
    talk.resume()
    return talk


def shown(request: Any) -> str:
    return "\n".join(message.content for message in request.messages)


def calls(agent: Agent) -> list[str]:
    modules = ("generator", "memory")
    return [m for m in modules for _ in requests_of(agent, m)]


def remembering(scene: Scene, *notes: str, memory: Any, **settings: Any) -> Conversation:
    """A conversation with a record a note, one session ended, whose recall is answered by ``memory``."""
    first = made(scene, YES, [f"Situation: Maya talks.\nNote: {note}" for note in notes])
    talk = first.conversation("maya")
    for number, note in enumerate(notes):
        talk.respond(f"Know this: {note}", "Maya", START + number * DAY / 100)
    talk.end_session()
    first.close(end_sessions=False)
    return made(scene, NO, memory, **settings).conversation("maya")


def test_the_reply_decides_and_one_more_call_makes_the_record(scene: Scene):
    agent = made(scene, [NO, YES])
    talk = agent.conversation("maya")
    greeted = talk.respond("Hello there!", "Maya", START)
    assert (greeted.text, calls(agent), talk.records) == ("Hello you!", ["generator"], [])
    told = talk.respond(BEES, "Maya", START)
    assert (told.text, told.utterance and told.utterance.text) == ("Lovely bees!", "Lovely bees!")
    talk.resume()
    assert calls(agent) == ["generator", "generator", "memory"], "two calls at most"
    [record] = talk.records
    assert record.text == "Maya tells of her garden. Maya keeps bees in Lyon."
    assert record.details == {"situation": "Maya tells of her garden.", "note": "Maya keeps bees in Lyon."}
    assert (record.sources, record.at, record.fallback) == ((told.heard.id,), START, False)
    request = requests_of(agent, "memory")[0]
    assert "Maya: Hello there!\nSam: Hello you!\nMaya: I keep bees" in request.messages[-1].content
    assert "Remember:" not in shown(request), "it is decided"
    generator = requests_of(agent, "generator")[0]
    assert "Remember:" in generator.messages[0].content
    assert generator.max_new_tokens > agent.config.modules.generator.max_new_tokens
    talk.end_session()
    assert calls(agent) == ["generator", "generator", "memory"], "the end of a session asks nothing again"


@pytest.mark.parametrize(
    ("answer", "records"),
    [
        ("Remember: yes\n" + RECORD, ["Maya tells of her garden. Maya keeps bees in Lyon."]),
        ("Remember: no", []),
        ("No.", []),
        ("What a nice garden", [f'Maya said: "{BEES}"']),
    ],
)
def test_a_model_that_gives_no_decision_is_asked_in_the_record_call(scene: Scene, answer: str, records: list[str]):
    agent = made(scene, "Lovely bees!", answer)
    talk = agent.conversation("maya")
    assert talk.respond(BEES, "Maya", START).text == "Lovely bees!"
    talk.resume()
    assert calls(agent) == ["generator", "memory"]
    assert [r.fallback for r in talk.records] == ["said" in text for text in records]
    assert "Remember:" in shown(requests_of(agent, "memory")[0])
    assert [r.text for r in talk.records] == records


@pytest.mark.parametrize(
    "answer",
    [
        "**Situation:** Maya tells of her garden.\n**Note:** Maya keeps bees in Lyon.",
        "1. Situation: Maya tells of her garden.\n2. Note: Maya keeps bees in Lyon.",
        '```json\n{"situation": "Maya tells of her garden.", "note": "Maya keeps bees in Lyon."}\n```',
        "The situation is that Maya tells of her garden. The note is that Maya keeps bees in Lyon.",
    ],
)
def test_a_record_is_read_in_any_of_the_forms_that_models_write(scene: Scene, answer: str):
    talk = after_one_turn(scene, YES, answer)
    assert [r.text for r in talk.records] == ["Maya tells of her garden. Maya keeps bees in Lyon."]


def test_the_record_and_the_traits_of_a_turn_are_asked_in_one_batch(scene: Scene):
    agent = made(scene, YES)
    talk = agent.conversation("maya")
    talk.respond(BEES, "Maya", START)
    talk.resume()
    assert agent.models.backbone("memory").batches == [1, 3]  # type: ignore[attr-defined]


def test_what_others_say_among_themselves_is_taken_in_with_the_next_turn(scene: Scene):
    agent = made(scene, NO, "Remember: yes\nNote: Ben paints bees.")
    talk = agent.conversation("maya")
    talk.observe("I paint bees.", "Ben", START)
    talk.respond("Hello!", "Maya", START)
    assert [r.sources for r in talk.records] == [("u1",)]


@pytest.mark.parametrize(
    ("ablation", "text", "asked"),
    [
        ({"context": False}, "Maya keeps bees in Lyon.", ["generator", "memory"]),
        ({"knowledge": False}, "Maya tells of her garden.", ["generator", "memory"]),
        ({"selection": False}, "Maya tells of her garden. Maya keeps bees in Lyon.", ["generator", "memory"]),
        ({"decision": "apart"}, "Maya tells of her garden. Maya keeps bees in Lyon.", ["generator", "memory"]),
    ],
)
def test_ablations(scene: Scene, ablation: dict[str, Any], text: str, asked: list[str]):
    replies = YES if set(ablation) & {"context", "knowledge"} else "Lovely bees!"
    agent = made(scene, replies, RECORD, **{"memory.conditional": ablation})
    talk = agent.conversation("maya")
    talk.respond(BEES, "Maya", START)
    talk.resume()
    assert ([r.text for r in talk.records], calls(agent)) == ([text], asked)
    decides = "Remember:" in requests_of(agent, "generator")[0].messages[0].content
    assert decides == bool(set(ablation) & {"context", "knowledge"})
    assert ("Remember:" in shown(requests_of(agent, "memory")[0])) == ("decision" in ablation)
    with pytest.raises(ConfigError, match="context and knowledge are both false"):
        made(scene, YES, **{"memory.conditional": {"context": False, "knowledge": False}})


# ---- recall with self-reflection

NOTES = ("Maya keeps bees.", "Maya has a brother in Oslo.", "Maya sings in a choir.", "Maya is allergic to nuts.")


def test_the_model_chooses_among_what_was_found(scene: Scene):
    talk = remembering(scene, *NOTES, memory="Enough: 1")
    plain = remembering_ids(talk, 0)
    reply = talk.respond("What hums in my beehive?", "Maya", LATER)
    assert [r.record.id for r in reply.recalled] == plain[:1]
    assert reply.recalled[0].record.text == "Maya talks. Maya keeps bees."
    assert reply.recalled[0].score == reply.recalled[0].s_sem
    told = reply.explanations["conditional"]["rounds"]
    assert told == [{"candidates": plain, "outcome": "enough", "selected": plain[:1]}]
    assert len(plain) == 3, "K"


def remembering_ids(talk: Conversation, rounds: int) -> list[str]:
    """Ids of the K nearest without reflection."""
    from ld_agent.memory.views.base import Query
    from ld_agent.memory.views.stored import StoredRecords

    query: Query = talk.relation.resources.query("What hums in my beehive?", LATER)
    records = StoredRecords(talk.relation.resources.view_context(talk.key, talk.agent_name), "conditional")
    return [r.record.id for r in records.nearest(query, 3, -1.0)]


def test_missing_keywords_extend_the_query_and_the_search_is_repeated(scene: Scene):
    talk = remembering(scene, *NOTES, memory="Missing: brother, Oslo", **{"memory.conditional": {"k": 1}})
    found = talk.recall("What hums in my beehive?", LATER)
    assert [r.record.text for r in found] == ["Maya talks. Maya has a brother in Oslo."]
    assert len(requests_of(talk.relation.resources, "memory")) == 1, "one round"
    prompt = requests_of(talk.relation.resources, "memory")[0].messages[-1].content
    assert "1. Maya talks. Maya keeps bees." in prompt
    assert "What hums in my beehive?" in prompt


def test_rounds_go_on_until_enough_and_no_longer_than_configured(scene: Scene):
    answers = ["Missing: brother, Oslo", "Enough: 1"]
    talk = remembering(scene, *NOTES, memory=answers, **{"memory.conditional": {"k": 1, "rounds": 3}})
    reply = talk.respond("What hums in my beehive?", "Maya", LATER)
    assert [r.record.text for r in reply.recalled] == ["Maya talks. Maya has a brother in Oslo."]
    outcomes = [(e["outcome"], e.get("keywords")) for e in reply.explanations["conditional"]["rounds"]]
    assert outcomes == [("missing", ["brother", "Oslo"]), ("enough", None)]


@pytest.mark.parametrize("answer", ["What a beehive!", "Enough: 9", "", BackboneError("away")])
def test_a_useless_answer_leaves_the_candidates_unchanged(scene: Scene, answer: Any):
    talk = remembering(scene, *NOTES[:2], memory=answer)
    assert len(talk.recall("What hums in my beehive?", LATER)) == 2


def test_no_rounds_no_calls_and_nothing_found_none_either(scene: Scene):
    talk = remembering(scene, *NOTES, memory="Enough: none", **{"memory.conditional": {"rounds": 0}})
    assert len(talk.recall("What hums in my beehive?", LATER)) == 3
    assert talk.recall("What hums in my beehive?", START - DAY) == []
    assert requests_of(talk.relation.resources, "memory") == []
    assert remembering(scene, memory="Enough: none").recall("Bees?", LATER) == []


def test_the_running_session_is_not_recalled_from_notes_on_it(scene: Scene):
    talk = made(scene, YES).conversation("maya")
    talk.respond(BEES, "Maya", START)
    assert talk.respond("And?", "Maya", START + DAY / 1000).recalled == ()


def test_a_session_that_is_open_in_another_thread_hides_nothing_newer(scene: Scene):
    agent = made(scene, YES)
    agent.conversation("maya", thread="phone").respond("Hello there, it is me again.", "Maya", START)
    talk = agent.conversation("maya")
    talk.respond(BEES, "Maya", START + DAY)
    talk.end_session()
    assert ("u3",) in [one.record.sources for one in talk.recall("Bees?", LATER)]


# ---- reading answers


def test_answers_are_read_leniently():
    assert labelled("**Remember**: Yes.\nContext: a b\nKnowledge: c") == {
        "remember": "Yes.",
        "situation": "a b",
        "note": "c",
    }
    assert [yes_or_no(t) for t in ("Yes!", " <no> thanks", "Note", "")] == [True, False, None, None]
    assert judgement("Enough: 2, 1 and 7", 3).chosen == (0, 1)
    assert judgement("Enough: none of them", 3).chosen == ()
    assert judgement("Missing: the sister; birthday, " + "x" * 99, 3).keywords == ("the sister", "birthday")
    assert judgement("I think so", 3) == judgement("Enough: 8", 3)
    assert [decision(t) for t in (YES, NO, "Reply: x", "Fine. Remember: yes", "Hi\n<Decision>: No")] == [
        True,
        False,
        None,
        True,
        False,
    ]
    assert reply_text("Reply: Fine. Remember: yes", "Sam", ["Maya"], decides=True) == "Fine."
    assert reply_text("Remember: yes, do!", "Sam", ["Maya"]) == "Remember: yes, do!"


def test_the_stream_holds_back_what_may_become_a_decision():
    shown: list[str] = []
    stream = ReplyStream("Sam", ["Maya"], shown.append, decides=True)
    for piece in ("Reply: ", "Nice ", "bees. ", "Re", "member", ": yes", " or no"):
        stream(piece)
    assert "".join(shown).strip() == "Nice bees."


@pytest.mark.parametrize(
    ("said", "note", "kept", "fallback"),
    [
        (
            "I keep bees in Lyon.",
            "Maya keeps bees in Lyon. Maya keeps bees in Lyon.",
            ["Maya keeps bees in Lyon."],
            False,
        ),
        ("I keep bees in Lyon.", "Maya keeps bees in Lyon. Maya is a nurse.", ["Maya keeps bees in Lyon."], False),
        ("Your bees are old.", "Maya has bees.", [], None),  # it is about somebody else
        ("I need bees in Lyon.", "Sam needs bees.", ["Maya needs bees."], False),  # it is Maya who said so
        ("I have never kept bees.", "Maya keeps bees.", [], None),
        ("I have never kept bees.", "Maya has never kept bees.", ["Maya has never kept bees."], False),
    ],
)
def test_a_note_rests_on_what_was_stated(scene: Scene, said: str, note: str, kept: list[str], fallback: bool | None):
    answer = f"Remember: yes\nNote: {note}"
    talk = after_one_turn(
        scene, "Oh!", answer, **{"memory.conditional": {"decision": "apart", "context": False}}, said=said
    )
    assert [r.text for r in talk.records] == kept
    assert {r.fallback for r in talk.records} == (set() if fallback is None else {fallback})


APART = {"decision": "apart", "context": False}
UNUSABLE = "Remember: yes\nNote: Maya is a nurse."


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ("I keep bees. I live in Rome.", ["Maya: I keep bees."]),  # Rome was not mentioned
        ("NO_TRAIT", []),
        ("I am a nurse.", []),
    ],
)
def test_the_extractor_reads_an_utterance_whose_note_is_unusable(scene: Scene, found: str, kept: list[str]):
    script = {"generator": "Oh!", "memory": UNUSABLE, "extractor": found}
    agent = scene.agent(script, **{"memory.views": ["conditional"], "memory.conditional": APART})
    talk = agent.conversation("maya")
    talk.respond(BEES, "Maya", START)
    talk.resume()
    assert [(r.text, r.fallback, r.details.get("by")) for r in talk.records] == [(t, False, "extractor") for t in kept]
    assert len(requests_of(agent, "memory")) == 1


def test_what_the_reply_found_worth_remembering_is_kept_word_for_word_if_nothing_else_is_usable(scene: Scene):
    agent = made(scene, YES, "Note: Maya is a nurse.", **{"memory.conditional": {"context": False}})
    talk = agent.conversation("maya")
    talk.respond("Please answer in rhymes.", "Maya", START)
    talk.resume()
    assert [(r.text, r.fallback) for r in talk.records] == [('Maya said: "Please answer in rhymes."', True)]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Do you keep bees?", 0),
        ("养蜜蜂吗？", 0),
        ("벌을 키우세요?", 0),
        ("I'm new here, could you help?", 1),
        ("Do you keep bees? I do.", 1),
    ],
)
def test_a_plain_question_is_no_record(scene: Scene, said: str, asked: int):
    agent = made(scene, YES, RECORD)
    talk = agent.conversation("maya")
    talk.respond(said, "Maya", START)
    talk.resume()
    assert len(requests_of(agent, "memory")) == asked
    assert asked or talk.records == []
    every = made(scene, YES, RECORD, **{"memory.conditional": {"selection": False}}).conversation("ben")
    every.respond(said, "Ben", START)
    every.resume()
    assert len(every.records) == 1, "without selection everything is kept"


@pytest.mark.parametrize("settings", [{}, APART])
def test_an_utterance_with_nothing_to_note_is_no_record(scene: Scene, settings: dict[str, Any]):
    answer = "Remember: yes\nSituation: Maya talks of bees.\nNote: none"
    talk = after_one_turn(scene, YES, answer, **{"memory.conditional": settings})
    assert talk.records == []


@pytest.mark.parametrize(
    "answer",
    [
        "Note: Maya [keeps bees in Lyon].",
        "- Note:\n- Maya keeps bees in Lyon.",
        "Note: Note: Maya keeps bees in Lyon.",
        "笔记：【Maya keeps bees in Lyon.】",
    ],
)
def test_brackets_bullets_and_repeated_labels_are_not_part_of_a_note(scene: Scene, answer: str):
    settings = {"memory.conditional": {"context": False}, "language": "zh" if "笔记" in answer else "en"}
    talk = after_one_turn(scene, YES, answer, **settings)
    assert [(r.text, r.fallback) for r in talk.records] == [("Maya keeps bees in Lyon.", False)]


def test_an_unchecked_note_is_kept_as_written(scene: Scene):
    settings = {"decision": "apart", "context": False, "checked": False}
    agent = made(scene, "Oh!", "Remember: yes\nNote: Maya is a nurse.", **{"memory.conditional": settings})
    talk = agent.conversation("maya")
    talk.respond("I keep bees in Lyon.", "Maya", START)
    talk.resume()
    assert [(r.text, r.fallback) for r in talk.records] == [("Maya is a nurse.", False)]
