"""A real ``ld-agent serve`` for tests: a process on a free port, asked over HTTP."""

import random
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from cli_commands import EXECUTABLE, environment


def free_port() -> int:
    """A port that nobody listens on, below those that systems give to outgoing connections, which could take it meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port


class ServerProcess:
    """A server that runs while inside the context.

    Args:
        options: of ``ld-agent serve``, but its port.
        folder: where its log goes.
    """

    def __init__(self, *options: object, folder: Path) -> None:
        self.port = free_port()
        self.url, self.log = f"http://127.0.0.1:{self.port}", folder / "serve.log"
        self._options = [str(option) for option in options]
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [EXECUTABLE, "serve", "--port", str(self.port), *self._options],
                stdout=log, stderr=log, env=environment(OMP_NUM_THREADS="1"),
            )  # fmt: skip
        while process.poll() is None:
            try:
                if self.http.get("/readyz").status_code == 200:
                    return process
            except httpx.TransportError:
                pass
        raise AssertionError(self.log.read_text())

    def restart(self, how: signal.Signals) -> int:
        """End the process by a signal and start it again; returns how it ended."""
        self.process.send_signal(how)
        ended = self.process.wait(60)
        self.process = self._start()
        return ended

    def post(self, path: str, body: Any, **headers: str) -> Any:
        response = self.http.post(path, json=body, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    def chat(self, text: str, person: str, **headers: str) -> str:
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], "user": person}
        content: str = self.post("/v1/chat/completions", body, **headers)["choices"][0]["message"]["content"]
        return content

    @property
    def model(self) -> str:
        name: str = self.http.get("/v1/models").json()["data"][0]["id"]
        return name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.http.close()
