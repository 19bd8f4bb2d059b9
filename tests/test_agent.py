"""Turns and sessions: when a session ends, what is kept of it, and how an agent takes up again what it left."""

import gc
from collections.abc import Callable
from datetime import timedelta

import pytest
from agent_parts import CHECKED, DAY, START, Scene, requests_of

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.errors import ConfigError, InputError, StoreError
from ld_agent.modules.generator import ASSISTANT
from ld_agent.turn import STEADY

BETA = timedelta(seconds=3600)
TICK = timedelta(microseconds=1)


# ---- one turn


def test_a_turn_stores_both_utterances_learns_their_traits_and_says_what_went_in(scene: Scene) -> None:
    agent = scene.agent({"generator": "I bake bread."}, **{"agent.persona": ["I am a baker."]})
    maya = agent.conversation("maya")
    reply = maya.respond("I keep bees in Lyon.", "Maya", at=START)
    assert [(u.id, u.speaker, u.text, u.at, u.session) for u in maya.utterances] == [
        ("u1", "Maya", "I keep bees in Lyon.", START, 1),
        ("u2", "Sam", "I bake bread.", START, 1),
    ]
    assert (reply.heard, reply.utterance) == tuple(maya.utterances)
    assert reply.traits == {"Sam": ("I am a baker.",)}
    assert [t.text for t in maya.persona("Maya")] == ["I keep bees in Lyon."]
    assert [t.text for t in maya.persona("Sam")] == ["I am a baker.", "I bake bread."]
    assert maya.last_reply == reply
    assert list(reply.timings_ms) == ["store", "pending", "encode", "recall", "prompt", "generate"]
    assert reply.tokens.prompt > 0


def test_a_reply_is_sampled_with_its_own_seed_and_an_answer_about_the_past_is_not(scene: Scene) -> None:
    settings = {"modules.generator.temperature": 0.7, "modules.generator.top_p": 0.9}
    lines = ["I keep bees in Lyon.", "They like lavender.", "Where do I keep bees?"]

    def played(name: str) -> list[Request]:
        agent = scene.agent({"generator": "Bees! In Lyon."}, checks=CHECKED, **settings)
        maya = agent.conversation(name)
        for line in lines:
            maya.respond(line, "Maya", at=START)
        maya.delete()
        return requests_of(agent, "generator")

    first, again, other = played("maya"), played("maya"), played("ann")
    assert [(r.temperature, r.top_p) for r in first] == [(0.7, 0.9), (0.7, 0.9), (0.0, 0.9)]
    assert len({r.seed for r in (*first, *other)}) == 6
    assert [r.seed for r in first] == [r.seed for r in again]
    assert first[1].unlike[-4:] == (lines[0], "Bees! In Lyon.", lines[1], ASSISTANT)
    assert first[2].unlike == ()


def test_a_tuned_extractor_is_shown_what_each_utterance_answers(scene: Scene) -> None:
    script = {"generator": ["Any pets?", "Lovely.", "Yes?"], "extractor": "NO_TRAIT"}
    agent = scene.agent(script, **{"modules.extractor": {"prompting": "brief"}})
    maya = agent.conversation("maya")
    maya.respond("Hello!", "Maya", at=START)
    maya.respond("A dog.", "Maya", at=START)
    maya.respond("And a new day.", "Maya", at=START + DAY)
    maya.end_session()
    asked = [r.messages[-1].content for r in requests_of(agent, "extractor")]
    assert asked[:4] == [
        "Hello!", "In answer to: Hello!\nAny pets?", "In answer to: Any pets?\nA dog.", "In answer to: A dog.\nLovely."
    ]  # fmt: skip
    assert asked[4] == "And a new day.", "another session"


