"""What has lived its time is gone by the agent's clock: from prompts, recalls, lists, exports and the store."""

import json

import pytest
from agent_parts import DAY, START, Scene, requests_of
from cli_commands import CommandLine

from ld_agent.agent import Agent
from ld_agent.storage.exchange import export_lines

BEES = "I keep bees in Ghent."


def told(scene: Scene, **settings: object) -> Agent:
    agent = scene.agent(**{"memory.gamma": -1.0, "agent.persona": ["I am a gardener."], **settings})
    ann = agent.conversation("ann")
    ann.respond(BEES, at=START)
    ann.end_session(at=START)
    return agent


@pytest.mark.parametrize(("key", "letter"), [("personas.ttl", "t"), ("memory.ttl", "m")])
def test_what_has_lived_its_time_is_gone_everywhere(scene: Scene, key: str, letter: str):
    agent = told(scene, **{key: 10, "memory.quotes": 0})
    ann, stored = agent.conversation("ann"), agent.store.find_conversation("ann")
    assert stored

    def kept() -> dict[str, int]:
        """How much of each kind is known: in a prompt, a list, a recall of the agent and the export."""
        ann.respond("What do I keep?")
        ann.end_session()
        asked = requests_of(agent, "generator")[-1].messages
        shown = "\n".join(m.content for m in asked)
        lines = [json.loads(line) for line in export_lines(agent.store)]
        exported = [row for row in lines if row.get("kind") in ("trait", "record") and BEES in row["text"]]
        listed = [t for t in ann.traits(history=True) if t.text == BEES] + [r for r in ann.records if BEES in r.text]
        recalled = [r for r in agent.recall(stored, "bees") if BEES in r.record.text]
        return {"m": len(recalled), letter: sum(x.id[0] == letter for x in listed)} | {
            "exported": sum(row["id"][0] == letter for row in exported),
            "shown": shown.count(BEES),
        }

    scene.clock.at = START + 9 * DAY
    before = kept()
    assert all(before.values()), before
    scene.clock.at = START + 11 * DAY
    after = kept()
    assert (after[letter], after["exported"]) == (0, 0)
    assert after["shown"] < before["shown"]
    assert ann.utterances[0].text == BEES, "the words stay"
    assert "I am a gardener." in [t.text for t in ann.traits()], "the config is not told"


def test_what_is_told_again_or_pinned_lives_on(scene: Scene):
    agent = told(scene, **{"personas.ttl": 10, "memory.ttl": 10})
    ann = agent.conversation("ann")
    ann.respond("I sing in a choir.", at=START + DAY)
    ann.end_session()
    ann.pin(ann.records[0].id)
    scene.clock.at = START + 9 * DAY
    ann.respond(BEES)
    ann.end_session()
    scene.clock.at = START + 12 * DAY
    assert [t.text for t in ann.traits() if t.source] == [BEES]
    assert [r.pinned for r in ann.records] == [True, False]
    scene.clock.at = START + 20 * DAY
    assert [t.text for t in ann.traits() if t.source] == []


def test_what_expires_is_what_the_config_says_now(scene: Scene, command_line: CommandLine):
    told(scene, **{"memory.ttl": 1, "personas.ttl": 1}).close(end_sessions=False)
    path = scene.opened[0].config.store.path

    def kept(*config: str) -> list[str]:
        ran = command_line("memory", "list", "--store", path, "--conversation", "ann", "--json", *config)
        return [row["id"] for row in json.loads(ran.out) if row["sources"]]

    scene.clock.at = START + 5 * DAY
    for days in (None, 10):  # unset, then longer than before
        agent = scene.agent(**{"memory.ttl": days, "personas.ttl": days})
        stored = agent.store.find_conversation("ann")
        assert stored
        assert agent.recall(stored, "bees")
        assert len(agent.conversation("ann").records) == 1
        agent.close(end_sessions=False)
    assert kept() == ["m1", "t2"]
    assert (kept("memory.ttl=1"), kept("personas.ttl=1")) == (["t2"], ["m1"]), "by the clock of this machine"
    [counts] = json.loads(command_line("memory", "list", "--store", path, "--json", "memory.ttl=1").out)
    assert (counts["records"], counts["traits"]) == (0, 2)
    assert kept() == ["m1", "t2"], "a list removes nothing"
    agent = scene.agent(**{"memory.ttl": 4, "personas.ttl": 4})
    assert [one.id for one in agent.store.expired()] == ["ann"], "unopened since the key was set"
    agent.expire(stored)
    assert (agent.store.expired(), kept()) == ([], [])
    assert BEES in command_line("memory", "export", "-", "--store", path).out, "what was said stays"


def test_readers_leave_out_what_only_a_turn_removes(scene: Scene):
    agent = told(scene, **{"memory.ttl": 10, "personas.ttl": 10})
    ann, stored = agent.conversation("ann"), agent.store.find_conversation("ann")
    assert stored

    def read() -> list[object]:
        traits = [t for t, _ in agent.store.personas(ann.key).traits() if t.source]
        return [*ann.records, *traits, *agent.recall(stored, "bees")]

    def rows() -> int:
        return len([*agent.store.rows(ann.key, "record")])

    scene.clock.at = START + 11 * DAY
    with ann.relation.turnstile.entered():
        agent.expire(stored)
        assert (read(), rows()) == ([], 1), "in use"
    agent.store.db.execute("PRAGMA query_only = 1")
    agent.expire(stored)
    assert (read(), rows()) == ([], 1), "read-only"
    agent.store.db.execute("PRAGMA query_only = 0")
    agent.expire(stored)
    assert rows() == 0
    ann.respond("Hello!")
