"""How the tests of the server talk with it: over httpx's ASGI transport, in this process."""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.server.service import Service

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
NDJSON = {"Content-Type": "application/x-ndjson"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class Client(httpx.AsyncClient):
    """Talks with one served agent."""

    service: Service
    backbone: ScriptedBackbone

    async def chat(
        self, *texts: str, person: str | None = "ann", thread: str | None = "t1", **more: Any
    ) -> httpx.Response:
        """Send lines, the person's and the agent's by turns, the person's last."""
        roles = ["user", "assistant"] * len(texts)
        messages = [
            {"role": role, "content": text}
            for role, text in zip(roles[: len(texts)] if len(texts) % 2 else roles[1:], texts, strict=False)
        ]
        headers = dict(more.pop("headers", {}))
        headers |= {"X-LD-Person": person} if person else {}
        headers |= {"X-LD-Thread": thread} if thread else {}
        body = {"model": "default", "messages": [*more.pop("before", []), *messages], **more}
        return await self.post("/v1/chat/completions", json=body, headers=headers)

    async def said(self, person: str = "ann") -> list[str]:
        """Everything that is stored of a person's conversation, in order."""
        found = self.service.agent.store.find_conversation(person)
        return [] if found is None else [u.text for u in self.service.agent.store.utterances(found.key)]


class Serving:
    """The application behind a socket of its own, in a thread."""

    def __init__(self, agent: Agent) -> None:
        from ld_agent.server.run import http_server

        # TCP by name: otherwise asyncio leaves Nagle's algorithm on
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.server = http_server({"default": agent})
        self._thread = threading.Thread(target=self.server.run, args=([self._socket],), name="ld-agent-tests")

    def __enter__(self) -> str:
        self._thread.start()
        while not self.server.started and self._thread.is_alive():
            time.sleep(0.01)
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self._thread.join()
        self._socket.close()


Served = Callable[..., AbstractAsyncContextManager[Client]]


def events(response: httpx.Response) -> list[Any]:
    """The events of a stream, the closing one left out."""
    data = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(line) for line in data[:-1]]


async def turn(client: Client, *texts: str, **more: Any) -> str:
    """The text of a reply."""
    response = await client.chat(*texts, **more)
    assert response.status_code == 200, response.text
    content: str = response.json()["choices"][0]["message"]["content"]
    return content