def test_what_a_session_said_before_stays_the_beginning_of_every_prompt(scene: Scene) -> None:
    settings = {"modules.generator.prompting": "direct", "memory.gamma": -1.0, "memory.query_turns": 1}
    agent = scene.agent({"generator": lambda request: f"Reply {len(request.messages)}."}, **settings)
    maya = agent.conversation("maya")
    for line in ("I keep bees in Lyon.", "I play the violin.", "I live with two cats."):
        maya.respond(line, "Maya", at=START)
    maya.end_session()
    before = len(requests_of(agent, "generator"))
    for minute, line in enumerate(("The cats slept all day.", "I bake bread.", "A string of the violin broke.")):
        reply = maya.respond(line, "Maya", at=START + DAY + timedelta(minutes=minute))
        assert reply.recalled
    prompts = [request.messages for request in requests_of(agent, "generator")[before:]]
    assert "I keep bees in Lyon." in prompts[0][0].content
    assert "I bake bread." not in prompts[2][0].content, "this session's line stands in it"
    assert prompts[2][0].content == prompts[0][0].content
    assert prompts[2][: len(prompts[1]) - 1] == prompts[1][:-1]
    for prompt, line in zip(
        prompts, ("The cats slept all day.", "I bake bread.", "A string of the violin broke."), strict=True
    ):
        assert prompt[-1].content.startswith("What you remember from earlier chats:\n<memory>\n")
        assert prompt[-1].content.endswith(f">\n\n{line}")
    maya.edit(maya.persona("Maya")[0].id, "I keep wasps in Lyon.")
    corrected = maya.respond("And I sing.", "Maya", at=START + DAY + timedelta(minutes=9))
    assert "I keep wasps in Lyon." in corrected.prompt[0]["content"], "what is corrected by hand counts at once"


def test_a_long_session_shows_its_earlier_traits(scene: Scene) -> None:
    maya = scene.agent(**{"modules.generator.prompting": "direct"}).conversation("maya")
    for place, line in enumerate(("Hello.", "I keep bees in Lyon.", *["Hm."] * (STEADY - 3))):
        maya.observe(line, "Maya", at=START + timedelta(seconds=place))
    at = START + timedelta(minutes=2)
    assert "Maya" not in maya.respond("Well.", "Maya", at=at).traits, "its line stands in the prompt"
    assert maya.respond("So.", "Maya", at=at).traits["Maya"] == ("I keep bees in Lyon.",)


def test_time_comes_from_the_clock_and_never_decreases(scene: Scene) -> None:
    maya = scene.agent().conversation("maya")
    maya.respond("Hello!")
    assert [u.at for u in maya.utterances] == [START + timedelta(minutes=m) for m in (1, 2)]
    scene.clock.at = START - DAY
    maya.respond("The clock went back.")
    assert {u.at for u in maya.utterances[2:]} == {START + timedelta(minutes=2)}
    assert {u.session for u in maya.utterances} == {1}


def test_a_persona_is_what_held_at_the_time_asked_about(scene: Scene) -> None:
    maya = scene.agent(checks=CHECKED).conversation("maya", at=START)
    maya.respond("I live in Rome.", "Maya", START)
    maya.respond("I moved to Oslo.", "Maya", START + 40 * DAY)
    assert [t.text for t in maya.persona("Maya")] == ["I moved to Oslo."]
    held = [[t.text for t in maya.persona("Maya", as_of=START + n * DAY)] for n in (-1, 0, 39, 40)]
    assert held == [[], ["I live in Rome."], ["I live in Rome."], ["I moved to Oslo."]]
    assert [t.text for t in maya.persona("Maya", as_of="2024-05-02T00:00:00+02:00")] == ["I live in Rome."]
    with pytest.raises(InputError, match=r"as_of=.* has no time zone"):
        maya.persona("Maya", as_of="2024-05-02T00:00:00")


@pytest.mark.parametrize("verbatim", [False, True])
def test_a_trait_is_brought_up_to_date_by_what_is_said_next(scene: Scene, verbatim: bool) -> None:
    def extracted(request: Request) -> str:
        asked = request.messages[-1].content
        if not asked.startswith("Note: "):
            return "I have two grandchildren." if "two grandchildren" in asked else "NO_TRAIT"
        return "I have three grandchildren." if "third" in asked else "SAME"

    agent = scene.agent(
        {"extractor": extracted, "generator": "OK."},
        checks={**CHECKED, "verbatim": verbatim},
        **{"modules.generator.prompting": "direct"},
    )
    maya = agent.conversation("maya")
    for day, text in enumerate(
        ("I have two grandchildren.", "My grandchildren eat a lot.", "Our third grandchild was born! Coming?")
    ):
        maya.respond(text, "Maya", START + day * DAY)
        maya.end_session()
    assert "I have three grandchildren." in [t.text for t in maya.persona("Maya")]
    assert "I have two grandchildren." not in [t.text for t in maya.persona("Maya")]
    asked = [r.messages[-1].content for r in requests_of(agent, "extractor")]
    assert ["third" in text for text in asked if text.startswith("Note: ")] == [False, True]
    assert "Coming?" not in asked[-1]  # a question changes nothing
    prompt = "\n".join(m["content"] for m in maya.messages("How many grandchildren do I have?", "Maya").messages)
    assert 'I have two grandchildren. (later: "Our third grandchild was born! Coming?")' in prompt


