"""Conversations played on Ray: the lines of one process in its order, whoever was killed in between."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import ray_shared
import yaml

from ld_agent.config import Config
from ld_agent.datasets.base import Episode
from ld_agent.evaluation import runner
from ld_agent.running import on_ray
from ld_agent.running.on_ray import _plan, _shares, play_on_ray


@pytest.mark.slow
def test_conversations_played_on_ray_are_as_in_one_process(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'ld_agent[ray]'")
    script = Path(__file__).with_name("ray_run.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert [json.loads(line)["conversation"] for line in said["ray"]] == ["ann", "ann", "ben", "ben"]
    assert said["ray"] == said["here"]
    assert sum(said["done"]) == 2
    assert said["left"] == []
    assert said["taken"] == 40
    assert said["ahead"] <= (os.cpu_count() or 1)  # the input is read as workers become free


def test_a_worker_has_the_threads_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    assert _shares([16, 9, 2]) == (4, 6)
    assert _shares([2, 1]) == (2, 1)  # no machine has four cores
    assert _shares([]) == (1, 1)


def test_a_driver_that_was_killed_plays_only_what_has_no_part_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, episodes, out = Config(), [Episode(name, "Sam", ()) for name in "abc"], tmp_path / "out.jsonl"
    folder = tmp_path / f"out.jsonl.{_plan(config, episodes, False, 1)[0][:16]}"
    folder.mkdir()
    (folder / "00000001.jsonl").write_text("b\n")
    asked: list[int] = []

    def done(work: object, groups: Iterable[tuple[int, list[Episode]]]) -> list[tuple[int, str]]:
        asked.extend(number for number, _ in groups)
        return [(n, f"{'abc'[n]}\n") for n in (2, 0)]

    monkeypatch.setattr(on_ray, "on_ray", done)
    play_on_ray(config, lambda: episodes, out, str, teacher_forced=False, batch=1, advanced=lambda count: None)
    assert asked == [0, 2]
    assert out.read_text() == "a\nb\nc\n"
    assert not folder.exists()


@pytest.mark.slow
def test_whoever_is_killed_the_file_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'ld_agent[ray]'")
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(talk(f"talk{n}")) + "\n" for n in range(4)))
    here, shared = tmp_path / "here", tmp_path / "shared"
    here.mkdir()
    shared.mkdir()
    file = "run/predictions.jsonl"
    (shared / "kill").touch()
    assert _shared(shared, "ray").returncode == -signal.SIGKILL
    asked = (shared / "asked").read_text().split()
    keys = [line.get("episode") for line in map(json.loads, (shared / file).read_text().splitlines())]
    whole = [name for name in ("talk0", "talk1", "talk3") if keys.count(name) == 4]
    assert whole
    again = _shared(shared, "ray")
    assert again.returncode == 0, again.stderr[-2000:]
    assert (shared / "killed").exists()
    later = [name.rpartition("/")[2] for name in (shared / "asked").read_text().split()[len(asked) :]]
    assert later.count("talk2") == 2  # once by the worker that was killed
    assert not set(later) & set(whole)
    monkeypatch.setattr(runner, "GROUP", runner.GROUP)  # which the script sets for itself
    ray_shared.main(here, "")
    assert (shared / file).read_bytes() == (here / file).read_bytes()
    assert (here / file).stat().st_size > 1000


def talk(name: str) -> dict[str, object]:
    """A conversation of two sessions."""
    said = (("Maya", f"I paint {name}."), ("Sam", "How nice."), ("Maya", "It has boats."), ("Sam", "I like boats."))
    sessions = [
        [
            {"speaker": speaker, "text": text, "at": f"2024-05-0{day}T10:0{n}:00Z"}
            for n, (speaker, text) in enumerate(said)
        ]
        for day in (1, 4)
    ]
    return {"id": name, "agent": "Sam", "sessions": sessions}


def _shared(folder: Path, *on: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("ray_shared.py")
    return subprocess.run(
        [sys.executable, str(script), str(folder), *on], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip


def test_the_shipped_configs_are_ones_that_ray_takes() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config
    from ray.data.llm import vLLMEngineProcessorConfig

    folder = Path(__file__).parent.parent / "configs" / "ray"
    cluster, vllm = (yaml.safe_load((folder / name).read_text()) for name in ("cluster.yaml", "vllm.yaml"))
    validate_config(prepare_config(cluster))
    given = vLLMEngineProcessorConfig(**vllm).model_dump()
    assert {name: given[name] for name in vllm if name != "engine_kwargs"} | {
        "engine_kwargs": vllm["engine_kwargs"]
    } == vllm
    assert vllm["engine_kwargs"].items() <= given["engine_kwargs"].items()
