"""Playing a recorded conversation: what enters the memory, how it is numbered, and that it can be broken off anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_parts import DAY, START, Scene, requests_of, retold

from ld_agent.agent import Agent
from ld_agent.datasets.base import Episode, Turn
from ld_agent.errors import BackboneError, InputError
from ld_agent.running.replay import PlayedTurn, replay
from ld_agent.storage.exchange import export_lines

MINUTE = timedelta(minutes=1)


def episode(name: str, *sessions: str, numbered: bool = True) -> Episode:
    """Sessions of lines such as "Maya: I keep bees.", a minute apart, the sessions two days."""
    turns = [
        Turn(*line.strip().split(": ", 1), START + 2 * day * DAY + minute * MINUTE, day + 1 if numbered else None)  # type: ignore[arg-type]
        for day, lines in enumerate(sessions)
        for minute, line in enumerate(lines.strip().split("\n"))
    ]
    return Episode(name, "Ada", tuple(turns), source=f"{name}.jsonl:1")


THREE = (
    """Maya: I keep bees in Lyon.
       Ada: I bake bread.
       Maya: My bees are well.
       Ada: I like honey.""",
    """Ada: I missed you.
       Maya: I paint the bees now.
       Ada: What colours?
       Ada: I love yellow.
       Maya: I like blue.""",
    """Maya: How was the summer?
       Ben: I play chess with Maya.
       Ada: I play chess too.
       Maya: My bees made honey.
       Ada: I would like some.""",
)


def play(agent: Agent, *episodes: Episode, **options: Any) -> list[PlayedTurn]:
    played: list[PlayedTurn] = []
    assert sorted(replay(agent, episodes, played.append, **options)) == sorted(e.id for e in episodes)
    return played


def outcome(turns: list[PlayedTurn]) -> list[dict[str, Any]]:
    """What was played, without the times that it took."""
    return [{k: v for k, v in turn.as_json().items() if k != "timings_ms"} for turn in turns]


def test_each_reply_has_its_reference_and_a_number_from_one(scene: Scene) -> None:
    played = play(scene.agent(), episode("three", *THREE))
    assert [(t.session, t.turn, t.reply.heard.speaker, t.reply.heard.text, t.reference) for t in played] == [
        (1, 1, "Maya", "I keep bees in Lyon.", "I bake bread."),
        (1, 2, "Maya", "My bees are well.", "I like honey."),
        (2, 1, "Maya", "I paint the bees now.", "What colours?"),
        (3, 1, "Ben", "I play chess with Maya.", "I play chess too."),
        (3, 2, "Maya", "My bees made honey.", "I would like some."),
    ]
    assert [[r.id for r in t.closed] for t in played] == [[], [], ["m1"], ["m2"], []]
    assert [len(t.reply.recalled) for t in played][:3] == [0, 0, 1]
    line = played[2].as_json()
    assert (line["conversation"], line["session"], line["turn"], line["speaker"]) == ("three", 2, 1, "Maya")
    assert line["recalled"][0]["id"] == "m1"
    assert line["at"] == "2024-05-03T18:31:00.000000+00:00"


def test_free_running_remembers_the_replies_and_teacher_forced_the_recorded_ones(scene: Scene) -> None:
    script = {"summarizer": lambda request: f"They said: {retold(request)}"}
    own = scene.agent(script)
    forced = scene.agent(script, **{"store.path": own.store.path + "forced"})
    recorded = episode("three", *THREE)
    free_turns, forced_turns = play(own, recorded), play(forced, recorded, teacher_forced=True)
    said = [(t.speaker, t.text) for t in recorded.turns]
    talk = forced.conversation("three", agent_name="Ada")
    assert [(u.speaker, u.text) for u in talk.utterances] == said
    assert [u.at for u in talk.utterances] == [t.at for t in recorded.turns]
    assert "I bake bread." in [t.text for t in talk.persona("Ada")]
    assert all(t.reply.text != t.reference and t.reply.utterance.text == t.reference for t in forced_turns)  # type: ignore[union-attr]
    free = own.conversation("three", agent_name="Ada")
    replies = {t.reply.text for t in free_turns}
    assert [(u.speaker, u.text) for u in free.utterances if u.text not in replies] == [
        pair for pair in said if pair[1] not in {t.reference for t in free_turns}
    ]
    assert len(free.utterances) == len(said)
    assert "I bake bread." not in [t.text for t in free.persona("Ada")]
    assert "I missed you." in [u.text for u in free.utterances]
    assert free.records[0].text != talk.records[0].text


def test_the_last_session_is_summarised_and_a_second_run_does_nothing(scene: Scene) -> None:
    agent = scene.agent()
    play(agent, episode("three", *THREE))
    talk = agent.conversation("three", agent_name="Ada")
    assert [r.session for r in talk.records] == [1, 2, 3]
    before = list(export_lines(agent.store))
    asked = len(requests_of(agent, "generator"))
    assert play(agent, episode("three", *THREE)) == []
    assert list(export_lines(agent.store)) == before
    assert len(requests_of(agent, "generator")) == asked


class CutOff(BaseException):
    """The power fails here."""


def cut_off_after(agent: Agent, commits: int) -> None:
    """Let the power fail right after something was stored for the n-th time."""
    database = agent.store.db
    transaction = database.transaction
    done = 0

    @contextmanager
    def counted(*values: Any, **options: Any) -> Iterator[None]:
        nonlocal done
        before = database.rows("SELECT total_changes()")
        with transaction(*values, **options):
            yield
        if not database._depth and database.rows("SELECT total_changes()") != before:
            done += 1
            if done == commits:
                raise CutOff

    database.transaction = counted  # type: ignore[method-assign]


@pytest.mark.parametrize(("teacher_forced", "numbered"), [(False, True), (True, False)])
def test_interrupted_anywhere_it_ends_as_if_uninterrupted(
    scene: Scene, tmp_path: Path, teacher_forced: bool, numbered: bool
) -> None:
    whole = scene.agent(**{"store.path": str(tmp_path / "whole.db")})
    recorded = episode("three", *THREE, numbered=numbered)
    turns = outcome(play(whole, recorded, teacher_forced=teacher_forced))
    expected = list(export_lines(whole.store))
    positions = set()
    for commits in range(1, 100):
        settings = {"store.path": str(tmp_path / f"{commits}.db")}
        agent = scene.agent(**settings)
        cut_off_after(agent, commits)
        early: list[PlayedTurn] = []
        with suppress(CutOff):
            list(replay(agent, [recorded], early.append, teacher_forced=teacher_forced))
            break
        agent.close(end_sessions=False)
        again = scene.agent(**settings)
        positions.add(len(again.store.utterances(1)))
        late = play(again, recorded, teacher_forced=teacher_forced)
        assert list(export_lines(again.store)) == expected, f"broken off after {commits} commits"
        done = outcome(early) + outcome(late)
        lost = [turn for turn in turns if turn not in done]
        assert len(lost) <= 1, f"broken off after {commits} commits"  # stored, but not yet given to the caller
    assert positions == set(range(len(recorded.turns) + 1)), "not every position was met"


def test_concurrent_and_sequential_results_are_equal(scene: Scene, tmp_path: Path) -> None:
    episodes = [
        episode(f"e{n}", *(lines.replace("bees", f"{n + 2} bees") for lines in THREE[: 1 + n % 3])) for n in range(4)
    ]
    results = []
    for width in (1, 3):
        agent = scene.agent(**{"store.path": str(tmp_path / f"{width}.db")})
        played = sorted(outcome(play(agent, *episodes, width=width)), key=lambda t: (t["conversation"], t["at"]))
        results.append((rounded(played), list(export_lines(agent.store))))
        batches = agent.models.backbone("generator").batches  # type: ignore[attr-defined]
        assert max(batches) > 2 if width > 1 else len(batches) > 0
    assert results[0] == results[1]


def rounded(value: Any) -> Any:
    """Vectors made in other batches differ in their last bits."""
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_a_conversation_that_differs_is_refused_and_left_alone(scene: Scene) -> None:
    recorded = episode("three", *THREE)
    agent = scene.agent()
    play(agent, recorded)
    before = list(export_lines(agent.store))
    turns = list(recorded.turns)
    others = [
        replace(recorded, turns=(replace(turns[0], text="I keep cats."), *turns[1:])),
        replace(recorded, turns=(replace(turns[0], speaker="Ben"), *turns[1:])),
        replace(recorded, turns=tuple(turns[:-2])),
        replace(recorded, turns=tuple(turns[1:])),
    ]
    for other in others:
        with pytest.raises(InputError, match=r"the store holds another conversation 'three'.*use another --store"):
            play(agent, other)
        assert list(export_lines(agent.store)) == before
    with pytest.raises(InputError, match="has the agent 'Ada', not 'Maya'"):
        play(agent, replace(recorded, agent="Maya"))


def test_what_a_store_cannot_hold_to_the_letter_is_still_the_same_conversation(scene: Scene) -> None:
    recorded = episode("half", "Maya: I keep \ud83d bees.\n Ada: Good.")
    agent = scene.agent()
    assert len(play(agent, recorded)) == 1
    assert play(agent, recorded) == []


def test_two_episodes_of_one_id_are_refused(scene: Scene) -> None:
    one = episode("same", THREE[0])
    with pytest.raises(InputError, match="two episodes have the id 'same'"):
        play(scene.agent(), one, one)


def test_a_reply_that_came_after_beta_is_an_opening_and_not_an_answer(scene: Scene) -> None:
    recorded = episode("late", "Maya: I keep bees.\n Ada: I bake bread.\n Maya: Ah.\n Ada: Yes.")
    turns = [replace(t, at=t.at + timedelta(hours=3) * (n > 0)) for n, t in enumerate(recorded.turns)]
    agent = scene.agent()
    played = play(agent, replace(recorded, turns=tuple(turns)))
    assert [(t.session, t.turn, t.reply.heard.text) for t in played] == [(2, 1, "Ah.")]
    talk = agent.conversation("late", agent_name="Ada")
    assert [(u.session, u.text) for u in talk.utterances][:2] == [(1, "I keep bees."), (2, "I bake bread.")]


def test_a_failing_model_stops_the_run_and_the_next_run_resumes(scene: Scene) -> None:
    recorded = [episode(f"e{n}", *THREE) for n in range(3)]
    failing = scene.agent({"generator": ["Once.", "Twice.", "Thrice.", "Four.", "Five.", "Six.", "Seven."]})
    early: list[PlayedTurn] = []
    with pytest.raises(BackboneError, match="no answer left"):
        list(replay(failing, recorded, early.append, width=2))
    assert len(early) >= 6
    failing.close(end_sessions=False)
    again = scene.agent()
    late = play(again, *recorded, width=2)
    assert len(early) + len(late) == 15
    for name in ("e0", "e1", "e2"):
        talk = again.conversation(name, agent_name="Ada")
        assert len(talk.utterances) == sum(len(lines.strip().split("\n")) for lines in THREE)
        assert [r.session for r in talk.records] == [1, 2, 3]


def test_an_episode_of_nothing_and_one_without_the_agent_are_played(scene: Scene) -> None:
    agent = scene.agent()
    assert play(agent, Episode("nothing", "Ada", ()), episode("others", "Maya: I keep bees.\n Ben: I sing.")) == []
    assert len(agent.conversation("others", agent_name="Ada").records) == 1