def test_an_age_in_a_trait_moves_on(scene: Scene) -> None:
    maya = scene.agent(**{"modules.generator.prompting": "direct"}).conversation("maya", at=START)
    maya.respond("I am fifty years old.", "Maya", START)
    prompt = maya.messages("How old am I?", "Maya", START + 400 * DAY)
    assert "I am fifty (51 now) years old." in "\n".join(m["content"] for m in prompt.messages)
    assert prompt.traits == {"Maya": ("I am fifty years old.",)}


def test_three_speakers_have_a_bank_each_and_are_named_to_the_model(scene: Scene) -> None:
    agent = scene.agent()
    group = agent.conversation("group")
    for speaker, text in (("Maya", "I paint."), ("Ben", "I play chess."), ("Zoë 🐝", "I keep bees.")):
        group.respond(text, speaker, START)
    assert group.speakers == ["Maya", "Sam", "Ben", "Zoë 🐝"]
    assert {name: [t.text for t in group.persona(name)] for name in ("Maya", "Ben", "Zoë 🐝")} == {
        "Maya": ["I paint."], "Ben": ["I play chess."], "Zoë 🐝": ["I keep bees."],
    }  # fmt: skip
    assert requests_of(agent, "generator")[-1].messages[-1].content == "Zoë 🐝: I keep bees."
    assert set(group.respond("So?", "Ben", START).traits) == {"Maya", "Ben", "Zoë 🐝"}


def test_a_reply_can_be_asked_for_again_or_later(scene: Scene) -> None:
    maya = scene.agent().conversation("maya")
    with pytest.raises(InputError, match="no unanswered utterance"):
        maya.reply()
    maya.observe("I keep bees.", at=START)
    assert maya.reply(at=START + timedelta(minutes=5)).heard.text == "I keep bees."
    assert [u.at for u in maya.utterances] == [START, START + timedelta(minutes=5)]
    with pytest.raises(InputError, match="no unanswered utterance"):
        maya.reply()
    maya.observe("And wasps.", at=START + timedelta(minutes=6))
    assert maya.reply().utterance is not None
    assert maya.utterances[-1].at == START + timedelta(minutes=6)


# ---- sessions


@pytest.mark.parametrize(("gap", "sessions"), [(BETA, [1, 1]), (BETA + TICK, [1, 2])])
def test_a_gap_of_beta_continues_and_a_tick_more_closes_the_session(
    scene: Scene, gap: timedelta, sessions: list[int]
) -> None:
    maya = scene.agent().conversation("maya")
    maya.observe("I keep bees.", "Maya", START)
    maya.respond("They swarm.", "Maya", START + gap)
    assert [u.session for u in maya.utterances][:2] == sessions
    assert [(r.session, r.at, r.sources) for r in maya.records] == ([(1, START, ("u1",))] if sessions == [1, 2] else [])


def test_an_explicit_end_makes_the_event_and_the_next_utterance_begins_a_session(scene: Scene) -> None:
    maya = scene.agent().conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    [event] = maya.end_session(START + timedelta(minutes=1))
    assert (event.id, event.session, event.sources, event.at) == ("m1", 1, ("u1", "u2"), START)
    assert "bee" in event.topics
    assert maya.running == ()
    assert maya.end_session() == []
    assert maya.respond("Again!", "Maya", START).heard.session == 2
    with pytest.raises(InputError, match="is before the session's last utterance"):
        maya.end_session(START - TICK)
    assert len(maya.running) == 2


@pytest.mark.parametrize("close_on_exit", [True, False])
def test_leaving_the_agent_ends_running_sessions_unless_disabled(scene: Scene, close_on_exit: bool) -> None:
    with scene.agent(**{"memory.close_on_exit": close_on_exit}) as agent:
        for name in ("maya", "ben"):
            agent.conversation(name).respond("I keep bees.", at=START)
    again = scene.agent()
    for name in ("maya", "ben"):
        stored = again.store.open_conversation(name, "Sam").key
        assert len(again.store.records(stored)) == close_on_exit
        assert bool(again.store.open_utterances(stored)) != close_on_exit
    agent.close()


