"""Runs: the predictions of a configuration for a data file, stored line by line so that they can be scored at any time.

A run is a folder. Its ``predictions.jsonl`` (with several processes also ``predictions.1.jsonl`` …) contains JSON objects:

- ``{"run": {"format": 1, "task", "name", "data", "data_sha256", "config", "hash"}}``, the first line: ``task`` is the
  name of the task, ``name`` that of the config, ``data`` the path as given, and ``config`` the complete config;
- ``{"started": {"limit", "predictions"}}``, at each start: ``predictions`` is the total over all processes; ``limit``
  counts episodes, null means all;
- ``{"key", "episode", "session", "references": […], "prediction", …}``, one per prediction, in the order they were made; a
  repeated key replaces the earlier line. Tasks add keys: ``speaker`` and ``text`` of the utterance, ``traits`` (extraction,
  a list), ``fallback`` (summary), ``turn``, ``nats`` and ``tokens`` of the reference (response);
- ``{"finished": {"limit", "predictions"}}``, once all predictions exist.

``scores.json`` in the same folder holds the latest scores. The hash covers the task, the data and everything in the
configuration that affects the predictions, including adapter files and prompts. Interrupted runs resume; a run with another
hash is refused. Several processes (``accelerate launch``) share the episodes. Knows no metric and no model.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from ld_agent.languages import language

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
    """A kind of prediction.

    Attributes:
        name: its name on the command line.
        items: the predictions to make, in data order.
        prompts: glob patterns of the prompt files that affect the predictions.
    """

    name: str

    @property
    def items(self) -> Sequence[Item]: ...

    @property
    def prompts(self) -> Sequence[str]: ...

    def settings(self, config: Config) -> Mapping[str, Any]:
        """Return the part of a configuration that affects the predictions.

        It includes each module in use under its name, at the top level or under ``modules``.
        """
        ...

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        """Make predictions in any order, and pass each to ``keep`` as soon as possible.

        Raises:
            ModelError, BackboneError: as the modules in use.
        """
        ...


def describe(task: Task, config: Config, name: str, data: Path) -> dict[str, Any]:
    """Return the first line of a run's predictions.

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
    prompts = {
        path.name: path.read_text("utf-8")
        for path in sorted(language(config.language).files(), key=lambda path: path.name)
        if any(Path(path.name).match(pattern) for pattern in task.prompts)
    }
    settings = task.settings(config)
    in_use = {**settings, **settings.get("modules", {})}
    adapters = {m: _adapter_digest(s.adapter) for m, s in config.modules if s.adapter is not None and m in in_use}
    parts = [FORMAT, task.name, header["data_sha256"], settings, prompts, adapters]
    hashed = json.dumps(parts, sort_keys=True, default=str)
    return header | {"hash": hashlib.sha256(hashed.encode()).hexdigest()}


def perform(
    task: Task, config: Config, name: str, data: Path, out: Path | None, limit: int | None, overwrite: bool = False
) -> Run | None:
    """Make the missing predictions of a task and return the complete run.

    Args:
        out: the run's folder; None: keep the predictions in memory only.
        limit: number of episodes that the task was limited to; only recorded.
        overwrite: delete a run of another configuration in the folder.

    Returns:
        the run, in the order of the task's items; None in all but the first process of a launch.

    Raises:
        InputError: the folder has predictions of another configuration, or cannot be written.
        ModelError, BackboneError: as the task; earlier predictions stay in the folder.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    header = describe(task, config, name, data)
    if out is None:
        if world > 1:
            raise InputError(f"{world} processes share this run; give --out, the folder for their predictions")
        predictions: dict[str, Prediction] = {}
        with progress(len(task.items), 0, name) as advance:

            def remember(item: Item, text: str, details: Mapping[str, Any]) -> None:
                predictions[item.key] = prediction_of(line_of(item, text, details))
                advance(1)

            task.predict(config, task.items, remember)
        return Run(header, _in_order(task, predictions, None))
    if rank == 0 or not overwrite:
        _check_folder(out, header, overwrite)
    _wait_for_everyone(world)  # until an overwritten run is deleted
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
        predictions = {p.key: p for p in read_run(out).predictions}
        ordered = _in_order(task, predictions, out)
        if todo or world > 1:
            lines.write({"finished": plan})
    return Run(header, ordered)


@contextmanager
def progress(total: int, done: int, what: str) -> Iterator[Advance]:
    """Show a progress bar on standard error if that is a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from ld_agent.terminal import errors

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


def _in_order(task: Task, predictions: Mapping[str, Prediction], out: Path | None) -> tuple[Prediction, ...]:
    absent = [item.key for item in task.items if item.key not in predictions]
    if absent:
        raise InputError(
            f"{len(absent)} of {len(task.items)} predictions are missing{f' in {out}' if out else ''}, the first being "
            f"{absent[0]!r}; run the same command again to resume"
        )
    return tuple(predictions[item.key] for item in task.items)


def _check_folder(out: Path, header: Mapping[str, Any], overwrite: bool) -> None:
    """Create the folder; refuse or, with ``overwrite``, clear one that has a run with another hash."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(
            f"--out {out} cannot be created ({exc.strerror}); give a folder in a writable location"
        ) from exc
    existing = [path for path in sorted(out.glob("predictions*.jsonl")) if next(values_of(path), None)]
    for path in existing:
        _, first = next(values_of(path))
        stored = first.get("run", {})
        if stored.get("hash") == header["hash"]:
            continue
        if overwrite:
            path.unlink()
            continue
        raise InputError(f"{out} has predictions of {_difference(stored, header)}; give another --out, or --overwrite")


def _difference(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Describe why two runs have different hashes."""
    if stored.get("task") != current["task"]:
        return f"eval {stored.get('task')}, not eval {current['task']}"
    if stored.get("data_sha256") != current["data_sha256"]:
        return f"other data ({stored.get('data')})"
    before, now = _flat(stored.get("config", {})), _flat(current["config"])
    changed = [f"{k}={before.get(k)!r} (now {v!r})" for k, v in now.items() if before.get(k) != v and k != "store.path"]
    return f"another configuration: {', '.join(changed[:3])}" if changed else "other adapter files or prompts"


def _flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return flat


def _file(out: Path, rank: int) -> Path:
    return out / (f"predictions.{rank}.jsonl" if rank else PREDICTIONS)


def _digest(paths: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _adapter_digest(reference: str) -> str:
    """Return the digest of an adapter's files, which changes when it is retrained in place; or else its hub id."""
    from ld_agent.backbones.weights import resolve_model

    source = resolve_model(reference)
    return _digest(sorted(source.glob("adapter_*"))) if isinstance(source, Path) else reference
