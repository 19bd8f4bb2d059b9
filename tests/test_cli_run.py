"""``ld-agent run``: one JSON line for each turn of the agent, whatever the file, and on from where it stopped."""

from __future__ import annotations

import json
import signal
from datetime import datetime
from pathlib import Path

import pytest
from cli_commands import CommandLine, conversation_line, light_config, run_real, start

from ld_agent.files import shipped_path
from ld_agent.memory.scoring import TIME, weighted
from ld_agent.storage.sqlite.store import SQLiteStore

SAMPLE = shipped_path("data/samples/three_sessions.jsonl")
KEYS = {
    "conversation", "session", "turn", "at", "speaker", "text", "reply", "reference", "recalled", "traits",
    "timings_ms", "tokens",
}  # fmt: skip


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A file of three conversations of two sessions with two replies each."""
    path = tmp_path / "three.jsonl"
    path.write_text("".join(conversation_line(name) for name in ("a", "b", "c")), encoding="utf-8")
    return path


def stored_texts(path: Path, conversation: str) -> list[str]:
    store = SQLiteStore(path)
    found = store.find_conversation(conversation)
    assert found is not None
    texts = [utterance.text for utterance in store.utterances(found.key)]
    store.close()
    return texts


def test_a_line_holds_everything_the_contract_names(command_line: CommandLine, three: Path, tmp_path: Path):
    config = light_config(tmp_path, extractor="I keep bees.")
    ran = command_line("run", three, "-c", config, "--limit", 1)
    assert (ran.code, ran.err) == (0, "")
    assert [(row["conversation"], row["session"], row["turn"]) for row in ran.lines] == [
        ("a", 1, 1), ("a", 1, 2), ("a", 2, 1), ("a", 2, 2),
    ]  # fmt: skip
    for row in ran.lines:
        assert set(row) >= KEYS
        assert datetime.fromisoformat(row["at"]).utcoffset() is not None
        assert (row["speaker"], row["reply"]) == ("Ann", "How nice.")
        assert row["reference"].startswith("The recorded reply")
        assert set(row["tokens"]) == {"prompt", "completion"}
        assert row["tokens"]["prompt"] > 0
    assert not ran.lines[0]["recalled"]
    [recalled] = ran.lines[2]["recalled"]
    assert set(recalled) >= {"id", "text", "at", "s_sem", "s_top", "decay", "score"}
    assert recalled["text"] == "Ann talked about her garden and her bees."
    assert recalled["score"] == pytest.approx(
        float(weighted({"s_sem": recalled["s_sem"], **recalled["terms"]})) + TIME * recalled["decay"]
    )
    assert ran.lines[3]["traits"]["Ann"] == ["I keep bees."]


def test_a_run_is_greedy_unless_the_command_says_otherwise(
    command_line: CommandLine, three: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[float] = []
    monkeypatch.setattr(
        "ld_agent.cli.run._run_here", lambda settings, *_, **__: seen.append(settings.modules.generator.temperature)
    )
    for given in ((), ("modules.generator.temperature=0.4",)):
        assert command_line("run", three, "-c", "instructed", *given).code == 0
    assert seen == [0.0, 0.4]


def test_the_real_command_writes_nothing_else_to_standard_output(three: Path, tmp_path: Path):
    ran = run_real("run", three, "-c", light_config(tmp_path), "--limit", 2, cwd=tmp_path)
    assert (ran.code, len(ran.lines)) == (0, 8)
    assert ran.err == ""
    assert [path.name for path in tmp_path.glob("*.db")] == []


def test_out_takes_the_lines(command_line: CommandLine, three: Path, tmp_path: Path):
    out = tmp_path / "replies.jsonl"
    ran = command_line("run", three, "-c", light_config(tmp_path), "--out", out)
    assert (ran.code, ran.out) == (0, "")
    assert len(out.read_text(encoding="utf-8").splitlines()) == 12
    again = command_line("run", three, "-c", light_config(tmp_path), "--out", out, "--limit", 1)
    assert again.code == 0
    assert (
        len(out.read_text(encoding="utf-8").splitlines()) == 4
    )  # nothing was kept of the first run, so it is not added to


def test_teacher_forcing_lets_the_recorded_reply_into_the_memory(
    command_line: CommandLine, three: Path, tmp_path: Path
):
    config = light_config(tmp_path)
    free, forced = tmp_path / "free.db", tmp_path / "forced.db"
    ran = command_line("run", three, "-c", config, "--limit", 1, "--store", free)
    assert stored_texts(free, "a")[1] == "How nice."
    ran = command_line("run", three, "-c", config, "--limit", 1, "--store", forced, "--teacher-forced")
    assert stored_texts(forced, "a")[1] == "The recorded reply, 0.0"
    assert {row["reply"] for row in ran.lines} == {"How nice."}


def test_store_path_may_be_an_override(command_line: CommandLine, three: Path, tmp_path: Path):
    kept = tmp_path / "kept.db"
    assert command_line("run", three, "-c", light_config(tmp_path), "--limit", 1, f"store.path={kept}").code == 0
    assert len(stored_texts(kept, "a")) == 8


def test_nothing_to_play(command_line: CommandLine, tmp_path: Path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "b", "agent": "Sam", "sessions": 3}\n', encoding="utf-8")
    command = ("run", path, "-c", light_config(tmp_path), "--format", "jsonl")
    assert f"{path}, line 1" in command_line(*command).err
    ran = command_line(*command, "--lenient")
    assert ran.code == 1
    assert "1 broken part of the data skipped" in ran.err
    assert "contains no conversation to play" in ran.err


def test_an_interrupted_run_resumes_with_the_same_command(command_line: CommandLine, three: Path, tmp_path: Path):
    store, out = tmp_path / "run.db", tmp_path / "out.jsonl"
    runs_dry = light_config(tmp_path, generator=["One.", "Two.", "Three."])
    command = ("run", three, "--store", store, "--out", out, "--limit", 2, "--batch", 1)
    ran = command_line(*command, "-c", runs_dry)
    assert ran.code == 1
    assert "no answer left" in ran.err
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3
    with out.open("a", encoding="utf-8") as lines:
        lines.write('{"conversation": "a", "sess')  # broken off by a kill

    ran = command_line(*command, "-c", light_config(tmp_path))
    assert ran.code == 0
    assert "incomplete and has been removed" in ran.err
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(row["conversation"], row["session"], row["turn"]) for row in rows] == [
        (name, session, turn) for name in "ab" for session in (1, 2) for turn in (1, 2)
    ]
    assert [row["reply"] for row in rows][:4] == ["One.", "Two.", "Three.", "How nice."]
    assert len(stored_texts(store, "a")) == 8

    ran = command_line(*command, "-c", light_config(tmp_path))
    assert ran.code == 0
    assert "nothing was left to play" in ran.err
    assert len(out.read_text(encoding="utf-8").splitlines()) == 8


def test_odd_text_goes_through(command_line: CommandLine, tmp_path: Path):
    """Markup and control characters in an id and in what was said."""
    line = json.loads(conversation_line("[/bold] \x1b[31m", turns=1, sessions=1))
    for utterance in line["sessions"][0]:
        utterance["text"] = "bees \x00\x1b[2J 🐝 مرحبا <|im_start|>system"
    path, out = tmp_path / "odd.jsonl", tmp_path / "out.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    config = light_config(tmp_path)
    ran = command_line("run", path, "-c", config)
    assert ran.code == 0, ran.err
    [row] = ran.lines
    assert row["conversation"] == "[/bold] \x1b[31m"
    assert "🐝 مرحبا <|im_start|>system" in row["text"]
    assert command_line("run", path, "-c", config, "--out", out).code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["reply"] == "How nice."


def test_an_interrupt_ends_the_run_and_says_how_to_go_on(tmp_path: Path):
    path, store = tmp_path / "long.jsonl", tmp_path / "run.db"
    path.write_text(conversation_line("a", turns=40, sessions=1), encoding="utf-8")
    command = ("run", path, "-c", light_config(tmp_path), "--store", store, "--batch", 1)
    with start(*command) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.decode() == "interrupted; run the same command again to resume\n"
    done = [json.loads(line) for line in [first, *rest.splitlines()]]
    assert 0 < len(done) < 40
    assert done[0]["text"] in stored_texts(store, "a")

    ran = run_real(*command)
    assert ran.code == 0
    turns = [(row["session"], row["turn"]) for row in [*done, *ran.lines]]
    assert len(turns) == len(set(turns))
    assert turns[-1] == (1, 40)
    assert len(stored_texts(store, "a")) == 80


def test_a_reader_who_leaves_early_gets_no_traceback(tmp_path: Path):
    path = tmp_path / "long.jsonl"
    path.write_text(conversation_line("a", turns=150, sessions=1, text="bees " * 200), encoding="utf-8")
    with start("run", path, "-c", light_config(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
