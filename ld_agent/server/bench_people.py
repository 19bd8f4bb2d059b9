"""``ld-agent bench serve --people``: the cost of requests to a server with many people in one store, over a real
socket.

Each person has two finished sessions, each with a memory and its passages, and a trait. A scripted model answers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.evaluation.bench import machine
from ld_agent.server.bench import SCRIPT, Serving, bench_config
from ld_agent.storage.base import Draft
from ld_agent.terminal import progress

if TYPE_CHECKING:
    import httpx

START = datetime(2024, 1, 1, 12, tzinfo=UTC)
SAID = ("I keep bees in {n}.", "How nice.", "I bought a boat number {n}.", "Congratulations.")
ASKED = 20
"""Number of people per kind of request, spread over the whole store."""


def bench_people(config: Config, counts: Sequence[int]) -> dict[str, Any]:
    """Measure with each number of people.

    Returns:
        ``people``: a row for each number with the median milliseconds of listing the first and a middle page, of finding
        by a part of a name, of the page with everyone, of a person's page, of a person's first message since the server's
        start and of the next one, of a recall, and of one deletion, with ``store_mb``.
    """
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            agent = Agent(bench_config(config, folder), backbone=ScriptedBackbone(SCRIPT), background=True)
            agent.warm_up()
            _fill(agent, count)
            with Serving(agent) as address:
                rows.append({"people": count} | _measured(address, count) | {"store_mb": _megabytes(agent)})
    return {"people": rows, "model": "scripted", "machine": machine()}


def _name(number: int) -> str:
    return f"person{number:06}"


def _megabytes(agent: Agent) -> float:
    path = Path(agent.store.path)
    return round(sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 2**20, 1)


def _fill(agent: Agent, count: int) -> None:
    """Store people as if each had held a conversation."""
    store, encoder = agent.store, agent.encoder
    [vector] = encoder.encode(["They talk about bees and boats."])
    with progress(f"storing {count:,} people", count) as step:
        for begin in range(0, count, 500):
            with store.writing(None):
                for number in range(begin, min(begin + 500, count)):
                    key = store.open_conversation(_name(number), agent.config.agent.name).key
                    shelf = store.shelf(key, "events")
                    shelf.enable()
                    for day in range(2):
                        at = START + timedelta(days=day, minutes=number % 1000)
                        said = [
                            store.append(key, "Ann" if turn % 2 == 0 else "Sam", text.format(n=number), at, 3600, lambda: START)
                            for turn, text in enumerate(SAID)
                        ]  # fmt: skip
                        store.close_session(key)
                        sources = tuple(u.id for u in said)
                        shelf.digest(
                            day + 1, [Draft(f"Ann keeps bees in {number}.", at, day + 1, vector, ("bee",), sources)]
                        )
                        for u in said:
                            store.personas(key).mark_extracted(u.id)
                    store.personas(key).add("Ann", f"I keep bees in {number}.", START, "u1", vector)
            step(min(500, count - begin))


def _measured(address: str, count: int) -> dict[str, float]:
    import httpx

    chosen = [_name(number) for number in range(0, count, max(count // ASKED, 1))][:ASKED]
    with httpx.Client(base_url=address, timeout=600) as client:
        middle = _name(count // 2)

        def chat(person: str) -> httpx.Response:
            body = {"model": "default", "user": person, "messages": [{"role": "user", "content": "Where are my bees?"}]}
            return client.post("/v1/chat/completions", json=body)

        def recall(person: str) -> httpx.Response:
            return client.get(f"/v1/memory/people/{person}/recall", params={"text": "bees"})

        chat(_name(count - 1))  # warms up
        return {
            "list_ms": _median(lambda p: client.get("/v1/memory/people"), chosen),
            "list_middle_ms": _median(lambda p: client.get("/v1/memory/people", params={"after": middle}), chosen),
            "find_ms": _median(lambda p: client.get("/v1/memory/people", params={"containing": p[-4:]}), chosen),
            "page_ms": _median(lambda p: client.get("/"), chosen),
            "person_page_ms": _median(lambda p: client.get(f"/people/{p}"), chosen),
            "first_chat_ms": _median(chat, chosen),
            "chat_ms": _median(chat, chosen),
            "recall_ms": _median(recall, chosen),
            "delete_ms": _median(lambda p: client.delete(f"/v1/memory/people/{p}"), chosen[:3]),
        }


def _median(ask: Callable[[str], httpx.Response], people: Sequence[str]) -> float:
    taken = []
    for person in people:
        began = time.perf_counter()
        ask(person).raise_for_status()
        taken.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(taken), 1)
