"""``ld-agent bench serve --soak``: whether a server under load grows in memory or open files beyond what it stores.

Eight people chat continuously over a real socket, in sessions of twenty messages. Some streams are abandoned halfway;
occasionally a memory is searched and a person's page is opened. A scripted model answers.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ld_agent.agent import Agent
from ld_agent.backbones.base import Completion, Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import InputError
from ld_agent.evaluation.bench import machine
from ld_agent.server.bench import SCRIPT, TEXT, Serving, bench_config
from ld_agent.terminal import progress

if TYPE_CHECKING:
    import httpx

CLIENTS = 8
SESSION = 20
"""Number of messages per person after which all pause until their sessions have ended."""
SAMPLES = 10
PROCESS = Path("/proc/self")


class Forgetful(ScriptedBackbone):
    """A scripted model that keeps no requests."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        answers = super().generate(requests)
        self.requests.clear()
        self.batches.clear()
        return answers


@dataclass(slots=True)
class Clock:
    """The current time plus the time skipped."""

    skipped: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.skipped


def bench_soak(
    config: Config, seconds: float, clients: int = CLIENTS, watch: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Put a server under load for some time.

    Args:
        watch: called in the process with each sample.

    Returns:
        ``soak``: samples at even intervals, the first after a tenth of the time: ``seconds``, ``requests`` so far,
        ``rss_mb``, ``descriptors``, ``threads``, and what is to grow: ``store_mb`` on disk and ``index_mb`` in memory.

    Raises:
        InputError: the system has no /proc to read memory and descriptors from.
    """
    if not PROCESS.exists():
        raise InputError("--soak reads memory and open files from /proc; run it on Linux")
    with tempfile.TemporaryDirectory() as folder:
        clock, opened = Clock(), bench_config(config, folder)
        agent = Agent(opened, backbone=Forgetful(SCRIPT), clock=clock, background=True)
        agent.warm_up()
        with Serving(agent) as address:
            load = _Load(address, agent, clock, seconds)
            rows = asyncio.run(load.run(clients, watch))
    return {"soak": rows, "model": "scripted", "clients": clients, "machine": machine()}


@dataclass(slots=True)
class _Load:
    address: str
    agent: Agent
    clock: Clock
    seconds: float
    requests: int = 0
    began: float = field(default_factory=time.perf_counter)

    async def run(self, clients: int, watch: Callable[[], None]) -> list[dict[str, Any]]:
        import httpx

        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=self.address, timeout=600, limits=limits) as client:
            talks = [asyncio.create_task(self._talk(client, number)) for number in range(clients)]
            rows = []
            with progress(f"{clients} clients", SAMPLES) as step:
                for sample in range(1, SAMPLES + 1):
                    wait = self.began + self.seconds * sample / SAMPLES - time.perf_counter()
                    done, _ = await asyncio.wait(talks, timeout=max(wait, 0), return_when=asyncio.FIRST_EXCEPTION)
                    for failed in done:
                        failed.result()
                    rows.append(await asyncio.to_thread(self._sample))
                    watch()
                    step(1)
            await asyncio.gather(*talks)
        return rows

    def _sample(self) -> dict[str, Any]:
        gc.collect()
        pages = int((PROCESS / "statm").read_text().split()[1])
        store = Path(self.agent.store.path)
        on_disk = sum(file.stat().st_size for file in store.parent.glob(f"{store.name}*"))
        return {
            "seconds": round(time.perf_counter() - self.began, 1),
            "requests": self.requests,
            "rss_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
            "descriptors": len(os.listdir(PROCESS / "fd")),
            "threads": threading.active_count(),
            "store_mb": round(on_disk / 2**20, 2),
            "index_mb": round(self.agent.resources.indexes.nbytes / 2**20, 2),
        }

    async def _talk(self, client: httpx.AsyncClient, number: int) -> None:
        person = f"p{number}"
        headers = {"X-LD-Person": person, "X-LD-Thread": "soak"}
        said = 0
        while time.perf_counter() - self.began < self.seconds:
            text = TEXT.format(n=said)
            body = {"model": "default", "messages": [{"role": "user", "content": text}], "max_tokens": 32}
            said += 1
            self.requests += 1
            if said % 5 == 0:
                await self._streamed(client, body, headers, leaves=said % 10 == 0)
            else:
                await self._asked(client, "POST", "/v1/chat/completions", json=body, headers=headers)
            if said % SESSION == 0:
                await self._asked(client, "GET", f"/v1/memory/people/{person}/recall", params={"text": text})
                await self._asked(client, "GET", f"/people/{person}")
                self.requests += 2
                if number == 0:
                    self.clock.skipped += timedelta(seconds=2 * self.agent.config.memory.beta)

    async def _asked(self, client: httpx.AsyncClient, method: str, path: str, **more: Any) -> None:
        (await client.request(method, path, **more)).raise_for_status()

    async def _streamed(
        self, client: httpx.AsyncClient, body: dict[str, Any], headers: dict[str, str], leaves: bool
    ) -> None:
        """Read a stream to its end, or hang up after its first word."""
        async with client.stream(
            "POST", "/v1/chat/completions", json=body | {"stream": True}, headers=headers
        ) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if leaves and line.startswith("data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                    return