def test_what_no_store_keeps_is_not_summarised_at_the_end(scene: Scene) -> None:
    with scene.agent(store={"path": ":memory:"}) as agent:
        agent.conversation("maya").respond("I keep bees.", at=START)
        requests = agent.models.backbone("summarizer").requests  # type: ignore[attr-defined]
        asked = len(requests)
    assert len(requests) == asked


def test_leaving_by_an_exception_ends_nothing(scene: Scene) -> None:
    agent = scene.agent({"generator": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt), agent:
        agent.conversation("maya").respond("I keep bees.", at=START)
    assert len(scene.agent().conversation("maya").running) == 1


@pytest.mark.parametrize(
    ("at", "goes_on"),
    [(START + BETA, True), (START + BETA + TICK, False), (None, True), ("2024-06-01T00:00:00Z", False)],
)
def test_an_unfinished_session_continues_within_beta_or_is_summarised(scene: Scene, at: object, goes_on: bool) -> None:
    with scene.agent(**{"memory.close_on_exit": False}) as agent:
        agent.conversation("maya").respond("I keep bees.", "Maya", START)
    maya = scene.agent().conversation("maya", at=at)  # type: ignore[arg-type]
    assert bool(maya.running) == goes_on
    assert len(maya.records) == (not goes_on)
    maya.respond("So?", "Maya", START + BETA)
    assert [u.session for u in maya.utterances] == ([1, 1, 1, 1] if goes_on else [1, 1, 2, 2])


def test_what_was_pending_is_finished_on_reopening(scene: Scene) -> None:
    agent = scene.agent()
    key = agent.conversation("maya").key
    store = agent.store
    for text, day in (("I keep bees.", 0), ("They swarm.", 1), ("I paint.", 2)):
        store.append(key, "Maya", text, START + day * DAY, 3600, scene.clock)
    store.close_session(key)
    agent.close(end_sessions=False)
    maya = scene.agent().conversation("maya")
    assert [(r.session, r.sources) for r in maya.records] == [(1, ("u1",)), (2, ("u2",)), (3, ("u3",))]
    assert [(t.text, t.source, t.at) for t in maya.persona("Maya")] == [
        ("I keep bees.", "u1", START),
        ("I paint.", "u3", START + 2 * DAY),
    ]
    assert maya.relation.resources.store.unextracted(key) == []


# ---- recall and time


def test_a_conversation_replayed_with_past_dates_never_recalls_its_own_future(scene: Scene) -> None:
    maya = scene.agent(**{"memory.gamma": -1}).conversation("maya")
    for day in range(4):
        maya.respond(f"My bees made {day} jars of honey.", "Maya", START + day * DAY)
    maya.end_session()
    for day in range(5):
        found = maya.recall("How much honey?", at=START + day * DAY - TICK)
        assert len(found) == min(day, 3)
        assert {r.record.session for r in found} <= set(range(1, day + 1))
        assert all(0 < r.decay <= 1 for r in found)
    assert maya.recall("How much honey?", at=START)[0].decay == 1.0
    scene.clock.at = START + 3 * DAY
    assert len(maya.recall("How much honey?")) == 3


def test_the_same_run_twice_gives_the_same_replies_ids_and_recall(scene: Scene) -> None:
    runs = []
    for name in ("once", "twice"):
        path = scene.agent().store.path + name
        with scene.agent(**{"store.path": path}) as agent:
            talk = agent.conversation("maya")
            replies = [
                talk.respond(text, "Maya", START + day * DAY)
                for day, text in enumerate(("I keep bees in Lyon.", "I paint the bees.", "Which city?", "Bees?"))
            ]
            runs.append(
                [(r.text, r.utterance, r.heard, r.recalled, r.traits, r.notes, r.tokens) for r in replies]
                + [talk.end_session(), talk.records, talk.persona("Maya"), talk.recall("bees", START + 9 * DAY)]
            )
    assert runs[0] == runs[1]
    assert any(recalled for _, _, _, recalled, *_ in runs[0][:4])


def test_recall_without_opening_asks_no_model_and_finishes_nothing(scene: Scene) -> None:
    with scene.agent() as agent:
        agent.conversation("maya").respond("I keep bees in Lyon.", "Maya", START)
    looking = scene.agent({"generator": RuntimeError(), "summarizer": RuntimeError(), "extractor": RuntimeError()})
    stored = looking.store.find_conversation("maya")
    assert stored is not None
    assert [r.record.id for r in looking.recall(stored, "bees", START + DAY)] == ["m1"]
    assert looking.recall(stored, "bees", START - TICK) == []


# ---- one object for one conversation, and none after deletion


def test_one_id_gives_one_object_while_it_lives(scene: Scene) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    assert agent.conversation("maya") is maya
    assert agent.conversation("ben") is not maya
    with pytest.raises(InputError, match="has the agent 'Sam', not 'Ada'"):
        agent.conversation("maya", agent_name="Ada")
    maya.respond("I keep bees.", at=START)
    del maya
    gc.collect()
    with pytest.raises(InputError, match=r"has the agent 'Sam', not 'Ada'; set agent.name=Sam"):
        agent.conversation("maya", agent_name="Ada")
    assert len(agent.conversation("maya").running) == 2


def test_a_deleted_conversation_says_so_and_can_be_reopened(scene: Scene) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    maya.end_session()
    assert maya.recall("bees", START + DAY)
    maya.delete()
    uses: list[Callable[[], object]] = [
        lambda: maya.respond("Still there?", at=START + DAY),
        lambda: maya.observe("Still there?"),
        lambda: maya.recall("bees"),
        lambda: maya.persona("Maya"),
        maya.end_session,
        maya.reply,
        maya.resume,
        maya.delete,
    ]
    for use in uses:
        with pytest.raises(StoreError, match="conversation 'maya' was deleted; reopen it"):
            use()
    fresh = agent.conversation("maya")
    assert fresh is not maya
    assert (fresh.utterances, fresh.records, fresh.recall("bees")) == ([], [], [])
    fresh.respond("Hello again!", at=START - 30 * DAY)
    agent.close()
    assert len(scene.agent().conversation("maya").records) == 1


def test_a_conversation_deleted_by_another_process_is_not_ended_on_leaving(scene: Scene) -> None:
    agent, other = scene.agent(), scene.agent()
    maya = agent.conversation("maya")
    maya.respond("I keep bees.", at=START)
    other.conversation("maya").delete()
    agent.close()
    assert other.store.conversations() == []


def test_closing_opens_only_what_has_a_session_to_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = scene.agent()
    for name in ("maya", "ben", "lena"):
        agent.conversation(name).respond("I keep bees.", at=START)
        if name != "ben":
            agent.conversation(name).end_session()
    opened: list[str] = []
    conversation = agent.conversation
    monkeypatch.setattr(agent, "conversation", lambda name, **given: opened.append(name) or conversation(name, **given))
    agent.close()
    assert opened == ["ben"]
    assert [len(scene.agent().conversation(name).records) for name in ("maya", "ben", "lena")] == [1, 1, 1]


def test_what_is_given_in_place_of_a_config_or_a_stored_conversation_is_named(scene: Scene) -> None:
    with pytest.raises(ConfigError, match="the config is dict, not a Config; make one with load_config"):
        Agent({})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"'maya' is not a stored conversation; give agent.store.find_conversation"):
        scene.agent().recall("maya", "bees")  # type: ignore[arg-type]


