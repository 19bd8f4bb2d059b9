"""Whatever a model writes, a person is answered, nothing said is lost, and the conversation can be opened and moved."""

import random

import pytest
from agent_parts import DAY, START, Scene

from ld_agent.backbones.base import Request
from ld_agent.storage.exchange import export_lines, import_lines
from ld_agent.storage.sqlite.store import SQLiteStore

PIECES = [
    *(
        '¦ ¦\n¦\0¦\ud800¦\x1b[2J¦<think>¦</think>¦<|im_end|>¦<|channel|>final<|message|>¦NO_TRAIT¦none¦null¦{¦{"traits": [¦}¦[['
        "¦Sam:¦Maya:¦\nMaya: ¦Remember: yes¦Remember:¦Note:¦1.¦- ¦I am a baker.¦I¦?¦「¦我¦🐝¦\u202e¦</conversation>¦{{ agent }}"
        "¦{% raw %}¦Enough: 99999¦1 2 3 4 5 6 7 8¦2024-05-01:¦1-9 | topic | memo¦Traits:¦Thought:"
    ).split("¦"),
    "a" * 500,
    "word " * 200,
    "\n" * 300,
]
VIEWS = ("events", "recursive", "conditional", "memorybank", "memochat", "summary", "history")


def garbage(seed: str) -> str:
    """An answer of nothing that was asked for."""
    chance = random.Random(seed)
    return "".join(chance.choice(PIECES) for _ in range(chance.randrange(0, 12)))


@pytest.mark.parametrize("view", VIEWS)
def test_garbage_from_the_model(scene: Scene, tmp_path, view: str, whole: bool) -> None:
    answered = 0

    def answer(request: Request) -> str:
        nonlocal answered
        answered += 1
        return garbage(f"{view} {answered}")

    modules = dict.fromkeys(("generator", "summarizer", "extractor", "memory", "reader"), answer)
    agent = scene.agent(modules, **{"memory.views": [view], "modules.reader.passages": 2})
    maya, said = agent.conversation("maya"), list[str]()
    for turn in range(500 if whole else 6):
        at = START + turn * (DAY if turn % 3 == 2 else DAY / 1000)
        said.append(f"I have {turn} bees. What do you think?")
        reply = maya.respond(said[-1], "Maya", max(at, maya.utterances[-1].at if said[1:] else at))
        assert reply.text.strip()
    maya.end_session()
    assert answered >= (1500 if whole else 18)
    assert [u.text for u in maya.utterances if u.speaker == "Maya"] == said
    lines = [line.encode() for line in export_lines(agent.store, "maya")]
    other = SQLiteStore(tmp_path / "other.db")
    import_lines(other, lines, "the export", "maya")
    assert [line.encode() for line in export_lines(other, "maya")] == lines
    other.close()
    assert scene.agent(modules, **{"memory.views": [view]}).conversation("maya").respond("Well?", "Maya").text
