"""The shipped vLLM config against a loopback server that speaks vLLM's API and refuses what vLLM refuses.

It stands in for a server of which no CPU build can be had: what is checked is what is sent, not what vLLM makes of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from ld_agent.backbones.adapter_export import export_for_vllm
from ld_agent.backbones.base import Message, Request
from ld_agent.config import load_config
from ld_agent.errors import BackboneError
from ld_agent.modules.base import Models

MODULES = ("summarizer", "extractor", "generator")
TAKEN = {
    "model", "messages", "max_tokens", "temperature", "seed", "stream", "stream_options", "stop", "repetition_penalty",
}  # fmt: skip


class VLLM(ThreadingHTTPServer):
    """Serves a base and the adapters that it was told to load; ``asked`` has the bodies of completions."""

    daemon_threads = True

    def __init__(self, base: str) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.served: set[str] = {base}
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Call(BaseHTTPRequestHandler):
    server: VLLM

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/load_lora_adapter":
            folder = Path(body["lora_path"])
            whole = (folder / "adapter_config.json").is_file() and (folder / "adapter_model.safetensors").is_file()
            if whole:
                self.server.served.add(body["lora_name"])
            self._send(200 if whole else 400, {"loaded": whole})
            return
        assert self.path == "/v1/chat/completions"
        self.server.asked.append(body)
        if unknown := set(body) - TAKEN:
            self._send(400, {"error": f"unknown parameters: {unknown}"})
        elif body["model"] not in self.server.served:
            self._send(404, {"error": {"message": f"The model `{body['model']}` does not exist."}})
        else:
            message = {"role": "assistant", "content": f"from {body['model']}"}
            self._send(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def _send(self, status: int, body: Any) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[VLLM]:
    running = VLLM(str(load_config("vllm-adapters").backbone.model))
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture
def models(server: VLLM) -> Iterator[Models]:
    made = Models(load_config("vllm-adapters", [f"backbone.base_url={server.url}"]), None)
    yield made
    made.close()


def ask(module: str, **more: Any) -> Request:
    return Request((Message("user", "Hello?"),), module, max_new_tokens=8, **more)


def test_each_module_asks_for_the_adapter_that_was_exported_under_its_name(
    server: VLLM, models: Models, tmp_path: Path
) -> None:
    export_for_vllm({name: f"shipped:adapters/{name}" for name in MODULES}, "org/base", tmp_path / "out")
    for folder in (tmp_path / "out").iterdir():
        loaded = httpx.post(
            f"{server.url}/load_lora_adapter", json={"lora_name": folder.name, "lora_path": str(folder)}
        )
        assert loaded.status_code == 200
    answers = models.complete([ask(name) for name in MODULES])
    assert [answer.text for answer in answers] == [f"from {name}" for name in MODULES]
    assert sorted(body["model"] for body in server.asked) == sorted(MODULES)


def test_a_repetition_penalty_reaches_vllm(server: VLLM, models: Models) -> None:
    server.served.add("generator")
    models.complete([ask("generator", repetition_penalty=1.1)])
    assert server.asked[-1]["repetition_penalty"] == 1.1


def test_an_adapter_that_is_not_loaded_is_named(models: Models) -> None:
    with pytest.raises(BackboneError, match=r"generator"):
        models.complete([ask("generator")])
