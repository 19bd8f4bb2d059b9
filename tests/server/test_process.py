"""A real server process: it starts, is killed, loses nothing, and stops gently."""

import signal
import socket
from pathlib import Path

import pytest
from cli_commands import CommandLine, light_config, run_real
from server_process import ServerProcess


def test_killed_it_loses_nothing_and_stopped_it_ends_cleanly(tmp_path: Path):
    config = light_config(tmp_path, generator="How nice.", extractor="NO_TRAIT")
    with ServerProcess("-c", config, "--store", tmp_path / "s.db", "--json", folder=tmp_path) as server:
        texts = [f"Number {number} before the kill." for number in range(3)]
        for text in texts:
            server.chat(text, "ann", **{"X-LD-Thread": "t1"})
        assert server.restart(signal.SIGKILL) == -signal.SIGKILL
        exported = server.http.get("/v1/memory/people/ann/export").text
        assert [exported.count(f'"text": "{text}"') for text in texts] == [1, 1, 1]
        made = run_real("keys", "create", "home", "--store", tmp_path / "s.db")
        key = made.out.strip()
        assert server.http.get("/v1/models").status_code == 401  # a key counts from the moment it is made
        assert server.http.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        log = server.log.read_text()
        assert '"route": "/v1/chat/completions"' in log
        assert log.index("loading") < log.index("ready: the models are loaded")
        assert not [secret for secret in (key, "before the kill", "people/ann", "Traceback") if secret in log]


def test_it_is_not_open_to_others_without_a_key(command_line: CommandLine, tmp_path: Path):
    refused = command_line("serve", "-c", light_config(tmp_path), "--store", tmp_path / "s.db", "--host", "0.0.0.0")
    assert refused.code == 2
    assert "there are no keys; create one first: ld-agent keys create NAME" in refused.err
    assert len(refused.err.splitlines()) == 1


def test_an_address_in_use(command_line: CommandLine, tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = command_line("serve", "-c", light_config(tmp_path), "--store", tmp_path / "s.db", "--port", port)
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert f"cannot listen on 127.0.0.1, port {port}" in refused.err


@pytest.mark.parametrize(("command_name", "missing", "extra"), [("serve", "fastapi", "server"), ("mcp", "mcp", "mcp")])
def test_what_is_not_installed_is_named(
    command_line: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command_name: str,
    missing: str,
    extra: str,
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else object())
    refused = command_line(command_name, "-c", light_config(tmp_path), "--store", tmp_path / "s.db")
    assert refused.code == 2
    assert refused.err == f"ld-agent: this command needs {missing}; run: pip install 'ld_agent[{extra}]'\n"


def test_a_model_that_cannot_be_loaded_ends_the_server(tmp_path: Path):
    done = run_real("serve", "--store", tmp_path / "s.db", "--port", "0", "backbone.model=/nowhere")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("ld-agent: ")
    assert "/nowhere" in last
    assert "Traceback" not in done.err
