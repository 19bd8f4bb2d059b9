"""A disk that fills up and a clock that jumps, in the middle of turns: each is said in one line, and nothing is lost or twice."""

from datetime import datetime

import pytest
from agent_parts import DAY, START, Scene

from ld_agent.conversation import Conversation
from ld_agent.errors import StoreError

YEARS = 70 * 365 * DAY


def test_a_disk_that_fills_up_anywhere_in_a_turn_loses_nothing(scene: Scene) -> None:
    """Each turn has a page less than it needs, wherever that falls, until it has enough; then it is tried again."""
    agent = scene.agent({"generator": "How nice. " + "Tell me more about that. " * 200})
    maya, said, failed = agent.conversation("maya"), list[str](), 0
    for number in range(12):
        said.append(f"I keep {number} bees. " + "They sing in the garden. " * 300)
        [(pages,)] = agent.store.db.rows("PRAGMA page_count")
        [(free,)] = agent.store.db.rows("PRAGMA freelist_count")
        for more in range(200):
            agent.store.db.rows(f"PRAGMA max_page_count = {pages + more - free if more else pages}")
            if not (refusal := refused(maya, said[-1], START + number * DAY)):
                break
            failed += 1
            assert "the disk is full" in refusal
            assert len(refusal.splitlines()) == 1
        agent.store.db.rows("PRAGMA max_page_count = 1000000")
        maya.resume()
    assert failed > 12
    assert [u.text.strip() for u in maya.utterances if u.speaker == "Maya"] == [text.strip() for text in said]
    assert [u.speaker for u in maya.utterances] == ["Maya", "Sam"] * 12
    assert agent.store.unextracted(maya.key) == []
    records = [record.session for record in maya.records]
    assert len(records) == len(set(records)) >= 11
    assert agent.store.db.row("PRAGMA integrity_check") == ("ok",)


def refused(talk: Conversation, text: str, at: datetime) -> str:
    """Why a turn is refused, or its second half if the first is stored; "": it is done."""
    heard = [u.text for u in talk.utterances[-1:]] == [text]
    try:
        talk.reply() if heard else talk.respond(text, "Maya", at)
    except StoreError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("jump", [YEARS, -YEARS], ids=["forward", "back"])
def test_a_clock_that_jumps_and_returns_loses_nothing(scene: Scene, jump) -> None:
    agent = scene.agent()
    maya = agent.conversation("maya")
    for number in range(12):
        if number in (4, 8):
            scene.clock.at += jump if number == 4 else -jump
        maya.respond(f"I keep {number} bees.", "Maya")
    maya.end_session()
    assert [u.text for u in maya.utterances if u.speaker == "Maya"] == [
        f"I keep {number} bees." for number in range(12)
    ]
    times = [u.at for u in maya.utterances]
    assert times == sorted(times)
    assert sorted(source for record in maya.records for source in record.sources) == sorted(
        u.id for u in maya.utterances
    )
    assert maya.recall("How many bees?")
    reopened = scene.agent().conversation("maya")
    assert [u.id for u in reopened.utterances] == [u.id for u in maya.utterances]
    assert reopened.respond("Well?", "Maya").text
