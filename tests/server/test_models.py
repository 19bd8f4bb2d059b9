"""Several agents behind one address: each replies under its own name, and all of them remember the same person."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cli_commands import CommandLine, scripted_config
from server_parts import Client, Served

from ld_agent.backbones.base import Request

pytestmark = pytest.mark.anyio


def knows(request: Request) -> str:
    return "You keep bees." if "I keep bees." in request.messages[0].content else "Nothing."


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    """Two agents over one store: the one says "Plain.", the other whether its prompt knows of bees."""
    scripts = {"plain": {"generator": "Plain."}, "fancy": {"generator": knows}}
    async with served(scripts=scripts, **{"memory.gamma": -1.0}) as client:
        yield client


async def answer(client: Client, model: str, text: str, person: str | None = "ann") -> str:
    body = {"model": model, "messages": [{"role": "user", "content": text}]} | ({"user": person} if person else {})
    response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["model"] == model
    return response.json()["choices"][0]["message"]["content"]


async def test_each_model_replies_and_all_remember(client: Client) -> None:
    listed = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["plain", "fancy"]
    assert (await client.get("/v1/models/fancy")).json()["id"] == "fancy"
    assert await answer(client, "plain", "I keep bees.") == "Plain."
    assert await answer(client, "fancy", "What do I keep?") == "You keep bees."  # what the other one has learned
    assert await answer(client, "plain", "Thank you.") == "Plain."
    assert (await client.said())[::2] == ["I keep bees.", "What do I keep?", "Thank you."]
    assert await answer(client, "plain", "Hello.", person=None) == "Plain."
    streamed = await client.post(
        "/v1/chat/completions",
        json={"model": "fancy", "stream": True, "user": "bob", "messages": [{"role": "user", "content": "Hi."}]},
    )
    assert '"model": "fancy"' in streamed.text
    response = await client.post("/v1/responses", json={"model": "plain", "input": "Hi.", "user": "bob"})
    assert (response.json()["model"], response.json()["output"][0]["content"][0]["text"]) == ("plain", "Plain.")


async def test_a_model_that_is_not_there_is_named_with_those_that_are(client: Client) -> None:
    body = {"model": "gpt-4", "messages": [{"role": "user", "content": "Hi."}]}
    response = await client.post("/v1/chat/completions", json=body)
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "no model 'gpt-4'; this server has 'plain', 'fancy'"
    assert response.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("stores", [(":memory:", ":memory:"), ("a.db", "b.db")])
def test_agents_of_one_server_share_a_store(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, stores: tuple[str, str]
) -> None:
    files = []
    for name, store in zip("xy", stores, strict=True):
        file = tmp_path / f"{name}.yaml"
        file.write_text(Path(scripted_config(tmp_path)).read_text() + f"\nstore:\n  path: '{store}'\n")
        files += ["-c", file]
    refused = CommandLine(monkeypatch, capsys)("serve", *files, "--port", "0")
    assert refused.code == 2
    assert "agents of one server share their memory" in refused.err
    assert len(refused.err.splitlines()) == 1
