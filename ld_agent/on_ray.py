"""Plays recorded conversations on a Ray cluster: actors that hold an agent each, and a file for each group they have played.

Knows Ray and files; what a conversation is played with stands in `ld_agent.replay`. A group of conversations is played side
by side by one actor, exactly as one process plays them. Ray gives the group of a killed actor to another one. A killed driver
resumes: groups whose file is there are not played again, and the files become one output in order when all are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ld_agent.config import Config, parse_config
from ld_agent.datasets.base import Episode
from ld_agent.errors import ConfigError, InputError
from ld_agent.files import written_atomically
from ld_agent.replay import PlayedTurn, replay

Line = Callable[[PlayedTurn], str]


class _Player:
    """An actor: one agent for each group, so that nothing is remembered from one group to the next, over the same models."""

    def __init__(self, config: dict[str, Any], teacher_forced: bool, line: Line) -> None:
        self._config, self._teacher_forced, self._line = parse_config(config), teacher_forced, line
        self._loaded: dict[str, Any] = {}

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        from ld_agent.agent import Agent

        episodes: Sequence[Episode] = pickle.loads(row["episodes"])  # the driver's own, made a moment ago
        lines: list[str] = []
        with Agent(self._config, **self._loaded) as agent:
            self._loaded = {"encoder": agent.encoder, "topics": agent.topics}
            for _ in replay(
                agent,
                episodes,
                lambda turn: lines.append(self._line(turn)),
                teacher_forced=self._teacher_forced,
                width=len(episodes),
            ):
                pass
        return {"group": row["group"], "lines": "".join(line + "\n" for line in lines)}


def play_on_ray(
    config: Config,
    episodes: Sequence[Episode],
    out: Path,
    line: Line,
    *,
    teacher_forced: bool,
    batch: int,
    advanced: Callable[[int], None],
) -> None:
    """Play episodes in groups of ``batch`` and write the lines of all, in order, to ``out``.

    Args:
        line: the text of a turn; it must be importable where the actors run.
        advanced: called with the number of conversations of each group that is done.

    Raises:
        ConfigError: Ray is not installed.
        InputError: what an interrupted run left next to ``out`` is of another run.
    """
    groups = [episodes[start : start + batch] for start in range(0, len(episodes), batch)]
    folder = out.with_name(out.name + ".parts")
    _prepare(folder, _plan(config, episodes, teacher_forced, batch))
    waiting = []
    for number, group in enumerate(groups):
        if _part(folder, number).is_file():
            advanced(len(group))
        else:
            waiting.append({"group": number, "episodes": pickle.dumps(list(group))})
    if waiting:
        for row in _played(config, waiting, teacher_forced, line):
            with written_atomically(_part(folder, row["group"])) as part:
                part.write(row["lines"])
            advanced(len(groups[row["group"]]))
    with written_atomically(out) as whole:
        for number in range(len(groups)):
            whole.write(_part(folder, number).read_text(encoding="utf-8"))
    shutil.rmtree(folder)


def _played(config: Config, waiting: list[dict[str, Any]], teacher_forced: bool, line: Line) -> Any:
    """The rows that the actors return, as they come."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as exc:
        raise ConfigError("--on ray needs Ray; run: pip install 'ld_agent[ray]'") from exc
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        workers = max(1, min(len(waiting), int(ray.cluster_resources().get("CPU", 1))))
        rows = ray.data.from_items(waiting, override_num_blocks=len(waiting)).map(
            _Player, fn_constructor_args=(config.model_dump(mode="json"), teacher_forced, line), num_cpus=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers, max_tasks_in_flight_per_actor=1),
        )  # fmt: skip
        yield from rows.iter_rows()
    finally:
        if started:
            ray.shutdown()


def _plan(config: Config, episodes: Sequence[Episode], teacher_forced: bool, batch: int) -> str:
    """What the parts of a run depend on, as a hash."""
    said = [[e.id, e.agent, [[t.speaker, t.text, t.at.isoformat()] for t in e.turns]] for e in episodes]
    whole = [config.model_dump(mode="json"), said, teacher_forced, batch]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _prepare(folder: Path, plan: str) -> None:
    mark = folder / "plan"
    if mark.is_file() and mark.read_text(encoding="utf-8") != plan:
        raise InputError(
            f"{folder} was left by a run of other data or another config; delete it, or give another --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with written_atomically(mark) as file:
        file.write(plan)


def _part(folder: Path, number: int) -> Path:
    return folder / f"{number:08}.jsonl"
