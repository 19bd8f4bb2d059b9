"""``ld-agent bench serve``: throughput and latency of chat completions over a real socket, with 1, 8 and 32 clients.

Each client is a person with a separate conversation and sends one message after another. The first one's memory holds
10,000 events, unless the configured model answers. Server and clients share the machine and this process.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.evaluation.bench import machine
from ld_agent.evaluation.bench_growth import filled
from ld_agent.terminal import progress

CLIENTS = (1, 8, 32)
REQUESTS = 20
"""Number of messages per client, after one to warm up."""
EVENTS = 10_000
SCRIPT = {"generator": "That sounds good.", "extractor": "NO_TRAIT", "summarizer": "They talk."}
TEXT = "I keep {n} bee hives on my roof. What did I say about word{n}?"
Sent = tuple[float, float]
"""Milliseconds until the answer, and how many of them the turn took."""


def bench_serve(
    config: Config,
    *,
    real: bool = False,
    clients: Sequence[int] = CLIENTS,
    requests: int = REQUESTS,
    events: int = EVENTS,
) -> dict[str, Any]:
    """Measure chat completions.

    Args:
        real: the configured model answers, over an empty memory; else a scripted one.

    Returns:
        ``serve``: for each number of clients ``requests_a_second``, ``p50_ms`` and ``p95_ms`` until the answer, and
        ``overhead_p50_ms``, the same without what the turn itself took (encoding, recall, reply).
    """
    with tempfile.TemporaryDirectory() as folder:
        opened = bench_config(config, folder)
        agent = Agent(opened, backbone=None if real else ScriptedBackbone(SCRIPT), background=True)
        with Serving(agent) as address:
            asyncio.run(_rounds(address, 1, 1))  # makes the first person's conversation
            if not real:
                filled(agent, agent.store.conversations()[0].id, events)
            rows = []
            for count in clients:
                with progress(f"{count} clients", count * requests) as step:
                    began = time.perf_counter()
                    sent = asyncio.run(_rounds(address, count, requests, step))
                    seconds = time.perf_counter() - began
                rows.append(_figures(count, sent, seconds))
    return {"serve": rows, "model": config.backbone.model if real else "scripted", "machine": machine()}


def bench_config(config: Config, folder: str) -> Config:
    """A config for a store of its own, and for clients that all come from one address."""
    return config.changed(store={"path": str(Path(folder) / "serve.db")}, server={"rate": 10**6})


def _figures(clients: int, sent: Sequence[Sent], seconds: float) -> dict[str, Any]:
    latencies = [latency for latency, _ in sent]
    return {
        "clients": clients,
        "requests_a_second": round(len(sent) / seconds, 1),
        "p50_ms": round(statistics.median(latencies), 1),
        "p95_ms": round(float(np.percentile(latencies, 95)), 1),
        "overhead_p50_ms": round(statistics.median(latency - turn for latency, turn in sent), 1),
    }


async def _rounds(address: str, clients: int, requests: int, step: Any = lambda done: None) -> list[Sent]:
    import httpx

    async def talk(number: int, client: httpx.AsyncClient) -> list[Sent]:
        headers = {"X-LD-Person": f"p{number}", "X-LD-Thread": "bench"}
        sent = []
        for n in range(requests):
            body = {"model": "default", "messages": [{"role": "user", "content": TEXT.format(n=n)}], "max_tokens": 32}
            began = time.perf_counter()
            answer = await client.post("/v1/chat/completions", json=body, headers=headers)
            answer.raise_for_status()
            turn = sum(answer.json()["ld_agent"]["timings_ms"].values())
            sent.append((1000 * (time.perf_counter() - began), turn))
            step(1)
        return sent

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        return [one for sent in await asyncio.gather(*(talk(n, client) for n in range(clients))) for one in sent]


class Serving:
    """The application behind a socket of its own, in a thread."""

    def __init__(self, agent: Agent) -> None:
        from ld_agent.server.run import http_server

        self._socket = socket.socket(
            socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )  # otherwise asyncio leaves Nagle's algorithm on
        self._socket.bind(("127.0.0.1", 0))
        self.server = http_server({"default": agent})
        self._thread = threading.Thread(target=self.server.run, args=([self._socket],), name="ld-agent-bench")

    def __enter__(self) -> str:
        self._thread.start()
        while not self.server.started and self._thread.is_alive():
            time.sleep(0.01)
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        self.server.should_exit = True
        self._thread.join()
        self._socket.close()
