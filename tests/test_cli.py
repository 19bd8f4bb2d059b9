"""What holds for every command: exit codes, one-line errors, and where output goes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine, Untouched, light_config, run_real

import ld_agent.cli
import ld_agent.cli.chat
import ld_agent.storage.sqlite.store
from ld_agent.cli import doctor
from ld_agent.config import Config
from ld_agent.config.sections import SMOLLM2
from ld_agent.files import shipped_path

SAMPLE = shipped_path("data/samples/three_sessions.jsonl")
REFUSED = [
    (["--nope"], ["--nope", "see ld-agent --help"], 2),
    (["tlak"], ["'tlak'"], 2),
    (["chat", "--nope"], ["--nope", "see ld-agent chat --help"], 2),
    (["chat", "--store"], ["--store"], 2),
    (["run"], ["INPUT", "see ld-agent run --help"], 2),
    (["run", SAMPLE, "--limit", "many"], ["--limit"], 2),
    (["run", SAMPLE, "--limit", "0"], ["--limit"], 2),
    (["run", SAMPLE, "--batch", "0"], ["--batch"], 2),
    (["run", SAMPLE, "--format", "csv"], ["--format", "csv", "jsonl", "msc"], 2),
    (["memory", "forgt"], ["'forgt'"], 2),
    (["memory", "list"], ["no memory file ld_agent.db", "--store"], 1),
    (["chat", "-c", "nowhere.yaml"], ["nowhere.yaml"], 2),
    (["chat", "-c", "defualt"], ["defualt", "default", "qwen3-0.6b"], 2),
    (["chat", "memory.kk=5"], ["memory.kk", "gamma"], 2),
    (["demo", "memory.k=many"], ["memory.k", "many"], 2),
    (["run", SAMPLE, "memory.k"], ["memory.k", "memory.k=5"], 2),
    (["run", SAMPLE, "memory.views=[evnts]"], ["evnts", "known", "events"], 2),
    (["run", SAMPLE, "memory.scorer=best"], ["best", "known", "paper"], 2),
    (["chat", "backbone.kind=chatgpt"], ["chatgpt", "known", "transformers, openai, scripted"], 2),
    (["chat", "agent.name="], ["agent.name"], 2),
    (["run", "nowhere.jsonl"], ["nowhere.jsonl"], 1),
    (["run", SAMPLE, "--out", "/no/such/folder/out.jsonl", "CONFIG"], ["--out", "/no/such/folder/out.jsonl"], 1),
    (["run", SAMPLE, "--store", "/no/such/folder/me.db", "CONFIG"], ["/no/such/folder/me.db"], 1),
    (["run", SAMPLE, "encoder.model=/no/such/encoder", "CONFIG"], ["/no/such/encoder"], 1),
    (["run", SAMPLE, "topics.model=no_such_pipeline"], ["no_such_pipeline", "topics.model"], 1),
    (["chat", "backbone.model=/no/such/model.gguf"], ["/no/such/model.gguf"], 1),
    (["chat", "backbone.model=package:no-such-package/model.gguf"], ["no-such-package", "pip install"], 1),
    (["chat", "-c", "ollama", "backbone.base_url=http://localhost:9/v1"], ["localhost:9", "ld-agent doctor"], 1),
    (["chat", "modules.extractor.adapter=/no/such/adapter"], ["/no/such/adapter"], 1),
    (["chat", "modules.generator.backbone={kind: transformers, model: /no/such/other}"], ["/no/such/other"], 1),
]
"""What is called, CONFIG being a scripted one, what is said about it, and the exit code."""


@pytest.mark.parametrize(("arguments", "parts", "code"), REFUSED)
def test_what_cannot_be_done_is_one_line_before_anything_is_read(
    command_line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    parts: list[str],
    code: int,
):
    monkeypatch.chdir(tmp_path)
    given = [part for one in arguments for part in (("-c", light_config(tmp_path)) if one == "CONFIG" else (one,))]
    ran = command_line(*given, stdin=Untouched())
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith("ld-agent: ")
    assert all(part in ran.err for part in parts), ran.err


@pytest.mark.parametrize("group", [[], ["memory"], ["bench"]])
def test_a_group_called_bare_shows_its_help(command_line: CommandLine, group: list[str]):
    ran = command_line(*group)
    assert (ran.code, ran.err) == (2, "")
    assert ("Commands" if group else "Tune and evaluate") in ran.out


def test_without_a_command_lines_from_a_pipe_are_a_chat(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    called: list[tuple[str, str]] = []

    def chat(config: Config, conversation: str) -> int:
        called.append((config.backbone.model, conversation))
        return 0

    monkeypatch.setattr(ld_agent.cli.chat, "run_chat", chat)
    (tmp_path / "lines").write_text("Hi.\n")
    assert command_line(stdin=io.FileIO(tmp_path / "lines")).code == 0
    assert called == [(SMOLLM2, "chat")]


def test_the_doctor_says_what_works_and_what_brings_the_rest(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Served(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "small-model"}]}' if self.path == "/v1/models" else b"")

        def log_message(self, *_: object) -> None:
            pass

    def examined(**ports: int) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(doctor, "SERVERS", ports)
        ran = command_line("doctor", "--store", tmp_path / "me.db", "--json")
        return ran.code, {f["name"]: f for f in json.loads(ran.out)["findings"]}

    with ThreadingHTTPServer(("localhost", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code, found = examined(Own=server.server_port)
        server.shutdown()
    assert code == 0
    assert found["default model"]["works"] is True
    assert f"localhost:{server.server_port}/v1 backbone.model=small-model" in found["Own"]["fix"]
    assert not (tmp_path / "me.db").exists()

    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.0.1")
    (tmp_path / "me.db").write_text("not a store, but longer than a header of SQLite's files would be" * 2)
    code, found = examined(Own=server.server_port)
    assert code == 1
    assert "none on the usual ports" in found["model servers"]["detail"]
    assert (found["store"]["works"], "not an ld_agent store" in found["store"]["detail"]) == (False, True)
    assert "torch" in found["package"]["detail"]
    assert found["extra server"]["fix"] == "pip install 'ld_agent[server]'"


def test_the_doctor_survives_what_is_broken(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def hangs(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    for name, files in {"whole": ("config.json", "model.safetensors"), "bare": ("config.json",)}.items():
        snapshot = tmp_path / f"models--an--{name}" / "snapshots" / "0"
        snapshot.mkdir(parents=True)
        for file in files:
            (snapshot / file).write_text('{"architectures": ["SmallForCausalLM"]}')
    broken = tmp_path / "models--an--broken" / "snapshots" / "0"
    broken.mkdir(parents=True)
    (broken / "config.json").symlink_to("nowhere")
    (broken / "model.safetensors").touch()
    (tmp_path / "nvidia-smi").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(subprocess, "run", hangs)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "SERVERS", {})
    ran = command_line("doctor", "--store", tmp_path / "me.db", "--json")
    found = {f["name"]: f for f in json.loads(ran.out)["findings"]}
    assert (found["hub cache"]["works"], found["hub cache"]["detail"]) == (True, "an/whole")
    assert (found["GPU"]["works"], "timed out" in found["GPU"]["detail"]) == (None, True)


def test_an_unforeseen_error_is_one_line_too(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def broken(path: Path) -> None:
        raise RuntimeError("first line\nsecond line")

    (tmp_path / "me.db").touch()
    monkeypatch.setattr(ld_agent.storage.sqlite.store, "SQLiteStore", broken)
    ran = command_line("memory", "list", "--store", tmp_path / "me.db")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "ld-agent: unexpected RuntimeError: first line second line; run again with --debug for the traceback\n"
    )
    monkeypatch.setattr(sys, "argv", ["ld-agent", "memory", "list", "--store", str(tmp_path / "me.db"), "--debug"])
    with pytest.raises(RuntimeError, match="second line"):
        ld_agent.cli.main()


def test_an_interrupt_is_exit_code_130(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    (tmp_path / "me.db").touch()
    monkeypatch.setattr(ld_agent.storage.sqlite.store, "SQLiteStore", interrupted)
    ran = command_line("memory", "list", "--store", tmp_path / "me.db")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_control_characters_of_a_name_never_reach_the_terminal(command_line: CommandLine, tmp_path: Path):
    ran = command_line("memory", "list", "--store", tmp_path / "\x1b[31mred\x07.db")
    assert ran.code == 1
    assert "\\x1b[31mred\\x07.db" in ran.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", ran.err)


def test_debug_after_a_double_dash_is_an_argument(command_line: CommandLine, tmp_path: Path):
    (tmp_path / "me.db").touch()
    ran = command_line("memory", "export", "--store", tmp_path / "none.db", "--", "--debug")
    assert ran.code == 1
    assert "none.db" in ran.err


def test_the_demo_plays_and_continues(command_line: CommandLine, tmp_path: Path):
    config = light_config(tmp_path, extractor="I like long walks.")
    numbers = ("became m1", "overall", "what is remembered", "what is known about Sam")
    first = command_line("demo", "-c", config, "--store", tmp_path / "demo.db", "--why")
    assert (first.code, first.err) == (0, "")
    for shown in (
        "session 1",
        "session 3",
        "session 4",
        "what is my dog called?",
        "what is known about Maya",
        *numbers,
    ):
        assert shown in first.out
    words = " ".join(first.out.split())
    assert "s_sem: the memory means the same" in words
    assert words.count("learned about Maya: I like long walks.") == 1
    assert "holds" not in first.out
    second = command_line("demo", "-c", config, "--store", tmp_path / "demo.db")
    assert second.code == 0
    for shown in (
        "utterances of this conversation; resuming it",
        "session 5",
        "what is known about Maya",
        "--conversation demo agent.user=Maya",
    ):
        assert shown in second.out
    for hidden in ("session 1,", *numbers):
        assert hidden not in second.out


def test_the_real_command_passes_its_exit_codes_on(tmp_path: Path):
    assert run_real("memory", "list", "--store", tmp_path / "none.db").code == 1
    assert run_real("chat", "--nope").code == 2
    assert run_real("--help").code == 0
