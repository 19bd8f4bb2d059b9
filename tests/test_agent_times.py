"""What was said to be "yesterday" is remembered, read and quoted with its date; what was said stays word for word."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agent_parts import CHECKED, Scene, requests_of

from ld_agent.checks.changes import over
from ld_agent.conversation import Conversation
from ld_agent.learning import ends_at

AT = datetime(2026, 3, 12, 18, tzinfo=UTC)
LATER = AT + timedelta(days=38)
LINE = "I adopted a greyhound yesterday."
SCRIPT = {
    "generator": "I see.",
    "summarizer": "Maya adopted a greyhound yesterday.",
    "extractor": LINE,
    "reader": "NOT_SAID",
}
QUESTION = "When did I adopt my greyhound?"


def test_traits_and_events_are_stored_with_dates_and_utterances_as_they_were_said(scene: Scene):
    agent = scene.agent(SCRIPT, memory={"views": ["events"]})
    talk = agent.conversation("maya", at=AT)
    talk.observe(LINE, "Maya", AT)
    talk.end_session()
    assert [trait.text for trait in talk.persona("Maya")] == ["I adopted a greyhound on 11 March 2026."]
    assert [record.text for record in talk.records] == ["Maya adopted a greyhound on 11 March 2026."]
    assert [u.text for u in talk.utterances] == [LINE]


def test_a_plan_is_over_after_its_day(scene: Scene):
    agent = scene.agent({**SCRIPT, "extractor": "I am flying to Tallinn tomorrow."})
    talk = agent.conversation("maya", at=AT)
    talk.observe("I'm flying to Tallinn tomorrow.", "Maya", AT)
    talk.end_session()
    assert [trait.text for trait in talk.persona("Maya", as_of=AT)] == ["I am flying to Tallinn on 13 March 2026."]
    assert talk.persona("Maya", as_of=LATER) == []


def said_in_a_row(talk: Conversation, first: str, second: str) -> None:
    """A session in which Maya says two lines, with one of the agent's between them."""
    for line, speaker in ((first, "Maya"), ("I see.", talk.agent_name), (second, "Maya")):
        talk.observe(line, speaker, AT)
    talk.end_session()


def test_a_farewell_ends_nothing(scene: Scene):
    told, farewell = "I play football on Sundays.", "Off to football now, see you!"
    talk = scene.agent({**SCRIPT, "extractor": "NO_TRAIT"}, checks=CHECKED).conversation("maya", at=AT)
    said_in_a_row(talk, told, farewell)
    assert [(trait.text, trait.holds_until) for trait in talk.persona("Maya", history=True)] == [(told, None)]
    [trait] = talk.persona("Maya")
    assert over(talk.relation.check, [([("Maya", farewell)], f"Maya: {trait.text}")]) == [0], "read alone, it seems to"


def test_a_slip_is_ended_by_its_correction_which_says_little_by_itself(scene: Scene):
    told, corrected = "I play the viola in the town orchestra.", "wait no, the cello. the viola is my wife's"
    script = {**SCRIPT, "extractor": lambda asked: told if told in str(asked) else "NO_TRAIT"}
    talk = scene.agent(script, checks=CHECKED).conversation("maya", at=AT)
    said_in_a_row(talk, told, corrected)
    first = talk.persona("Maya", history=True)[0]
    assert (first.text, first.holds_until) == (told, AT - timedelta(microseconds=1))  # it never held


def test_a_slip_with_a_date_did_not_hold_then(scene: Scene):
    told, corrected = "I moved to Graz in May 2020.", "Sorry, I meant Linz, not Graz."
    talk = scene.agent({**SCRIPT, "extractor": "NO_TRAIT"}, checks=CHECKED).conversation("maya", at=AT)
    said_in_a_row(talk, told, corrected)
    assert ["Graz" in t.text for t in talk.persona("Maya", history=True)] == [True, False]
    assert [t.text for t in talk.persona("Maya", as_of="2022-01-01T00:00Z")] == ["I moved to Linz in May 2020."]


