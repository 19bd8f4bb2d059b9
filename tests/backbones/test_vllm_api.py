"""The shipped vLLM config against a loopback server that speaks vLLM's API and refuses what vLLM refuses.

It stands in for a server of which no CPU build can be had: what is checked is what is sent, not what vLLM makes of it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from stage import Call, Stage, fails, says

from ld_agent.backbones.adapter_export import export_for_vllm
from ld_agent.backbones.base import Message, Request
from ld_agent.config import load_config
from ld_agent.modules.base import Models

MODULES = ("summarizer", "extractor", "generator")
TAKEN = {
    "model", "messages", "max_tokens", "temperature", "seed", "stream", "stream_options", "stop", "repetition_penalty",
}  # fmt: skip


@pytest.fixture
def served(stage: Stage) -> set[str]:
    """The names under which the server answers: that of the base, and of the adapters that it was told to load."""
    names = {str(load_config("vllm-adapters").backbone.model)}

    def play(call: Call) -> None:
        if call.path == "/v1/load_lora_adapter":
            folder = Path(call.body["lora_path"])
            whole = (folder / "adapter_config.json").is_file() and (folder / "adapter_model.safetensors").is_file()
            names.update([call.body["lora_name"]] if whole else [])
            call.send(200 if whole else 400, b"{}")
        elif unknown := set(call.body) - TAKEN:
            fails(400, f"unknown parameters: {unknown}")(call)
        elif call.body["model"] not in names:
            fails(404, {"message": f"The model `{call.body['model']}` does not exist."})(call)
        else:
            says(f"from {call.body['model']}")(call)

    stage.plays = [play]
    return names


@pytest.fixture
def models(stage: Stage) -> Iterator[Models]:
    made = Models(load_config("vllm-adapters", [f"backbone.base_url=http://127.0.0.1:{stage.server_port}/v1"]), None)
    yield made
    made.close()


def ask(module: str, **more: Any) -> Request:
    return Request((Message("user", "Hello?"),), module, max_new_tokens=8, **more)


def test_each_module_asks_for_the_adapter_that_was_exported_under_its_name(
    stage: Stage, served: set[str], models: Models, tmp_path: Path
) -> None:
    export_for_vllm({name: f"shipped:adapters/{name}" for name in MODULES}, "org/base", tmp_path / "out")
    for folder in (tmp_path / "out").iterdir():
        given = {"lora_name": folder.name, "lora_path": str(folder)}
        assert httpx.post(f"http://127.0.0.1:{stage.server_port}/v1/load_lora_adapter", json=given).status_code == 200
    answers = models.complete([ask(name, repetition_penalty=1.1) for name in MODULES])
    assert [answer.text for answer in answers] == [f"from {name}" for name in MODULES]
    assert stage.bodies[-1]["repetition_penalty"] == 1.1
    assert sorted(body["model"] for body in stage.bodies if "model" in body) == sorted(MODULES)
