"""What the command line's guide shows works when pasted, where it needs no network, no corpus and no server."""

import shutil
import zipfile
from pathlib import Path

import pytest
from cli_commands import CommandLine, light_config
from documentation import ROOT, Shown, shown_commands

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import load_config

GUIDE = ROOT / "docs" / "cli.md"
ELSEWHERE = ("postgresql:", "all-mpnet-base-v2", "revoke")
"""Commands that need a database server, the hub, or the id of a key made on this machine."""
SHOWN = [one for one in shown_commands(GUIDE) if one.whole and not any(word in str(one) for word in ELSEWHERE)]
STORED = [one for one in SHOWN if one.words[0] in ("memory", "keys", "doctor")]
PLAYED = [one for one in SHOWN if "data/samples/" in str(one) and "--labels" not in one.words]


@pytest.fixture(scope="module")
def maya(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the guide's commands are about: a store with Maya, her export, and a history of WhatsApp."""
    folder = tmp_path_factory.mktemp("maya")
    config = load_config("default", [f"store.path={folder / 'me.db'}", "agent.user=Maya"])
    told = ["I moved to Bath.", "I keep forty bee hives.", "I work as a nurse."]
    script = {"extractor": told, "summarizer": "Maya moved to Bath.", "generator": "How nice."}
    with Agent.from_config(config, backbone=ScriptedBackbone(script)) as agent:
        conversation = agent.conversation("maya")
        for text in told:
            conversation.observe(text, "Maya")
        conversation.end_session()
        assert [trait.id for trait in conversation.traits()] == ["t1", "t2", "t3"]
    with zipfile.ZipFile(folder / "WhatsApp Chat - Ann.zip", "w") as file:
        file.writestr("_chat.txt", "[12/03/2024, 18:00:00] Maya: I keep bees.\n[12/03/2024, 18:01:00] Ann: Lovely!\n")
    return folder


@pytest.mark.parametrize("shown", STORED, ids=str)
def test_a_command_about_a_store_works_as_shown(
    shown: Shown, maya: Path, tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(maya, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    if shown.words[:2] == ("memory", "import"):
        assert command_line(*"memory export maya.jsonl --store me.db --conversation maya".split()).code == 0
    ran = command_line(*shown.words)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("shown", PLAYED, ids=str)
def test_a_command_that_plays_a_sample_works_as_shown(
    shown: Shown, tmp_path: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    """With scripted answers, and of one conversation."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    words = [word for word in shown.words if word not in ("-c", "default")]
    ran = command_line(*words, "--limit", "1", "-c", light_config(tmp_path))
    assert ran.code == 0, ran.err
