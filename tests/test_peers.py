"""The harness that compares other memories with ours: which questions it asks, and what a peer's view stores and recalls."""

import json
from pathlib import Path
from typing import Any

import pytest

from ld_agent.agent import Agent
from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import load_config
from ld_agent.evaluation.tasks.question_data import load_questions
from ld_agent.memory.views import check_views
from ld_agent.storage.exchange import copy_conversation

PEERS = Path(__file__).parent.parent / "docs" / "peers"
LOCOMO = Path("data/samples/locomo.json")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PEERS))
    import ld_agent_peers

    return ld_agent_peers


def test_the_first_sessions_are_asked_only_what_they_answer(peers: Any, tmp_path: Path):
    [sample] = json.loads(LOCOMO.read_text("utf-8"))
    sample["qa"].append({"question": "What did Ines pick up?", "answer": "boat", "evidence": ["D1:1"], "category": 4})
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([sample]), encoding="utf-8")
    [whole] = load_questions(file)
    file = tmp_path / "asked.jsonl"
    file.write_text(json.dumps(peers.first_sessions(whole, 1)) + "\n", encoding="utf-8")
    [one] = load_questions(file)
    first = [turn for turn in whole.episode.turns if turn.session == 1]
    assert [(t.speaker, t.text, t.at) for t in one.episode.turns] == [(t.speaker, t.text, t.at) for t in first]
    expected = [q for q in whole.questions if q.evidence and max(q.evidence) < len(first)]
    assert [(q.text, q.answers, q.at) for q in one.questions] == [(q.text, q.answers, q.at) for q in expected]
    assert 0 < len(one.questions) < len(whole.questions)


def test_every_arm_is_a_config(peers: Any):
    for name, overrides in peers.ARMS.items():
        config = load_config("instructed", list(overrides))
        check_views(config.memory.views)
        assert (config.personas.cap == 0) == (name != "ld_agent")


def test_a_peer_stores_at_the_end_of_a_session_and_recalls_in_copies(peers: Any, encoder: Any, topics: Any):
    added: list[list[str]] = []

    class Notes(peers.PeerView):  # type: ignore[misc]
        name = "notes"

        def added(self, session: Any) -> list[str]:
            added.append([message["content"] for message in self.messages(session)])
            return [f"{self.owner} keeps bees."]

        def found(self, text: str) -> list[tuple[str, float]]:
            return [("unknown here", 0.9), (f"{self.owner} keeps bees.", 0.5)]

    peers.Notes = Notes
    config = load_config("none", ["memory.views=[ld_agent_peers:Notes]", "store.path=':memory:'"])
    backbone = ScriptedBackbone({"generator": "I see."})
    with Agent(config, backbone=backbone, encoder=encoder, topics=topics) as agent:
        talk = agent.conversation("ann")
        talk.observe("I keep bees.", "Ann Lee", at="2024-05-01T10:00:00+02:00")
        talk.end_session(at="2024-05-01T10:30:00+02:00")
        assert added == [["(01 May 2024) Ann Lee: I keep bees."]]
        copy_conversation(agent.store, "ann", ["ann?0"])
        reply = agent.conversation("ann?0").respond("What do I keep?", "Ann Lee", at="2024-06-01T10:00:00+02:00")
        assert [(one.record.text, one.score) for one in reply.recalled] == [("Ann-20240501080000 keeps bees.", 0.5)]
        assert "keeps bees." in "".join(message["content"] for message in reply.prompt)


def test_no_peer_pays_for_traits_that_are_not_shown(peers: Any):
    model = ScriptedBackbone({"memory": "Noted."})
    requests = [Request((Message("user", "Hi."),), module, 9) for module in ("extractor", "memory", "extractor")]
    counted = peers.Counted(model, extracts=False)
    assert [answer.text for answer in counted.generate(requests)] == ["NO_TRAIT", "Noted.", "NO_TRAIT"]
    assert [request.module for request in model.requests] == ["memory"]
    assert counted.generate(requests[:1])[0].text == "NO_TRAIT"
    assert counted.written == model.generate(requests[1:2])[0].completion_tokens
