"""Several views at once: shared batches, one list within a budget, what is refused, what is ignored, what is backfilled."""

from typing import Any

import pytest
from agent_parts import DAY, START, Scene, prompt_of, remembered, requests_of

from ld_agent.backbones.base import Message, Request
from ld_agent.errors import BackboneError, ConfigError
from ld_agent.memory.views.enabled import Merged, merged
from ld_agent.running.rebuild import missing, rebuild
from ld_agent.steps import Steps, run, side_by_side
from ld_agent.storage.rows import CATCH_UP
from ld_agent.types import Recalled, Record


def found(view: str, score: float, text: str, *sources: str) -> Recalled:
    return Recalled(Record(f"{view}-{text}", view, text, START, 1, sources=sources), score, 0.0, 1.0, score)


def texts(together: Merged) -> list[str]:
    return [r.record.text for r in together.recalled]


def words(text: str) -> int:
    return len(text.split())


def test_scores_count_relative_to_the_best_of_their_view():
    bm25 = [found("bm25", 8.0, "eight"), found("bm25", 2.0, "two")]
    dense = [found("dense", 0.5, "half"), found("dense", 0.3, "third")]
    assert texts(merged({"bm25": bm25, "dense": dense}, None, words)) == ["eight", "half", "third", "two"]
    assert texts(merged({"dense": dense, "bm25": bm25}, None, words)) == ["half", "eight", "third", "two"]
    assert texts(merged({"bm25": bm25[::-1]}, 1, words)) == ["two", "eight"], "one view alone is left as it is"


def test_what_two_views_both_found_stands_once():
    note = found("conditional", 0.9, "Maya keeps bees", "u5")
    said = found("history", 0.4, "Maya: I have got bees", "u5")
    event = found("events", 0.4, "They met", *(f"u{n}" for n in range(9)))
    same = found("summary", 0.4, "They met.", *(f"u{n}" for n in range(9)))
    assert texts(merged({"conditional": [note], "history": [said]}, None, words)) == ["Maya keeps bees"]
    assert texts(merged({"conditional": [note], "events": [event]}, None, words)) == ["Maya keeps bees", "They met"]
    assert texts(merged({"events": [event], "summary": [same]}, None, words)) == ["They met"]
    assert texts(merged({"history": [said, said], "events": []}, None, words)) == ["Maya: I have got bees"] * 2


def test_the_budget_leaves_out_the_last_but_never_all():
    one, two = [found("a", 1.0, "x y z"), found("a", 0.2, "p q")], [found("b", 1.0, "u v")]
    cut = merged({"a": one, "b": two}, 5, words)
    assert (texts(cut), cut.over_budget) == (["x y z", "u v"], 1)
    assert texts(merged({"a": one, "b": two}, 1, words)) == ["x y z"]


def test_works_side_by_side_share_their_batches_and_their_failures():
    def asks(times: int, name: str) -> Steps[str]:
        said = name
        for _ in range(times):
            try:
                [answer] = yield [Request((Message("user", name),), name, 1)]
                said += answer.text
            except BackboneError:
                said += "!"
        return said

    batches: list[list[str]] = []

    def complete(requests: Any) -> Any:
        batches.append([r.module for r in requests])
        if len(batches) in (2, 4):  # a common batch, then c of it by itself
            raise BackboneError("away")
        return [type("Answer", (), {"text": r.module})() for r in requests]

    assert run(side_by_side([asks(2, "a"), asks(0, "b"), asks(3, "c")]), complete) == ["aaa", "b", "cc!c"]
    assert batches == [["a", "c"], ["a", "c"], ["a"], ["c"], ["c"]], "one bad request fails its own piece"
    assert run(side_by_side([]), complete) == []

    def broken() -> Steps[str]:
        yield []
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(side_by_side([asks(2, "a"), broken()]), complete)


def test_views_recall_together_and_the_prompt_tells_which_gave_what(scene: Scene):
    summary = {"summarizer": "They met and talked about bees, hives and honey for a long while."}
    agent = scene.agent(summary, **{"memory.views": ["events", "recursive"], "memory.gamma": -1.0})
    talk = agent.conversation("maya")
    talk.respond("I keep bees.", "Maya", START)
    talk.end_session()
    backbone: Any = agent.models.backbone("memory")
    assert backbone.batches[-1] == 2, "both views ask for the ended session in one batch"
    reply = talk.respond("Bees?", "Maya", START + DAY)
    assert {r.record.view for r in reply.recalled} == {"events", "recursive"}
    prompt = prompt_of(requests_of(agent, "generator")[-1])
    assert "1 day ago, a session in brief: " in prompt
    assert "1 day ago, what is known so far: " in prompt


