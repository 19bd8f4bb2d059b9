"""Runs: what a configuration predicts for a file of data, kept line by line, to be scored now or another day.

A run is a folder. Its ``predictions.jsonl`` (with several processes also ``predictions.1.jsonl`` …) holds JSON objects:

- ``{"run": {"format": 1, "task", "name", "data", "data_sha256", "config", "hash"}}``, the first line: ``task`` is
  extraction, summary or response, ``name`` the config's, ``data`` the file's path as given, ``config`` all of its keys;
- ``{"started": {"limit", "predictions"}}``, whenever work begins: how many predictions there are to be, all processes
  together; ``limit`` counts episodes, null is all;
- ``{"key", "episode", "session", "references": […], "prediction", …}``, one a prediction, in the order in which they were
  made; a key that comes again replaces what it said before. Further keys are the task's: ``speaker`` and ``text`` of
  the utterance, ``traits`` (extraction, a list), ``fallback`` (summary), ``turn``, ``nats`` and ``tokens`` of the reference
  (response);
- ``{"finished": {"limit", "predictions"}}``, once all of them are there.

Beside it ``scores.json`` is what was scored last. The hash is over the task, the data's bytes and all of the configuration
that has a part in the predictions, with the adapters' files and the prompts. A run that was broken off goes on; one of
another hash is refused. Several processes (``accelerate launch``) share the episodes. Knows no metric and no model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from ld_agent.config import Config
from ld_agent.errors import InputError
from ld_agent.evaluation.run_files import (
    PREDICTIONS,
    SCORES,
    Item,
    Lines,
    Prediction,
    Run,
    line_of,
    missing,
    prediction_of,
    read_run,
    runs_under,
    values_of,
    write_scores,
)

__all__ = [
    "SCORES",
    "Item",
    "Keep",
    "Prediction",
    "Run",
    "Task",
    "describe",
    "missing",
    "perform",
    "progress",
    "read_run",
    "runs_under",
    "write_scores",
]

FORMAT = 1
Advance = Callable[[int], None]


Keep = Callable[[Item, str, Mapping[str, Any]], None]


class Task(Protocol):
    """What is predicted.

    Attributes:
        name: as on the command line.
        items: what there is to predict, in the data's order.
        prompts: names of the prompt files that have a part in it; "*" in them as in a file name.
    """

    name: str

    @property
    def items(self) -> Sequence[Item]: ...

    @property
    def prompts(self) -> Sequence[str]: ...

    def settings(self, config: Config) -> Mapping[str, Any]:
        """The part of a configuration that predictions depend on; modules that take part stand in it by name, at its top
        or under ``modules``.
        """
        ...

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        """Make predictions and hand each to ``keep`` with its further keys, soon after it is made, in any order.

        Raises:
            ModelError, BackboneError: as the modules that are asked.
        """
        ...


def describe(task: Task, config: Config, name: str, data: Path) -> dict[str, Any]:
    """The first line of a run's predictions.

    Raises:
        InputError, ModelError: the data or an adapter cannot be read.
    """
    header = {
        "format": FORMAT,
        "task": task.name,
        "name": name,
        "data": str(data),
        "data_sha256": _digest([data] if data.is_file() else sorted(data.rglob("*.txt"))),
        "config": config.model_dump(mode="json"),
    }
    sources = files("ld_agent.prompts")
    prompts = {
        path.name: path.read_text("utf-8")
        for path in sorted(sources.iterdir(), key=lambda path: path.name)
        if any(Path(path.name).match(pattern) for pattern in task.prompts)
    }
    settings = task.settings(config)
    asked = {**settings, **settings.get("modules", {})}
    adapters = {m: _adapter_digest(s.adapter) for m, s in config.modules if s.adapter is not None and m in asked}
    parts = [FORMAT, task.name, header["data_sha256"], settings, prompts, adapters]
    whole = json.dumps(parts, sort_keys=True, default=str)
    return header | {"hash": hashlib.sha256(whole.encode()).hexdigest()}


def perform(
    task: Task, config: Config, name: str, data: Path, out: Path | None, limit: int | None, overwrite: bool = False
) -> Run | None:
    """Make the predictions of a task that are not there yet, and return the whole run.

    Args:
        out: the run's folder; None: the predictions are kept in memory only.
        limit: how many episodes the task was made of, for the record.
        overwrite: throw away a run of another configuration that is in the folder.

    Returns:
        the run with the task's items in their order, or None in all processes of a launch but the first.

    Raises:
        InputError: the folder holds another configuration's predictions, or cannot be written.
        ModelError, BackboneError: as the task; what was predicted before stays in the folder.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    header = describe(task, config, name, data)
    if out is None:
        if world > 1:
            raise InputError(
                f"{world} processes share this work; give --out, where they leave what they have predicted"
            )
        made: dict[str, Prediction] = {}
        with progress(len(task.items), 0, name) as advance:

            def remember(item: Item, text: str, details: Mapping[str, Any]) -> None:
                made[item.key] = prediction_of(line_of(item, text, details))
                advance(1)

            task.predict(config, task.items, remember)
        return Run(header, _in_order(task, made, None))
    if rank == 0 or not overwrite:
        _check_folder(out, header, overwrite)
    _wait_for_everyone(world)  # until what is thrown away is gone
    done = {p.key for p in (read_run(out).predictions if any(out.glob("predictions*.jsonl")) else ())}
    mine = _share(task.items, rank, world)
    todo = [item for item in mine if item.key not in done]
    plan = {"limit": limit, "predictions": len(task.items)}
    with Lines(_file(out, rank), header) as lines, progress(len(mine), len(mine) - len(todo), name) as advance:

        def keep(item: Item, text: str, details: Mapping[str, Any]) -> None:
            lines.write(line_of(item, text, details))
            advance(1)

        if todo:
            lines.write({"started": plan})
            task.predict(config, todo, keep)
        _wait_for_everyone(world)
        if rank:
            return None
        found = {p.key: p for p in read_run(out).predictions}
        ordered = _in_order(task, found, out)
        if todo or world > 1:
            lines.write({"finished": plan})
    return Run(header, ordered)


