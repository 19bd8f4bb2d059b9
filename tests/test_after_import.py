"""The first turn after an import: a restored agent answers as before; what has to be encoded again is encoded once, and the
caller is told how far it has come."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from agent_parts import CHECKED, DAY, START, Scene, requests_of

from ld_agent.agent import Agent
from ld_agent.backbones.base import Message
from ld_agent.conversation import Conversation
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.storage.exchange import export_lines, import_file
from ld_agent.storage.rows import Draft
from ld_agent.storage.sqlite.store import SQLiteStore

SESSIONS, TRAITS = 70, 300
HOUR = timedelta(hours=1)


def exported(folder: Path) -> Path:
    """An export of many sessions, each with an event of two sentences, and of many traits."""
    store = SQLiteStore(folder / "elsewhere.db")
    key = store.open_conversation("maya", "Sam").key
    shelf, personas = store.shelf(key, "events"), store.personas(key)
    shelf.enable()
    with store.writing(key):
        for number in range(SESSIONS):
            at = START + 2 * number * HOUR
            said = store.append(key, "Maya", f"Hive {number} swarmed.", at, 3600, lambda: at)  # noqa: B023
            personas.mark_extracted(said.id)
            store.close_session(key)
            text = f"Maya has {number} hives. Hive {number} swarmed." if number % 2 else f"Maya has {number} hives."
            shelf.digest(said.session, [Draft(text, at, said.session, sources=(said.id,))])
        for number in range(TRAITS):
            personas.add("Maya", f"I own boat {number}.", START, "u1", np.zeros(384, np.float32))
    out = folder / "export.jsonl"
    out.write_text("".join(f"{line}\n" for line in export_lines(store)), encoding="utf-8")
    store.close()
    return out


def test_the_first_turn_encodes_each_text_once_and_tells_its_progress(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder: SentenceEncoder
) -> None:
    agent = scene.agent(**{"memory.scorer": "hybrid", "memory.quotes": 0})  # quotes encode what was said, too
    import_file(agent.store, exported(tmp_path))
    told: list[tuple[str, int, int]] = []
    encoded: Counter[str] = Counter()
    agent.resources.progress = lambda *step: told.append(step)
    encode = encoder._encode
    monkeypatch.setattr(encoder, "_encode", lambda texts: (encoded.update(texts), encode(texts))[1])
    monkeypatch.setattr(encoder, "_cache_size", 4 * 32)
    encoder._cache.clear()
    maya = agent.conversation("maya")
    maya.respond("How are my hives?", "Maya", START + 90 * DAY)
    memories = [(done, total) for what, done, total in told if what == "reading memories"]
    traits = [(done, total) for what, done, total in told if what == "reading traits"]
    assert memories == [(32, SESSIONS), (64, SESSIONS), (SESSIONS, SESSIONS)]
    assert traits == [(256, TRAITS), (TRAITS, TRAITS)]
    assert encoded["Maya has 1 hives. Hive 1 swarmed."] == encoded["Maya has 2 hives."] == encoded["I own boat 7."] == 1
    assert set(encoded.values()) == {1}
    told.clear()
    maya.respond("And my boats?", "Maya", START + 90 * DAY)
    assert told == []


TALK = (
    ("I moved to Oslo last year and sing in a choir there.", "Maya", "chat"),
    ("My sister keeps forty hives behind our house.", "Maya", "observe"),
    ("Maya moved to Bergen, says the register.", "Maya", "document"),
    ("I moved to Rome once, long ago.", "Maya", "import"),
    ("I moved here with Maya.", "Zoe", "chat"),
)
"""What is said, by whom, and how it reached the memory."""


def asked(agent: Agent, talk: Conversation) -> dict[str, list[tuple[Message, ...]]]:
    """What the modules are shown for one question about the past."""
    before = {module: len(requests_of(agent, module)) for module in ("reader", "generator")}
    talk.respond("Which city did I move to last year?", "Maya", START + 90 * DAY)
    return {module: [r.messages for r in requests_of(agent, module)[n:]] for module, n in before.items()}


def test_a_restored_backup_gives_the_same_prompts(scene: Scene, tmp_path: Path) -> None:
    modules = {"reader": {"passages": 4}, "generator": {"grounded": True}}
    memory = {"scorer": "hybrid", "gamma": -1.0, "quotes": 160}
    script = {"reader": "NOT_SAID", "generator": "I don't know."}
    agent = scene.agent(script, modules=modules, memory=memory, checks=CHECKED)
    talk = agent.conversation("maya")
    for number, (text, speaker, channel) in enumerate(TALK):
        talk.observe(text, speaker, START + number * DAY, channel=channel)
        talk.observe("How lovely!", talk.agent_name, START + number * DAY)
        talk.end_session()
    talk.resume()
    backup = tmp_path / "backup.jsonl"
    backup.write_text("".join(f"{line}\n" for line in export_lines(agent.store)), encoding="utf-8")
    before = asked(agent, talk)
    assert len(before["reader"]) > 1
    assert before["generator"]
    talk.delete()
    import_file(agent.store, backup)
    assert asked(agent, agent.conversation("maya")) == before