def test_the_budget_of_the_config_is_kept_and_said(scene: Scene):
    agent = scene.agent(**{"memory.views": ["history", "recursive"], "memory.gamma": -1.0, "memory.budget": 1})
    talk = agent.conversation("maya")
    talk.respond("I keep bees.", "Maya", START)
    talk.respond("I paint in oil.", "Maya", START)
    talk.end_session()
    reply = talk.respond("Bees?", "Maya", START + DAY)
    assert len(reply.recalled) == 1
    assert any("did not fit memory.budget=1" in note for note in reply.notes)


@pytest.mark.parametrize(
    ("views", "said"),
    [
        (["nonsense"], "'nonsense'.*known views: .*recursive"),
        (["none", "events"], "'none', which recalls nothing, with events"),
        (["full", "bm25"], "'full', which recalls everything"),
        (["events", "events"], "twice"),
    ],
)
def test_views_that_make_no_sense_are_refused(scene: Scene, views: list[str], said: str):
    with pytest.raises(ConfigError, match=said):
        scene.agent(**{"memory.views": views})


def test_records_of_a_view_switched_off_are_kept_ignored_and_that_is_said_once(scene: Scene):
    first = scene.agent(**{"memory.views": ["history"], "memory.gamma": -1.0})
    talk = first.conversation("maya")
    talk.respond("I keep bees.", "Maya", START)
    talk.end_session()
    first.close()
    talk = scene.agent(**{"memory.views": ["none"]}).conversation("maya")
    replies = [talk.respond("Bees?", "Maya", START + DAY), talk.respond("Bees?", "Maya", START + DAY)]
    said = [[note for note in reply.notes if "kept and not used" in note] for reply in replies]
    assert [len(notes) for notes in said] == [1, 0]
    assert "of history" in said[0][0]
    assert replies[0].recalled == ()
    assert talk.records


def test_a_view_enabled_later_is_backfilled_and_resumes(scene: Scene):
    sessions = CATCH_UP + 7
    first = scene.agent(**{"memory.views": ["history"]})
    talk = first.conversation("maya")
    for number in range(sessions):
        talk.observe(f"I keep {number + 2} bees.", "Maya", START + number * DAY)
    talk.end_session()
    first.close()

    broken: dict[str, int] = {"calls": 0}

    def dies(request: Request) -> str:
        broken["calls"] += 1
        if broken["calls"] > 9:
            raise BackboneError("away")
        return remembered(request)

    views = ["recursive", "conditional", "history"]
    agent = scene.agent({"memory": dies}, **{"memory.views": views})
    talk = agent.conversation("maya")
    assert broken["calls"] == 0, "so many sessions are not taken in while someone waits"
    stored = agent.store.find_conversation("maya")
    assert stored is not None
    assert missing(agent, stored) == {"recursive": sessions, "conditional": sessions, "history": 0}
    taken: list[tuple[str, int]] = []
    problems = rebuild(agent, stored, lambda view, count: taken.append((view, count)))
    assert taken[:2] == [("recursive", 8), ("recursive", 1)]
    assert all("away" in problem for problem in problems)
    agent.close(end_sessions=False)

    agent = scene.agent(**{"memory.views": views})
    assert missing(agent, stored) == {"recursive": sessions - 9, "conditional": sessions, "history": 0}
    assert rebuild(agent, stored, lambda view, count: None) == []
    assert sum(missing(agent, stored).values()) == 0
    assert len(requests_of(agent, "memory")) == (sessions - 9) + sessions, "what was done before is not done again"
    records = agent.conversation("maya").records
    assert [r.session for r in records if r.view == "recursive"] == list(range(1, sessions + 1))
    assert len([r for r in records if r.view == "conditional"]) == sessions


def test_the_note_names_the_command_that_backfills(scene: Scene):
    first = scene.agent(**{"memory.views": ["history"]})
    talk = first.conversation("maya")
    for number in range(CATCH_UP + 1):
        talk.observe("I keep bees.", "Maya", START + number * DAY)
    talk.end_session()
    first.close()
    talk = scene.agent(**{"memory.views": ["recursive"]}).conversation("maya")
    notes = talk.respond("Hello!", "Maya", START + 9 * DAY).notes
    assert sum(f"'recursive' lacks {CATCH_UP + 1} sessions" in n and "memory rebuild" in n for n in notes) == 1