@contextmanager
def progress(total: int, done: int, what: str) -> Iterator[Advance]:
    """A progress bar on standard error, where that is a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from ld_agent.cli.show import errors

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda count: bar.advance(task, count)


def _wait_for_everyone(world: int) -> None:
    if world > 1:
        from accelerate import PartialState

        PartialState().wait_for_everyone()


def _share(items: Sequence[Item], rank: int, world: int) -> list[Item]:
    episodes = {name: n for n, name in enumerate(dict.fromkeys(item.episode for item in items))}
    return [item for item in items if episodes[item.episode] % world == rank]


def _in_order(task: Task, found: Mapping[str, Prediction], out: Path | None) -> tuple[Prediction, ...]:
    absent = [item.key for item in task.items if item.key not in found]
    if absent:
        raise InputError(
            f"{len(absent)} of {len(task.items)} predictions are missing ({absent[0]!r} first)"
            f"{f' in {out}' if out else ''}; run the same command again to go on"
        )
    return tuple(found[item.key] for item in task.items)


def _check_folder(out: Path, header: Mapping[str, Any], overwrite: bool) -> None:
    """Make the folder; refuse, or clear, one with a run of another hash in it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(f"--out {out} cannot be made ({exc.strerror}); give a folder in a writable place") from exc
    files_there = [path for path in sorted(out.glob("predictions*.jsonl")) if next(values_of(path), None)]
    for path in files_there:
        _, first = next(values_of(path))
        there = first.get("run", {})
        if there.get("hash") == header["hash"]:
            continue
        if overwrite:
            path.unlink()
            continue
        raise InputError(f"{out} holds predictions of {_difference(there, header)}; give another --out, or --overwrite")


def _difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """In words, why two runs have different hashes."""
    if there.get("task") != here["task"]:
        return f"eval {there.get('task')}, not eval {here['task']}"
    if there.get("data_sha256") != here["data_sha256"]:
        return f"other data ({there.get('data')})"
    before, now = _flat(there.get("config", {})), _flat(here["config"])
    changed = [f"{k}={before.get(k)!r} (now {v!r})" for k, v in now.items() if before.get(k) != v and k != "store.path"]
    return f"another configuration: {', '.join(changed[:3])}" if changed else "other adapter files or prompts"


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


def _file(out: Path, rank: int) -> Path:
    return out / (f"predictions.{rank}.jsonl" if rank else PREDICTIONS)


def _digest(paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _adapter_digest(reference: str) -> str:
    """Digest of an adapter's files, so that one tuned anew under the same path is another; of a hub id, the id."""
    from ld_agent.backbones.weights import resolve_model

    source = resolve_model(reference)
    return _digest(sorted(source.glob("adapter_*"))) if isinstance(source, Path) else reference
