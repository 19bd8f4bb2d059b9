"""The papers' figures from runs that were really made, with a scripted model, a scripted judge and made-up people."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_commands import CommandLine, conversation_line, scripted_config

from ld_agent.datasets.base import Episode, Turn
from ld_agent.evaluation.tasks.ecm import ASSISTANT, USER, Probe, Sample, write_samples

PLAIN = ("personas.cap=0", "modules.generator.grounded=false")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def benchmark(folder: Path, name: str) -> Path:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    source = Episode("a", ASSISTANT, (Turn(USER, "I row.", at, 1), Turn(ASSISTANT, "Where?", at, 1)))
    samples = [Sample(f"a{n}", name, source, (Probe("What do I do?", "You row."),)) for n in range(3)]
    write_samples(folder / f"{name}.jsonl", samples, {})
    return folder / f"{name}.jsonl"


def test_the_sweep_over_k(tmp_path: Path, command: CommandLine):
    data, runs = benchmark(tmp_path, "knowledge"), tmp_path / "runs"
    for k, verdict in ((1, "0"), (3, "2")):
        config = scripted_config(tmp_path, judge=verdict)
        folder = runs / f"history_{k}"
        views = ("memory.views=[history]", f"memory.k={k}", *PLAIN)
        assert command("ecm", "run", data, *views, "-c", config, "--out", folder).code == 0
        assert command("judge", "score", folder, "-c", config).code == 0
    out = tmp_path / "sweep.png"
    ran = command("figures", "ecm-6", "--from", runs, "--out", out, "--json")
    assert json.loads(ran.out) == {"history": {"1": 0.0, "3": 2.0}}
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "2.00" in command("figures", "ecm-6", "--from", runs).out
    ran = command("figures", "ecm-5", "--from", runs)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)


def test_the_choice_among_kinds_of_memory(tmp_path: Path, command: CommandLine):
    data, runs = benchmark(tmp_path, "feedback"), tmp_path / "runs"
    config = scripted_config(tmp_path, judge=["A", "B", "?"])
    folders = [runs / kind for kind in ("none", "history")]
    for folder in folders:
        views = (f"memory.views=[{folder.name}]", *PLAIN)
        answers = scripted_config(tmp_path, generator=f"It is {folder.name}.")
        assert command("ecm", "run", data, *views, "-c", answers, "--out", folder).code == 0
    judged = json.loads(command("judge", "choose", *folders, "-c", config, "--json").out)
    numbers = json.loads(command("figures", "ecm-5", "--from", runs, "--json").out)
    names = list(judged["shares"])
    assert numbers == {"feedback": {"none": judged["shares"][names[0]], "history": judged["shares"][names[1]]}}
    assert sum(numbers["feedback"].values()) == 1


# ---- replies


@pytest.fixture
def msc(tmp_path: Path) -> Path:
    """Five sessions in the format of Multi-Session Chat."""
    said = [{"text": f"Line {n}.", "id": f"Speaker {n % 2 + 1}"} for n in range(4)]
    gap = {"time_num": 5, "time_unit": "days", "time_back": "5 days ago"}
    earlier = {"personas": [["I row."], ["I bake."]], "dialog": said} | gap
    value = {"personas": [["I row."], ["I bake."]], "dialog": said, "previous_dialogs": [earlier] * 4}
    (tmp_path / "test.txt").write_text(json.dumps(value | {"metadata": {"initial_data_id": "test_0"}}) + "\n")
    return tmp_path / "test.txt"


def test_the_length_of_replies_by_session(tmp_path: Path, msc: Path, command: CommandLine):
    runs = tmp_path / "runs"
    for view, reply in (("none", "Three short words."), ("bm25", "A reply of five words.")):
        config = scripted_config(tmp_path, generator=reply)
        given = (f"memory.views=[{view}]", *PLAIN, "-c", config, "--no-perplexity", "--from-session", "4")
        assert command("eval", "response", msc, *given, "--out", runs / view).code == 0
    numbers = json.loads(command("figures", "rsum-7", "--from", runs, "--json").out)
    assert {name.rpartition(" ")[2]: lengths for name, lengths in numbers.items()} == {
        "none": {"4": 3.0, "5": 3.0}, "bm25": {"4": 5.0, "5": 5.0},
    }  # fmt: skip
    assert command("figures", "rsum-7", "--from", runs, "--out", tmp_path / "lengths.svg").code == 0
    assert "<svg" in (tmp_path / "lengths.svg").read_text()


def test_preferences_whichever_run_was_named_first(tmp_path: Path, msc: Path, command: CommandLine):
    runs = tmp_path / "runs"
    for view in ("recursive", "full", "memorybank"):
        config = scripted_config(tmp_path, generator=f"It is {view}.", memory="I row.")
        given = (f"memory.views=[{view}]", *PLAIN, "-c", config, "--no-perplexity", "--from-session", "5")
        assert command("eval", "response", msc, *given, "--out", runs / view).code == 0
    # of both replies, the run that is named first wins in either order
    first_wins = scripted_config(tmp_path, judge=["[[1]]", "[[4]]"] * 2)
    for first, second in (("recursive", "full"), ("memorybank", "recursive")):
        assert command("judge", "prefer", runs / first, runs / second, "-c", first_wins).code == 0
    numbers = json.loads(command("figures", "rsum-4", "--from", runs, "--json").out)
    assert {name.rpartition(" ")[2]: shares for name, shares in numbers.items()} == {
        "full": {"win": 1.0, "tie": 0.0, "lose": 0.0},
        "memorybank": {"win": 0.0, "tie": 0.0, "lose": 1.0},
    }


def test_people_rate_chats_with_each_agent(tmp_path: Path, command: CommandLine):
    """From chats in a store to the figure: export, form, ratings."""
    (tmp_path / "first.jsonl").write_text(conversation_line("c1", sessions=1))
    exports = []
    for name in ("with", "without"):
        config = scripted_config(tmp_path, generator=f"I am {name}.")
        store, export = tmp_path / f"{name}.db", tmp_path / f"{name}.jsonl"
        played = ("--teacher-forced", "--store", store, "--out", tmp_path / f"{name}.out.jsonl")
        assert command("run", tmp_path / "first.jsonl", "-c", config, *played).code == 0
        chatted = command("chat", "-c", config, "--store", store, "--conversation", "c1", stdin="Hello again.\n")
        assert f"I am {name}." in chatted.out
        assert command("memory", "export", export, "--store", store).code == 0
        exports.append(export)
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert command("judge", "form", *exports, "--out", page).code == 0
    about = json.loads(key.read_text())
    lines = [
        {"form": about["form"], "annotator": who, "item": item, "aspect": aspect, "value": 2 if of["system"] == "with" else 0}
        for who in ("ann", "bob") for item, of in about["items"].items() for aspect in ("coherence", "fluency")
    ]  # fmt: skip
    ratings = tmp_path / "ratings.jsonl"
    ratings.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert command("judge", "agree", ratings, "--key", key, "--keep").code == 0
    numbers = json.loads(command("figures", "ld-agent-3b", "--from", tmp_path, "--json").out)
    assert numbers == {"with": {"coherence": 2.0, "fluency": 2.0}, "without": {"coherence": 0.0, "fluency": 0.0}}
    shown = page.read_text()
    for text in ("The recorded reply, 0.1", "a later session", "Hello again.", "I am without."):
        assert text in shown