def test_a_planned_move_ends_the_present_home_on_its_date(scene: Scene):
    home, plan = "I live in Leeds.", "I'm moving to Bristol on 4 May!"
    agent = scene.agent(
        {**SCRIPT, "extractor": lambda asked: home if home in str(asked) else "NO_TRAIT"}, checks=CHECKED
    )
    talk = agent.conversation("maya", at=AT)
    for line, at in ((home, AT), (plan, LATER)):
        talk.observe(line, "Maya", at)
        talk.end_session()
    held = [
        [trait.holds_until for trait in talk.persona("Maya", as_of=as_of) if trait.text == home]
        for as_of in (None, LATER, datetime(2026, 5, 5, tzinfo=UTC))
    ]
    day = datetime(2026, 5, 4, tzinfo=UTC)
    assert held == [[day], [day], []]
    assert [trait.text for trait in talk.relation.ended([talk.utterances[0].id])] == [home]
    said = replace(talk.utterances[-1], text="Tom and I broke up. Mum's birthday is on 4 May.")
    dating = replace(talk.persona("Maya")[0], text="I am dating Tom.", holds_until=None)
    assert ends_at(talk.relation.check, dating, said, talk.relation.models.language.reading) == said.at
    talk.forget(said.id)
    assert [trait.text for trait in talk.persona("Maya", as_of=datetime(2026, 7, 1, tzinfo=UTC))] == [home]


def test_a_session_of_two_days_leaves_its_event_as_it_is(scene: Scene):
    agent = scene.agent(SCRIPT, memory={"views": ["events"]})
    talk = agent.conversation("maya", at=AT)
    midnight = datetime(2026, 3, 13, tzinfo=UTC)
    talk.observe(LINE, "Maya", midnight - timedelta(minutes=5))
    talk.observe("How lovely!", "Sam", midnight + timedelta(minutes=5))
    talk.end_session()
    assert [record.text for record in talk.records] == ["Maya adopted a greyhound yesterday."]


def test_the_words_that_stand_in_for_a_summary_have_the_dates_of_their_lines(scene: Scene):
    agent = scene.agent({**SCRIPT, "summarizer": ""}, memory={"views": ["events"]})
    talk = agent.conversation("maya", at=AT)
    midnight = datetime(2026, 3, 13, tzinfo=UTC)
    talk.observe(LINE, "Maya", midnight - timedelta(minutes=5))
    talk.observe("Tomorrow I walk it.", "Maya", midnight + timedelta(minutes=5))
    talk.end_session()
    [record] = talk.records
    assert record.fallback
    assert record.text == "Maya: I adopted a greyhound on 11 March 2026. Maya: On 14 March 2026 I walk it."


def test_the_reader_and_the_prompt_see_dates_but_the_running_session_as_typed(scene: Scene):
    modules = {"generator": {"grounded": True}, "reader": {"passages": 2}}
    agent = scene.agent({**SCRIPT, "extractor": "NO_TRAIT"}, modules=modules, memory={"quotes": 80}, checks=CHECKED)
    talk = agent.conversation("maya", at=AT)
    talk.observe(LINE, "Maya", AT)
    talk.observe("How lovely!", "Sam", AT)
    talk.end_session()
    talk.observe("I was out yesterday.", "Maya", LATER)
    reply = talk.respond(QUESTION, "Maya", LATER)
    passage = requests_of(agent, "reader")[0].messages[-1].content
    assert "Maya: I adopted a greyhound on 11 March 2026.\n" in passage
    recalled, _, said = reply.prompt[-1]["content"].rpartition("\n\n")
    assert "Maya: I adopted a greyhound on 11 March 2026." in recalled
    assert ("yesterday" in recalled, "I was out yesterday." in said) == (False, True)
    assert [quote.text for quote in reply.quotes] == [LINE]
