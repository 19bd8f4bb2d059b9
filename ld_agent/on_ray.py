"""Shares work among the workers of a Ray cluster: the one door to Ray.

`on_ray` takes any work that can be done group by group. Ray reassigns the group of a killed worker, and results arrive
as they complete, so that the caller can keep them and resume. `play_on_ray` plays recorded conversations this way;
`ld_agent.evaluation.runner` and `training.replayed` use it to predict and replay. One worker processes a group exactly
as a single process would.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ld_agent.config import Config, parse_config
from ld_agent.datasets.base import Episode
from ld_agent.errors import ConfigError, InputError, LDAgentError
from ld_agent.files import written_atomically
from ld_agent.replay import PlayedTurn, replay

Line = Callable[[PlayedTurn], str]
G = TypeVar("G")
R = TypeVar("R")


def check_not_launched(command: str) -> None:
    """Refuse to do the same work in each process of ``torchrun`` or ``accelerate launch``.

    Raises:
        InputError: this process is one of several.
    """
    world = os.environ.get("WORLD_SIZE") or "1"
    if world != "1":
        raise InputError(
            f"WORLD_SIZE={world}, but {command} is not shared by torchrun or accelerate; start it once, with --on ray"
        )


def on_ray(work: Callable[[G], R], groups: Mapping[int, G]) -> Iterator[tuple[int, R]]:
    """Do the work of each group on Ray, and yield group numbers and results as they complete.

    Args:
        work: copied to each worker once; its own state, such as models, persists from group to group.
        groups: its arguments, by number.

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be reached.
        LDAgentError: as the work.
    """
    if not groups:
        return
    ray, started = _connected()
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        workers = max(1, min(len(groups), int(ray.cluster_resources().get("CPU", 1))))
        given = [{"group": number, "given": pickle.dumps(group)} for number, group in groups.items()]
        rows = ray.data.from_items(given, override_num_blocks=len(given)).map(
            _Worker, fn_constructor_args=(ray.cloudpickle.dumps(work),), num_cpus=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers, max_tasks_in_flight_per_actor=1),
        )  # fmt: skip
        for row in rows.iter_rows():
            result = pickle.loads(row["result"])  # a worker's own, made a moment ago
            if isinstance(result, LDAgentError):
                raise result
            yield row["group"], result
    finally:
        if started:
            ray.shutdown()


def _connected() -> tuple[Any, bool]:
    """Ray, and whether it was started here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ImportError as exc:
        raise ConfigError("--on ray needs Ray; run: pip install 'ld_agent[ray]'") from exc
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except ConnectionError as exc:
            address = os.environ.get("RAY_ADDRESS", "")
            raise ConfigError(f"no Ray cluster answers at RAY_ADDRESS={address!r}; correct it, or unset it") from exc
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray, started


class _Worker:
    """An actor of Ray.

    It takes the work as bytes, since Ray Data calls a callable argument itself. An error of the work is a result: Ray would
    wrap it in tracebacks and do the group again.
    """

    def __init__(self, work: bytes) -> None:
        self._work: Callable[[Any], Any] = pickle.loads(work)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            result = self._work(pickle.loads(row["given"]))
        except LDAgentError as exc:
            result = _portable(exc)
        return {"group": row["group"], "result": pickle.dumps(result)}


def _portable(exc: LDAgentError) -> LDAgentError:
    """The error itself, or one of its text where it cannot be sent between processes."""
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:
        return LDAgentError(str(exc))
    return exc


@dataclass
class _Player:
    """Plays a group with a fresh agent, so that nothing is remembered from one group to the next."""

    config: dict[str, Any]
    teacher_forced: bool
    line: Line
    loaded: dict[str, Any] = field(default_factory=dict)

    def __call__(self, episodes: Sequence[Episode]) -> str:
        from ld_agent.agent import Agent

        lines: list[str] = []
        with Agent(parse_config(self.config), **self.loaded) as agent:
            self.loaded = {"encoder": agent.encoder, "topics": agent.topics}
            for _ in replay(
                agent,
                episodes,
                lambda turn: lines.append(self.line(turn)),
                teacher_forced=self.teacher_forced,
                width=len(episodes),
            ):
                pass
        return "".join(line + "\n" for line in lines)


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

    The lines of each group are kept in a separate file until all groups are done; an interrupted run plays only what is
    missing.

    Args:
        line: the text of a turn; it must be importable where the workers run.
        advanced: called with the number of conversations of each group that is done.

    Raises:
        InputError: the files left next to ``out`` by an interrupted run belong to another run.
        ConfigError, LDAgentError: as in `on_ray`.
    """
    groups = [list(episodes[start : start + batch]) for start in range(0, len(episodes), batch)]
    folder = out.with_name(out.name + ".parts")
    _prepare(folder, _plan(config, episodes, teacher_forced, batch))
    waiting = {}
    for number, group in enumerate(groups):
        if _part(folder, number).is_file():
            advanced(len(group))
        else:
            waiting[number] = group
    for number, lines in on_ray(_Player(config.model_dump(mode="json"), teacher_forced, line), waiting):
        with written_atomically(_part(folder, number)) as part:
            part.write(lines)
        advanced(len(groups[number]))
    with written_atomically(out) as whole:
        for number in range(len(groups)):
            whole.write(_part(folder, number).read_text(encoding="utf-8"))
    shutil.rmtree(folder)


def _plan(config: Config, episodes: Sequence[Episode], teacher_forced: bool, batch: int) -> str:
    """A hash of everything the parts of a run depend on."""
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
