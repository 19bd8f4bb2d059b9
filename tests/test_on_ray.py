"""Conversations played on Ray: the lines of one process in its order, whoever was killed in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ld_agent import on_ray
from ld_agent.config import Config
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.on_ray import _part, _plan, _prepare, play_on_ray


@pytest.mark.slow
def test_a_killed_worker_s_conversations_are_played_again_and_all_is_as_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'ld_agent[ray]'")
    script = Path(__file__).with_name("ray_run.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert (tmp_path / "killed").exists()
    assert [json.loads(line)["conversation"] for line in said["ray"]] == ["ann", "ann", "ben", "ben"]
    assert said["ray"] == said["here"]
    assert sum(said["done"]) == 2
    assert said["left"] == []


def test_a_driver_that_was_killed_plays_only_what_has_no_part_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, episodes, out = Config(), [Episode(name, "Sam", ()) for name in "abc"], tmp_path / "out.jsonl"
    folder = tmp_path / "out.jsonl.parts"
    _prepare(folder, _plan(config, episodes, False, 1))
    _part(folder, 1).write_text("b\n")
    asked: list[int] = []

    def played(config: Config, waiting: list[dict[str, int]], forced: bool, line: object) -> list[dict[str, object]]:
        asked.extend(row["group"] for row in waiting)
        return [{"group": n, "lines": f"{'abc'[n]}\n"} for n in (2, 0)]

    monkeypatch.setattr(on_ray, "_played", played)
    play_on_ray(config, episodes, out, str, teacher_forced=False, batch=1, advanced=lambda count: None)
    assert asked == [0, 2]
    assert out.read_text() == "a\nb\nc\n"
    assert not folder.exists()


def test_parts_of_another_run_are_refused_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "out.jsonl.parts"
    _prepare(folder, "one")
    with pytest.raises(InputError, match="left by a run of other data or another config"):
        play_on_ray(
            Config(), [], tmp_path / "out.jsonl", str, teacher_forced=False, batch=1, advanced=lambda count: None
        )
    assert (folder / "plan").read_text() == "one"
