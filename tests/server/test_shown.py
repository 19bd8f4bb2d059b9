"""What the front page and the server's guide show of a running server works when pasted: commands, Python and its output."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_commands import light_config
from documentation import README, ROOT, blocks
from server_process import ServerProcess

SERVE = ROOT / "docs" / "serve.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("shown")
    config = light_config(folder, generator="You keep bees.", extractor="I keep bees.").rename(folder / "default.yaml")
    with ServerProcess("-c", config, "--store", folder / "s.db", folder=folder) as server:
        yield server


def here(block: str, server: ServerProcess) -> str:
    return block.replace("127.0.0.1:8321", f"127.0.0.1:{server.port}").replace(
        "localhost:8321", f"127.0.0.1:{server.port}"
    )


@pytest.mark.parametrize("page", [README, SERVE], ids=lambda page: page.stem)
def test_what_curl_asks_is_answered(page: Path, server: ServerProcess):
    script = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    for line in (line for line in script if line.startswith("curl ")):
        done = subprocess.run(["sh", "-c", here(line, server)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "error" not in json.loads(done.stdout), (line, done.stdout)


def test_the_guides_python_runs(server: ServerProcess, capsys: pytest.CaptureFixture[str]):
    shown = [block for block in blocks(SERVE, "python") if "8321" in block]
    assert len(shown) >= 2
    for block in shown:
        exec(here(block, server), {})
    assert "You keep bees." in capsys.readouterr().out


def test_a_program_with_a_client_remembers_after_one_line(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    [block] = [block for block in blocks(README, "python") if "remembering(" in block]
    names: dict[str, Any] = {}
    exec(block, names)
    asked: Any = [{"role": "user", "content": "I keep bees."}]
    answer = names["client"].chat.completions.create(model="default", messages=asked)
    names["client"].close()
    assert answer.choices[0].message.content == "You keep bees."
    assert (tmp_path / "ld_agent.db").exists()
