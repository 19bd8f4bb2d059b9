"""The endpoint backbone against a real server: the embedded model behind `transformers serve`."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_endpoint import ask

from ld_agent.backbones.base import Message
from ld_agent.backbones.endpoint import EndpointBackbone
from ld_agent.backbones.weights import resolve_model
from ld_agent.config.sections import SMOLLM2
from ld_agent.errors import BackboneError


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded model behind `transformers serve`, under the names "base" and "tuned"; gives the base_url."""
    folder = tmp_path_factory.mktemp("served")
    for name in ("base", "tuned"):
        (folder / name).symlink_to(resolve_model(SMOLLM2))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [Path(sys.executable).with_name("transformers"), "serve", "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "PYTHONUNBUFFERED": "1"}
    log = folder / "log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", port],
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            for _ in range(2400):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except urllib.error.URLError:
                    try:
                        pytest.fail(f"the server ended with {server.wait(timeout=0.1)}: {log.read_text()[-500:]}")
                    except subprocess.TimeoutExpired:
                        continue
            else:
                pytest.fail(f"the server was not ready in time: {log.read_text()[-500:]}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()


@pytest.fixture
def real(served: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointBackbone]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = {"generator": "tuned", "summarizer": "not-served"}
    backbone = EndpointBackbone("base", base_url=served, models=models, timeout=120.0, max_retries=0)
    yield backbone
    backbone.close()


def test_a_real_model_answers_plain_and_streamed_alike(real):
    [plain] = real.generate([ask("What is the capital of France?")])
    pieces: list[str] = []
    [streamed] = real.generate([ask("What is the capital of France?", on_text=pieces.append)])
    assert "Paris" in plain.text
    assert streamed == plain
    assert "".join(pieces) == plain.text
    assert len(pieces) > 3
    assert 0 < plain.prompt_tokens <= real.count_tokens([Message("user", "What is the capital of France?")]) + 30


def test_a_real_batch_of_two_modules_each_under_its_name(real):
    first, second = real.generate([ask("Count: one, two,", module="extractor"), ask("Name a colour.", seed=1)])
    assert first.text
    assert second.text
    assert (first.finish, first.completion_tokens) == ("length", 16)
    with pytest.raises(BackboneError, match=r"'not-served'.*HTTP 500"):
        real.generate([ask(module="summarizer")])
