"""A real HTTP server on this machine that answers as it is told: plays for the tests of the endpoint backbone."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY = "sk-very-secret-0123456789"


class Stage(ThreadingHTTPServer):
    """Answers each request with the next play; the last one is repeated. ``hung_up`` is set when a client leaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Call)
        self.plays: list[Callable[[Call], None]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.hung_up, self.turn = threading.Event(), threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the play."""


class Call(BaseHTTPRequestHandler):
    server: Stage
    body: dict[str, Any]

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.turn:
            self.server.bodies.append(self.body)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            play = self.server.plays.pop(0) if len(self.server.plays) > 1 else self.server.plays[0]
        play(self)

    def send(self, status: int, body: bytes, content_type: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def wait_until_client_leaves(self) -> None:
        self.connection.recv(1)
        self.server.hung_up.set()

    def log_message(self, *_: Any) -> None:
        pass


def fails(status: int, error: Any = "no", **headers: str) -> Callable[[Call], None]:
    return lambda call: call.send(status, json.dumps({"error": error}).encode(), **headers)


def sends(body: str, content_type: str = "application/json") -> Callable[[Call], None]:
    return lambda call: call.send(200, body.encode(), content_type)


def says(content: Any, finish: str = "stop", **more: Any) -> Callable[[Call], None]:
    message = {"role": "assistant", "content": content}
    return sends(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}))


def echoes(call: Call) -> None:
    says(call.body["messages"][-1]["content"])(call)


def hangs(call: Call) -> None:
    call.wait_until_client_leaves()


def streams(*texts: str, finish: str | None = "stop", usage: Any = None, then: Any = None) -> Callable[[Call], None]:
    def play(call: Call) -> None:
        chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
        if finish:
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if usage:
            chunks.append({"choices": [], "usage": usage})
        call.send(200, "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode(), "text/event-stream")
        if then:
            then(call)
        elif finish:
            call.wfile.write(b"data: [DONE]\n\n")

    return play


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Stage() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
