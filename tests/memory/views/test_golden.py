"""The golden memory: what a corpus annotates, session by session, and nothing younger than the question."""

from pathlib import Path

import pytest
from agent_parts import Scene

from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode, golden_memories
from ld_agent.errors import InputError
from ld_agent.evaluation.tasks.memory_quality import golden
from ld_agent.files import shipped_path
from ld_agent.running.replay import PlayedTurn, replay

SAMPLES = shipped_path("data/samples")


def played(scene: Scene, episode: Episode) -> list[PlayedTurn]:
    agent, turns = scene.agent(**{"memory.views": ["golden"]}), list[PlayedTurn]()
    list(replay(agent, [episode], turns.append, teacher_forced=True))
    return turns


def test_carecall_memory_is_what_stood_before_the_next_call_and_last_what_was_added():
    [episode] = load_episodes(SAMPLES / "carecall.json")
    first, last = golden_memories(episode)
    assert first.facts == {"User": ("텃밭에 상추를 심음", "허리가 조금 아픔")}
    assert last.facts == {"User": ("텃밭에 상추를 심음", "허리가 조금 아픔", "허리가 나음", "상추 싹이 남")}
    assert golden(episode) == last.facts["User"]


def test_a_reply_is_given_the_memory_annotated_before_its_session(scene: Scene):
    [episode] = load_episodes(SAMPLES / "carecall.json")
    turns = played(scene, episode)
    assert [[r.record.text for r in turn.reply.recalled] for turn in turns if turn.session == 1] == [[]]
    texts = {r.record.text for turn in turns if turn.session == 2 for r in turn.reply.recalled}
    assert texts == {"User: 텃밭에 상추를 심음. 허리가 조금 아픔."}


@pytest.mark.parametrize("sample", ["msc_session_3.txt", "msc_personasummary/session_4/valid.txt"])
def test_msc_has_facts_of_both_speakers_that_grow_with_the_sessions(sample: str):
    episode = load_episodes(SAMPLES / Path(sample))[0]
    memories = golden_memories(episode)
    assert [memory.at for memory in memories] == sorted({memory.at for memory in memories})
    assert set(memories[-1].facts) == {"Speaker 1", "Speaker 2"}
    assert len(memories) >= max(turn.session or 1 for turn in episode.turns) - 1


def test_a_corpus_without_annotations_is_refused(scene: Scene):
    [episode, *_] = load_episodes(SAMPLES / "three_sessions.jsonl")
    with pytest.raises(InputError, match="has no annotated memory"):
        played(scene, episode)
