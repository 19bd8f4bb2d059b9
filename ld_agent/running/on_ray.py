"""Shares work among the workers of a Ray cluster. Nothing else imports Ray.

`on_ray` accepts any work that can be done group by group. Groups are assigned as workers become free, so that the input
need not fit in memory. A worker has as many threads as this process, since another number rounds differently. Ray repeats
the group of a killed worker, and results arrive as they complete, so that the caller can store them and resume.
`play_on_ray` plays recorded conversations this way, and `ld_agent.evaluation.runner` predicts. A worker processes a group
exactly as a single process does.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from ld_agent.agent import Agent
from ld_agent.config import Config, parse_config
from ld_agent.datasets.base import Episode
from ld_agent.errors import ConfigError, InputError, LDAgentError
from ld_agent.files import write_text, written_atomically
from ld_agent.running.replay import PlayedTurn, replay

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


def on_ray(work: Callable[[G], R], groups: Iterable[tuple[int, G]]) -> Iterator[tuple[int, R]]:
    """Do the work of each group on Ray, and yield group numbers and results as they complete.

    Args:
        work: copied to each worker once; its own state, such as models, persists from group to group.
        groups: numbers and arguments; at most one per worker is taken in advance.

    Raises:
        ConfigError: Ray is not installed, or the cluster cannot be reached.
        LDAgentError: as the work.
    """
    waiting = iter(groups)
    first = next(waiting, None)
    if first is None:
        return
    ray, started = _connected()
    try:
        threads, workers = _shares([node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]])
        actor = ray.remote(num_cpus=threads, max_restarts=-1, max_task_retries=-1)(_Worker)
        copied = ray.cloudpickle.dumps(work)
        busy: dict[Any, tuple[int, Any]] = {}
        for number, group in islice(chain([first], waiting), workers):
            worker = actor.remote(copied, threads)
            busy[worker.do.remote(pickle.dumps(group))] = number, worker
        while busy:
            [done], _ = ray.wait(list(busy), num_returns=1)
            number, worker = busy.pop(done)
            result = pickle.loads(ray.get(done))  # created by our own worker
            if isinstance(result, LDAgentError):
                raise result
            if (following := next(waiting, None)) is not None:
                busy[worker.do.remote(pickle.dumps(following[1]))] = following[0], worker
            yield number, result
    finally:
        if started:
            ray.shutdown()


def _shares(cores: Sequence[float]) -> tuple[int, int]:
    """The threads per worker and the number of workers, given the cores of each machine. A worker has as many threads as this
    process (OMP_NUM_THREADS, else one per core), limited to the cores of the largest machine."""
    import torch

    threads = max(1, min(torch.get_num_threads(), int(max(cores, default=1))))
    return threads, max(1, sum(int(count) // threads for count in cores))


def _connected() -> tuple[Any, bool]:
    """Ray, and whether it was started here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as exc:
        raise ConfigError("--on ray needs Ray; run: pip install 'ld_agent[ray]'") from exc
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except ConnectionError as exc:
            address = os.environ.get("RAY_ADDRESS", "")
            raise ConfigError(f"no Ray cluster answers at RAY_ADDRESS={address!r}; correct it, or unset it") from exc
    return ray, started


class _Worker:
    """An actor of Ray. An error of the work is a result, because Ray would wrap it in tracebacks."""

    def __init__(self, work: bytes, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._work: Callable[[Any], Any] = pickle.loads(work)

    def do(self, group: bytes) -> bytes:
        """The pickled result of the work on a pickled group."""
        try:
            result = self._work(pickle.loads(group))
        except LDAgentError as exc:
            result = _portable(exc)
        return pickle.dumps(result)


def _portable(exc: LDAgentError) -> LDAgentError:
    """The error itself, or one with its text if it cannot be sent between processes."""
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
    episodes: Callable[[], Iterable[Episode]],
    out: Path,
    line: Line,
    *,
    teacher_forced: bool,
    batch: int,
    counted: Callable[[int], None] = lambda total: None,
    advanced: Callable[[int], None],
) -> None:
    """Play episodes in groups of ``batch`` and write the lines of all, in order, to ``out``. The lines of each group are kept
    in a file of their own until all are done, in a folder named after data and config; an interrupted run plays only what
    is missing.

    Args:
        episodes: reads the episodes from the beginning: once to recognize an interrupted run, once to play them.
        line: the text of a turn; it must be importable where the workers run.
        counted, advanced: called with the number of conversations, of all and of each group that is done.

    Raises:
        InputError: two episodes share an id, or the files cannot be written.
        ConfigError, LDAgentError: as in `on_ray`.
    """
    plan, total = _plan(config, episodes(), teacher_forced, batch)
    counted(total)
    folder = out.with_name(f"{out.name}.{plan[:16]}")
    folder.mkdir(parents=True, exist_ok=True)
    parts = [folder / f"{number:08}.jsonl" for number in range(-(-total // batch))]

    def waiting() -> Iterator[tuple[int, list[Episode]]]:
        source = iter(episodes())
        for number, part in enumerate(parts):
            group = list(islice(source, batch))
            if part.is_file():
                advanced(len(group))
            else:
                yield number, group

    for number, lines in on_ray(_Player(config.model_dump(mode="json"), teacher_forced, line), waiting()):
        write_text(parts[number], lines)
        advanced(min(batch, total - number * batch))
    with written_atomically(out) as whole:
        whole.writelines(part.read_text(encoding="utf-8") for part in parts)
    shutil.rmtree(folder)


def _plan(config: Config, episodes: Iterable[Episode], teacher_forced: bool, batch: int) -> tuple[str, int]:
    """A hash of everything the parts of a run depend on, and the number of episodes."""
    whole, ids = hashlib.sha256(), set[str]()
    whole.update(json.dumps([config.model_dump(mode="json"), teacher_forced, batch], sort_keys=True).encode())
    for e in episodes:
        if e.id in ids:
            raise InputError(f"two episodes have the id {e.id!r}; ids must be unique")
        ids.add(e.id)
        said = [e.id, e.agent, [[t.speaker, t.text, t.at.isoformat()] for t in e.turns]]
        whole.update(json.dumps(said).encode())
    return whole.hexdigest(), len(ids)
