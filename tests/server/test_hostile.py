"""Clients over a real socket that are slow, that leave, or that send too much: each is told so, and nobody else waits for it."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from agent_parts import START, confessed, echo, remembered, retold
from server_parts import Serving

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import ReplyStopped
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.server import run

Serve = Callable[..., object]
ASKED = {"model": "default", "user": "ann", "messages": [{"role": "user", "content": "I keep bees."}]}


class Raw:
    """One connection, byte by byte."""

    def __init__(self, address: str, buffer: int | None = None) -> None:
        where = urlsplit(address)
        self._socket = socket.socket()
        self._socket.settimeout(30)
        if buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.connect((where.hostname, where.port))

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def received_until(self, end: str, at_once: int = 65536) -> str:
        text = ""
        while not text.endswith(end):
            text += self._socket.recv(at_once).decode()
        return text

    def answer(self) -> str:
        """Everything the server sends until it closes the connection."""
        parts = []
        while part := self._socket.recv(65536):
            parts.append(part)
        self._socket.close()
        return b"".join(parts).decode()


@pytest.fixture
def serve(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> Serve:
    """Serve an agent on a socket: ``with serve(generator=…, **{"server.patience": 0.2}) as (http, address, agent)``."""

    @contextmanager
    def serving(
        generator: Callable[[Request], str] = echo, **settings: object
    ) -> Iterator[tuple[httpx.Client, str, Agent]]:
        script = {"generator": generator, "summarizer": retold, "extractor": confessed, "memory": remembered}
        agent = Agent(
            config(**settings), backbone=ScriptedBackbone(script), encoder=encoder, topics=topics, background=True
        )
        serving.server = (behind := Serving(agent)).server
        with behind as address, httpx.Client(base_url=address, timeout=60) as http:
            yield http, address, agent

    return serving


def said(agent: Agent) -> list[str]:
    found = agent.store.find_conversation("ann")
    return [] if found is None else [u.text for u in agent.store.utterances(found.key)]


def head(length: int, path: str = "/v1/chat/completions") -> str:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )


@pytest.mark.parametrize("sent", ["", "{", '{"model": "default"'], ids=["nothing", "a byte", "a part"])
def test_a_slow_body_is_given_up_with_408(serve, sent: str):
    with serve(**{"server.patience": 0.2}) as (http, address, agent):
        slow = Raw(address)
        slow.send(head(1000) + sent)
        answer = slow.answer()
        assert answer.startswith("HTTP/1.1 408 ")
        assert json.loads(answer.partition("\r\n\r\n")[2])["error"]["code"] == "too_slow"
        assert http.post("/v1/chat/completions", json=ASKED).status_code == 200
        assert len(said(agent)) == 2


@pytest.mark.parametrize("sent", ["", "GET / HT", "GET / HTTP/1.1\r\nHost: local"], ids=["nothing", "a line", "a head"])
def test_who_sends_no_whole_head_is_cut_off(serve, sent: str):
    with serve(**{"server.patience": 0.2}) as (http, address, _):
        slow = Raw(address)
        slow.send(sent)
        assert slow.answer() == ""
        kept = Raw(address)  # after a whole request, the connection waits for the next head no longer
        kept.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.received_until("}").startswith("HTTP/1.1 200 ")
        kept.send(sent or "G")
        assert kept.answer() == ""
        assert http.get("/healthz").status_code == 200


def test_who_does_not_read_an_answer_is_cut_off(serve):
    with serve(**{"server.patience": 0.5}) as (http, address, agent):
        key = agent.store.open_conversation("ann", "Sam").key
        with agent.store.writing(key):
            for _ in range(60):
                agent.store.append(key, "Ann", "bees " * 40_000, START, 3600, lambda: START)
        reader = Raw(address, buffer=4096)
        reader.send("GET /v1/memory/people/ann/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reader.received_until("\n", at_once=1).startswith("HTTP/1.1 200 ")
        open_to = serve.server.server_state.connections
        for _ in range(1000):
            if not open_to:
                break
            threading.Event().wait(0.02)
        assert not open_to
        assert http.get("/v1/memory/people/ann/export").text.count("bees") == 60 * 40_000


def test_a_slow_model_is_waited_for(serve):
    """The limit is on what clients send, and not on what they wait for."""
    go_on = threading.Event()

    def slow(request: Request) -> str:
        assert go_on.wait(30)
        return "At last."

    with serve(slow, **{"server.patience": 0.2}) as (http, _, _):
        threading.Timer(0.5, go_on.set).start()
        assert http.post("/v1/chat/completions", json=ASKED).json()["choices"][0]["message"]["content"] == "At last."


def test_a_body_without_end_is_refused(serve):
    def endless() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 1_000_000

    with serve() as (http, _, _):
        refused = http.post("/v1/chat/completions", content=endless(), headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body_too_large")
        assert http.post("/v1/chat/completions", json=ASKED).status_code == 200


def test_who_leaves_a_stream_ends_the_reply_and_what_was_said_stays(serve):
    ended = threading.Event()

    def talkative(request: Request) -> str:
        assert request.on_text is not None
        try:
            for _ in range(3000):
                request.on_text("bees ")
                ended.wait(0.01)
        except ReplyStopped:
            ended.set()
            raise
        raise AssertionError("nobody listens, and yet the reply continues")

    with serve(talkative, **{"server.concurrency": 1}) as (http, _, agent):
        with http.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as answer:
            next(line for line in answer.iter_lines() if "bees" in line)
        assert ended.wait(30)
        again = {**ASKED, "messages": [{"role": "user", "content": "Go on."}], "stream": True}
        while http.get("/metrics").text.splitlines().count("ld_agent_turns_at_once 0") == 0:
            pass  # its place is given back once what was said is stored
        with http.stream("POST", "/v1/chat/completions", json=again) as answer:
            assert answer.status_code == 200
            next(line for line in answer.iter_lines() if "bees" in line)
        explained = agent.store.utterances(agent.store.find_conversation("ann").key)
        assert explained[0].text == "I keep bees."
        assert set(explained[1].text.split()) == {"bees"}


@pytest.mark.parametrize("hangs", [False, True])
def test_a_stop_request_ends_every_reply_in_time(monkeypatch: pytest.MonkeyPatch, serve, hangs: bool):
    """A reply that goes on ends where it is once the grace is over; a model that hangs is left alone."""
    monkeypatch.setattr(run, "CLEARING", 0.2 if hangs else 60)
    go_on, left = threading.Event(), threading.Event()

    def generator(request: Request) -> str:
        assert request.on_text is not None
        request.on_text("bees ")
        if hangs:
            assert go_on.wait(30)
        while True:
            request.on_text("bees ")
            go_on.wait(0.01)

    with serve(generator) as (http, _, agent):
        with http.stream("POST", "/v1/chat/completions", json=ASKED | {"stream": True}) as answer:
            lines = answer.iter_lines()
            next(line for line in lines if "bees" in line)
            stopping = run.Stopping(serve.server, 0.1, left.set)
            stopping.request()
            if hangs:
                assert left.wait(30)
                go_on.set()
            assert [line for line in lines if line][-1] == "data: [DONE]"
            stopping.cancel()
        assert agent.store.utterances(agent.store.find_conversation("ann").key)[1].interrupted


def test_who_hangs_up_before_the_answer_loses_nothing(serve):
    begun, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> str:
        begun.set()
        assert go_on.wait(30)
        return "At last."

    with serve(slow) as (http, address, agent):
        body = json.dumps(ASKED)
        impatient = Raw(address)
        impatient.send(head(len(body)) + body)
        assert begun.wait(30)
        impatient._socket.close()
        go_on.set()
        assert http.post(
            "/v1/chat/completions", json=ASKED | {"messages": [{"role": "user", "content": "Well?"}]}
        ).is_success
        assert said(agent) == ["I keep bees.", "At last.", "Well?", "At last."]
