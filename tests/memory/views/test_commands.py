"""What the command line shows and does about views: backfilling, and what each mechanism costs."""

import io
import json
import re
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene, remembered
from cli_commands import CommandLine, scripted_config

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.cli import chat, chat_commands
from ld_agent.config import Config
from ld_agent.evaluation.bench.views import bench_views

MEMORY = "Ann:\n- Ann keeps bees.\n- Ann has a garden."


def a_store(scene: Scene, path: Path, sessions: int = 5) -> None:
    """A store made with view history alone, in which Ann talked of bees."""
    agent = scene.agent(**{"store.path": str(path), "memory.views": ["history"]})
    talk = agent.conversation("ann")
    for number in range(sessions):
        talk.observe("I keep bees in my garden.", "Ann", START + number * DAY)
    talk.end_session()
    agent.close()


def test_a_store_is_backfilled_once(command_line: CommandLine, scene: Scene, tmp_path: Path):
    store = tmp_path / "me.db"
    a_store(scene, store)
    config = scripted_config(tmp_path, memory=MEMORY)
    views = "memory.views=[recursive,history]"
    done = command_line("memory", "rebuild", "--store", store, "-c", config, views)
    assert (done.code, done.out) == (0, "")
    assert "backfilled 5 of 5 missing sessions for recursive, history" in done.err
    again = command_line("memory", "rebuild", "--store", store, "-c", config, views)
    assert "backfilled 0 of 0" in again.err
    listed = json.loads(command_line("memory", "list", "--store", store, "--conversation", "ann", "--json").out)
    assert [one["session"] for one in listed if one["view"] == "recursive"] == [1, 2, 3, 4, 5]


def test_a_failing_rebuild_reports_what_is_pending(command_line: CommandLine, scene: Scene, tmp_path: Path):
    store = tmp_path / "me.db"
    a_store(scene, store, sessions=2)
    config = scripted_config(tmp_path, memory=[MEMORY])
    failed = command_line("memory", "rebuild", "--store", store, "-c", config, "memory.views=[recursive]")
    assert failed.code == 1
    assert "1 sessions are still pending; run the same command again" in failed.err
    assert "Traceback" not in failed.err


@pytest.mark.parametrize(("answers", "fallback"), [([MEMORY, "", MEMORY], False), ([MEMORY, "", "", ""], True)])
def test_a_rebuild_tries_a_refused_rewrite_again_and_then_carries_the_old_memory_over(
    command_line: CommandLine, scene: Scene, tmp_path: Path, answers: list[str], fallback: bool
):
    store = tmp_path / "me.db"
    a_store(scene, store, sessions=2)
    config = scripted_config(tmp_path, memory=answers)
    done = command_line("memory", "rebuild", "--store", store, "-c", config, "memory.views=[recursive]")
    assert (done.code, done.out) == (0, "")
    told = json.loads(command_line("memory", "list", "--store", store, "--conversation", "ann", "--json").out)
    first, second = (record["text"] for record in told if record.get("view") == "recursive")
    assert "Ann has a garden." in first
    assert "Ann has a garden." in second
    assert ("Ann said:" in second) == fallback


def test_why_and_memory_tell_each_view_apart(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    from rich.console import Console

    shown = io.StringIO()
    monkeypatch.setattr(chat_commands, "console", Console(file=shown, width=140, highlight=False))
    views = {"memory.views": ["events", "recursive", "conditional"], "memory.gamma": -1.0}
    talk = scene.agent({"memory": remembered}, **views).conversation("maya")
    talk.respond("I keep bees in my garden.", "Maya", START)
    talk.end_session()
    talk.respond("What about the bees?", "Maya", START + DAY)
    chat.COMMANDS["why"](talk, "")
    chat.COMMANDS["memory"](talk, "")
    text = shown.getvalue()
    assert "events: overall = " in text
    assert "recursive: the newest version, always" in text
    assert "round 1: found" in text
    assert re.search(r"recursive +1 +2024-05-01", text)  # its session, and until when
    assert "Maya: Maya said I keep bees in my garden." in text  # the memory now


def test_the_cost_of_each_mechanism_is_counted():
    script = {"generator": "How nice.", "summarizer": "They talked.", "extractor": "NO_TRAIT", "memory": remembered}
    chosen = ["none", "recursive", "conditional+history"]
    result = bench_views(Config(), limit=1, chosen=chosen, backbone=ScriptedBackbone(script))
    rows = {row["views"]: row for row in result["views"]}
    assert list(rows) == ["none", "recursive", "conditional+history"]
    assert rows["none"]["memory_calls"] == rows["none"]["stored_bytes"] == rows["none"]["recalled_share"] == 0
    turns = rows["none"]["turns"]
    sessions = rows["recursive"]["memory_calls"] * turns
    assert 2 <= round(sessions) <= 5, "one call a session"
    assert {row["reply_calls"] for row in rows.values()} == {1.0}
    assert rows["recursive"]["recalled_share"] == 1.0
    assert 0 < rows["conditional+history"]["memory_calls"] <= 2.0, "a record and a reflection a turn at most"
    assert rows["conditional+history"]["stored_bytes"] > rows["recursive"]["stored_bytes"] > 0
    assert all(row["prompt_tokens"] > 0 and row["seconds"] >= 0 for row in rows.values())
    side_by_side = bench_views(Config(), chosen=["recursive"], width=3, backbone=ScriptedBackbone(script))
    alone = bench_views(Config(), chosen=["recursive"], backbone=ScriptedBackbone(script))
    [one], [other] = alone["views"], side_by_side["views"]
    assert one | {"seconds": 0} == other | {"seconds": 0}
