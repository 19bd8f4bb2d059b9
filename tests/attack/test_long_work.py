"""A server that works for long: its memory does not grow with the turns."""

import os
from pathlib import Path

import pytest
from server_parts import Client, Served

TURNS, PERIOD = 8_000, 1_000
LEAK = 2_048
"""Bytes that a turn may leave behind; the interpreter's own memory is given back in pieces."""


@pytest.mark.anyio
@pytest.mark.timeout(1800)
async def test_memory_does_not_grow_with_the_turns(served: Served, whole: bool) -> None:
    """People come, talk and are deleted; the first periods fill what is kept of a bounded number."""
    if not whole:
        pytest.skip("in the whole programme")
    sizes = list[int]()
    script = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "They talked."}
    async with served(script, **{"server.rate": 1_000_000}) as client:
        for turn in range(TURNS):
            await _come_and_go(client, turn)
            client.backbone.requests.clear()
            if turn % PERIOD == PERIOD - 1:
                sizes.append(_resident())
    grown = sizes[-1] - sizes[2]
    assert grown / (TURNS - 3 * PERIOD) < LEAK, sizes


async def _come_and_go(client: Client, turn: int) -> None:
    person = f"p{turn // 5}"
    assert (await client.chat(f"I keep {turn} bees.", person=person)).status_code == 200
    if turn % 5 == 4:
        assert (await client.delete(f"/v1/memory/people/{person}")).status_code in (200, 204)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
