"""Many streams at once whose clients read slowly, read nothing or hang up in the middle: all is kept, and others are served."""

import json
import os
import re
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from server_parts import Serving

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone

STREAMS, QUICK = 200, 24
SLOW, HANGING_UP, NOT_READING = range(3)
"""What a third of the clients does each."""
PIECES = 1_500
"""Words of a reply, in events of a hundred kilobytes."""
AT_ONCE = 4_096
"""Bytes that a slow client reads at a time."""
THREADS = 64
"""More than all that a server starts, and fewer than the streams."""
WAITING = 300
"""Seconds for a reply in the queue of the one model, behind all the others."""
GROWTH = 2**20
"""Bytes that a stream may take while nobody reads it: its reply, and no more."""
REPLY = " ".join(f"bee{number}" for number in range(PIECES)) + "."


class Stream:
    """A person who asks and reads as told, over a socket that takes little."""

    def __init__(self, address: str, number: int) -> None:
        self.person, self.kind, self.received = f"p{number}", number % 3, b""
        where = urlsplit(address)
        self.socket = socket.socket()
        if self.kind == NOT_READING:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AT_ONCE)  # others wait for the system's timers
        self.socket.settimeout(60)
        self.socket.connect((where.hostname, where.port))
        asked = {"role": "user", "content": f"I keep {number} bees."}
        body = json.dumps({"model": "default", "user": self.person, "messages": [asked], "stream": True})
        self.socket.sendall(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )

    def step(self) -> bool:
        """Read a little, or hang up once there is something; whether this one goes on."""
        part = self.socket.recv(AT_ONCE)
        self.received += part
        if self.kind == HANGING_UP and b"bee7" in self.received:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            part = b""
        if not part:
            self.socket.close()
        return bool(part)

    @property
    def reply(self) -> str:
        """What was received of it."""
        lines = re.findall(rb"^data: ({.*})\r?$", self.received, re.MULTILINE)
        return "".join(json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines)


@pytest.fixture
def serving(config: Callable[..., object], encoder, topics) -> Iterator[tuple[str, Agent, Serving]]:
    """A server that has room for all of them, and a model whose replies differ by person."""

    def answer(request: Request) -> str:
        return f"{re.findall(r'[0-9]+', request.messages[-1].content)[-1:]} {REPLY}"

    script = {"generator": answer, "extractor": "NO_TRAIT", "summarizer": "They talked."}
    settings = {"server.concurrency": 2 * STREAMS, "server.rate": 1_000_000, "server.patience": 5.0}
    settings |= {"modules.generator.max_new_tokens": 2 * PIECES}
    backbone = ScriptedBackbone(script, context_window=10 * PIECES)
    agent = Agent(config(**settings), backbone=backbone, encoder=encoder, topics=topics, background=True)
    with (behind := Serving(agent)) as address:
        yield address, agent, behind


def test_slow_and_leaving_clients_of_many_streams_lose_nothing_and_hold_up_nobody(serving, whole: bool) -> None:
    address, agent, behind = serving
    count = STREAMS if whole else QUICK
    with httpx.Client(base_url=address, timeout=60) as http, ThreadPoolExecutor(1) as pool:
        assert said(http, "first", "Hello.") == 200  # loads what is loaded once
        threads, memory = threading.active_count(), resident()
        streams = [Stream(address, number) for number in range(count)]
        others = [pool.submit(said, http, "another", f"And now {number}?") for number in range(3)]
        most_threads, most_memory, at_once, rounds = 0, 0, 0, 0
        going = [stream for stream in streams if stream.kind != NOT_READING]
        while going:
            ready = set(select.select([stream.socket for stream in going], [], [], 1)[0])
            going = [stream for stream in going if stream.socket not in ready or stream.step()]
            rounds += 1
            if rounds % 50 == 1:
                assert http.get("/v1/memory/people").status_code == 200
                at_once = max(at_once, int(re.search(r"turns_at_once (\d+)", http.get("/metrics").text)[1]))
            most_threads, most_memory = max(most_threads, threading.active_count()), max(most_memory, resident())
        assert [done.result() for done in others] == [200] * 3
        until(lambda: "turns_at_once 0" in http.get("/metrics").text)
        until(lambda: len(behind.server.server_state.connections) <= 1)  # who does not read is cut off
    assert at_once > count / 2
    assert most_threads - threads < THREADS
    assert most_memory - memory < count * GROWTH + 2**26
    for stream in streams:
        stream.socket.close()
        found = agent.store.find_conversation(stream.person)
        kept = agent.store.utterances(found.key)
        assert [u.text for u in kept[:1]] == [f"I keep {stream.person[1:]} bees."]
        assert len(kept) == 2
        whole_reply = f"[{stream.person[1:]!r}] {REPLY}"
        assert whole_reply.startswith(kept[1].text)
        assert kept[1].interrupted or kept[1].text == whole_reply
        if stream.kind == SLOW:
            assert stream.received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            assert stream.reply == kept[1].text == whole_reply


def said(http: httpx.Client, person: str, text: str) -> int:
    body = {"model": "default", "user": person, "messages": [{"role": "user", "content": text}]}
    return http.post("/v1/chat/completions", json=body, timeout=WAITING).status_code


def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it does not come to rest")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
