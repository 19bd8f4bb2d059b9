"""Runs: the predictions of a configuration for a data file, stored line by line so that they can be scored at any time.

A run is a folder. Its ``predictions.jsonl`` contains JSON objects:

- ``{"run": {"format": 1, "task", "name", "data", "data_sha256", "config", "hash"}}``, the first line: ``task`` is the
  name of the task, ``name`` that of the config, ``data`` the path as given, and ``config`` the complete config;
- ``{"started": {"limit", "predictions"}}``, at each start: ``predictions`` is the total; ``limit`` counts episodes, null
  means all;
- ``{"key", "episode", "session", "references": […], "prediction", …}``, one per prediction, in the order they are made and,
  once finished, in the order of the data; a repeated key replaces the earlier line. Tasks add keys: ``speaker`` and ``text``
  of the utterance, ``traits`` (extraction, a list), ``fallback`` (summary), ``turn``, ``nats`` and ``tokens`` of the
  reference (response);
- ``{"finished": {"limit", "predictions"}}``, once all predictions exist.

``scores.json`` in the same folder holds the latest scores. The hash covers the task, the data and everything in the
configuration that affects the predictions, including adapter files and prompts. Interrupted runs resume; a run with another
hash is refused. On Ray, workers share the episodes, and the finished file has the same bytes. Knows no metric and no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ld_agent.backbones.base import ASKED
from ld_agent.config import Config
from ld_agent.errors import InputError
from ld_agent.evaluation.run_files import PREDICTIONS, Item, Prediction, Run, appended, finish, read_run, values_of
from ld_agent.languages import language
from ld_agent.running.on_ray import check_not_launched, on_ray
from ld_agent.running.terminal import progress

FORMAT = 1
GROUP = 8
"""Number of episodes predicted together, in this process or by a Ray worker: equal batches give equal predictions."""


class Task:
    """A kind of prediction.

    Attributes:
        name: its name on the command line.
        prompts: glob patterns of the prompt files that affect the predictions; by default all but those of judges and of
            the builders of benchmarks.
        items: the predictions to make, in data order.
        options: of the task, which affect the predictions.
    """

    name: str
    prompts: Sequence[str] = ("[!je]*.yaml", "extractor*.yaml")
    items: Sequence[Item] = ()
    options: Mapping[str, Any] = {}

    def settings(self, config: Config) -> Mapping[str, Any]:
        """Return the part of a configuration that affects the predictions.

        It includes each module in use under its name, at the top level or under ``modules``.
        """
        return config.model_dump(mode="json", exclude={"store"}) | dict(self.options)

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        """Make predictions in any order, each as soon as possible."""
        raise NotImplementedError


def describe(task: Task, config: Config, name: str, data: Path) -> dict[str, Any]:
    """Return the first line of a run's predictions."""
    digest, settings = digest_of(data), task.settings(config)
    prompts = {
        path.name: path.read_text("utf-8")
        for path in sorted(language(config.language).files(), key=lambda path: path.name)
        if any(Path(path.name).match(pattern) for pattern in task.prompts)
    }
    in_use = {**settings, **settings.get("modules", {})}
    adapters = {m: _adapter_digest(s.adapter) for m, s in config.modules if s.adapter is not None and m in in_use}
    hashed = json.dumps([FORMAT, task.name, digest, settings, prompts, adapters], sort_keys=True, default=str)
    return {
        "format": FORMAT,
        "task": task.name,
        "name": name,
        "data": str(data),
        "data_sha256": digest,
        "config": config.model_dump(mode="json"),
        "hash": hashlib.sha256(hashed.encode()).hexdigest(),
    }


def perform(
    task: Task,
    config: Config,
    name: str,
    *,
    data: Path,
    out: Path | None,
    limit: int | None,
    overwrite: bool = False,
    on: str = "",
) -> Run:
    """Make the missing predictions of a task and return the complete run, in the order of the task's items.

    Args:
        out: the run's folder; None: keep no predictions.
        limit: the task's limit on episodes, for the record.
        overwrite: delete a run of another configuration in the folder.
        on: "ray": share the episodes among the workers of a Ray cluster.
    """
    if out is None:
        with TemporaryDirectory() as folder:
            return perform(task, config, name, data=data, out=Path(folder), limit=limit, on=on)
    check_not_launched("an evaluation")
    header = describe(task, config, name, data)
    _check_folder(out, header, overwrite)
    new = not (out / PREDICTIONS).exists()
    done = set() if new else {p.key for p in read_run(out).predictions}
    todo = [item for item in task.items if item.key not in done]
    plan = {"limit": limit, "predictions": len(task.items)}
    with appended(out / PREDICTIONS) as write, progress(name, len(task.items), len(done)) as advance:
        for line in ([{"run": header}] if new else []) + ([{"started": plan}] if todo else []):
            write(line)
        for prediction in _predicted(task, config, todo, on):
            write(prediction.line)
            advance(1)
    run, keys = read_run(out), [item.key for item in task.items]
    if todo or run.missing:  # nothing to do, but a larger limit was interrupted
        finish(out, keys, plan)
    made = {p.key: p for p in run.predictions}
    return Run(header, tuple(made[key] for key in keys), len(keys))


def _predicted(task: Task, config: Config, items: Sequence[Item], on: str) -> Iterator[Prediction]:
    """Predict the items in groups of ``GROUP`` episodes; an episode's group does not depend on what remains to be done."""
    episodes = dict.fromkeys(item.episode for item in task.items)
    group_of = {episode: number // GROUP for number, episode in enumerate(episodes)}
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(group_of[item.episode], []).append(item)
    if on:
        for _, predictions in on_ray(partial(_predictions, task, config), sorted(groups.items())):
            yield from predictions
    else:
        for _, group in sorted(groups.items()):
            yield from task.predict(config, group)


def _predictions(task: Task, config: Config, items: Sequence[Item]) -> list[Prediction]:
    """A task's predictions for a group of items, in a Ray worker."""
    return list(task.predict(config, items))


def _check_folder(out: Path, header: Mapping[str, Any], overwrite: bool) -> None:
    """Create the folder; refuse or, with ``overwrite``, clear one that has a run with another hash."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(
            f"--out {out} cannot be created ({exc.strerror}); give a folder in a writable location"
        ) from exc
    _, first = next(values_of(out / PREDICTIONS), (0, None))
    if first is None or (stored := first.get("run", {})).get("hash") == header["hash"]:
        return
    if not overwrite:
        raise InputError(f"{out} has predictions of {_difference(stored, header)}; give another --out, or --overwrite")
    (out / PREDICTIONS).unlink()


def _difference(stored: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Describe why two runs have different hashes."""
    if stored.get("task") != current["task"]:
        return f"eval {stored.get('task')}, not eval {current['task']}"
    if stored.get("data_sha256") != current["data_sha256"]:
        return f"other data ({stored.get('data')})"
    before, now = flat(stored.get("config", {})), flat(current["config"])
    changed = [f"{k}={before.get(k)!r} (now {v!r})" for k, v in now.items() if before.get(k) != v and k != "store.path"]
    return f"another configuration: {', '.join(changed[:3])}" if changed else "other adapter files or prompts"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flattened: dict[str, Any] = {}
    for key, value in values.items():
        flattened |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flattened


def digest_of(data: Path) -> str:
    """Return the digest of a corpus: a file, or the texts in a folder."""
    return _digest([data] if data.is_file() else sorted(data.rglob("*.txt")))


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
    if not isinstance(source, Path):
        return reference
    return _digest([file for part in (source, source / ASKED) for file in sorted(part.glob("adapter_*"))])