def test_vectors_missing_after_an_import_are_made_on_use(scene: Scene) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    maya.respond("I keep bees.", "Maya", START)
    maya.end_session()
    expected = maya.recall("What about the bees?", START + DAY)
    agent.store.db.execute("UPDATE record SET vector = NULL")
    agent.store.db.execute("UPDATE trait SET vector = NULL")
    agent.close()
    again = scene.agent()
    assert [r.record for r in again.conversation("maya").recall("What about the bees?", START + DAY)] == [
        r.record for r in expected
    ]
    reply = again.conversation("maya").respond("Bees?", "Maya", START + DAY)
    assert reply.traits == {"Maya": ("I keep bees.",)}
    assert again.store.without_vector() == []


def test_what_was_said_in_running_sessions_is_recalled_too(scene: Scene) -> None:
    agent = scene.agent()
    desk, phone = agent.conversation("ann"), agent.conversation("ann", thread="phone")
    desk.observe("I keep forty bee hives.", at=START)
    desk.observe("What do hives cost?", at=START)
    desk.observe("Hives are dear.", desk.agent_name, at=START)
    found = phone.recall("bee hives", at=START + DAY)
    assert [(one.record.id, one.record.text) for one in found] == [("u1", "User: I keep forty bee hives.")]
    assert phone.recall("bee hives", at=START - DAY) == []
    desk.end_session()
    assert [one.record.view for one in phone.recall("bee hives", at=START + DAY)] == ["events"]
