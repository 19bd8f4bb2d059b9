"""Files of predictions; `ld_agent.evaluation.runner` documents the format. Knows no configuration, task or metric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ld_agent.datasets.records import parse_json
from ld_agent.errors import DataFileError, InputError
from ld_agent.files import drop_unfinished_line, write_lines

PREDICTIONS = "predictions.jsonl"
SCORES = "scores.json"


@dataclass(frozen=True, slots=True)
class Item:
    """One prediction to make.

    Attributes:
        key: unique in the data and stable across reads.
        references: the expected answers, at least one.
        about: additional keys of its line.
    """

    key: str
    episode: str
    session: int
    references: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predicted(self, text: str, details: Mapping[str, Any]) -> Prediction:
        return Prediction(self.key, self.episode, self.session, self.references, text, {**self.about, **details})


@dataclass(frozen=True, slots=True)
class Prediction:
    """One line of predictions; ``details`` holds all other keys of the line."""

    key: str
    episode: str
    session: int
    references: tuple[str, ...]
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> dict[str, Any]:
        named = {"key": self.key, "episode": self.episode, "session": self.session}
        return named | {"references": list(self.references), "prediction": self.text} | dict(self.details)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its header line, the predictions made so far, and how many were last started or finished."""

    header: Mapping[str, Any]
    predictions: tuple[Prediction, ...]
    wanted: int = 0

    @property
    def name(self) -> str:
        return str(self.header["name"])

    @property
    def task(self) -> str:
        return str(self.header["task"])

    @property
    def missing(self) -> int:
        return max(self.wanted - len(self.predictions), 0)


def read_run(out: Path) -> Run:
    """Read a finished or unfinished run, with predictions in the order they were made.

    An incomplete last line is ignored.
    """
    header: dict[str, Any] | None = None
    predictions, wanted, path = dict[str, Prediction](), 0, out / PREDICTIONS
    for number, value in values_of(path):
        if "run" in value:
            header = header or value["run"]
        elif "key" in value:
            try:
                predictions[value["key"]] = _prediction(value)
            except (KeyError, TypeError, ValueError) as exc:
                raise DataFileError(path, number, f"not a prediction ({exc!r}); remove the line and run again") from exc
        elif plan := value.get("started", value.get("finished")):
            wanted = int(plan["predictions"])
    if header is None:
        raise InputError(f"no run in {out}; give a folder written by ld-agent eval … --out")
    return Run(header, tuple(predictions.values()), wanted)


def complete_run(folder: Path) -> Run:
    """Read a finished run."""
    run = read_run(folder)
    if run.missing:
        raise InputError(
            f"{folder} is unfinished: {run.missing} of {run.wanted} predictions are missing; run its command again to resume"
        )
    if not run.predictions:
        raise InputError(f"{folder} has no predictions; make them first")
    return run


def check_same_items(runs: Sequence[Run]) -> None:
    """Refuse runs that differ in task, data or predicted items."""
    first, *others = runs
    for run in others:
        if run.task != first.task or run.header["data_sha256"] != first.header["data_sha256"]:
            raise InputError(
                f"{run.name!r} is {run.task} of {run.header['data']}, {first.name!r} is {first.task} of "
                f"{first.header['data']}; compare runs over the same data"
            )
        if {p.key for p in run.predictions} != {p.key for p in first.predictions}:
            raise InputError(
                f"{run.name!r} with {len(run.predictions)} predictions and {first.name!r} with {len(first.predictions)} "
                "cover different items; finish both with the same --limit"
            )


def runs_under(folder: Path) -> list[Path]:
    """Return the folders of all runs in a folder tree, sorted by path."""
    return sorted(path.parent for path in folder.rglob(PREDICTIONS))


@contextmanager
def appended(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Open a file of predictions without its incomplete last line; yield a function that appends a line at once."""
    try:
        if path.exists():
            drop_unfinished_line(path)
        file = path.open("a", encoding="utf-8", newline="\n")
    except OSError as exc:
        raise InputError(f"{path} cannot be written ({exc.strerror}); give another --out") from exc

    def write(value: Mapping[str, Any]) -> None:
        file.write(json.dumps(value, ensure_ascii=False) + "\n")
        file.flush()

    with file:
        yield write


def finish(out: Path, keys: Sequence[str], plan: Mapping[str, Any]) -> None:
    """Rewrite a run's predictions in order, so that the bytes do not depend on who made them, or how often it resumed.

    Args:
        keys: the order; predictions of other keys follow.
        plan: the finished part.
    """
    path = out / PREDICTIONS
    values = [value for _, value in values_of(path)]
    head = next(value for value in values if "run" in value)
    starts = {json.dumps(value): value for value in values if "started" in value}
    lines = {value["key"]: value for value in values if "key" in value}
    ordered = [lines.pop(key) for key in keys] + list(lines.values())
    write_lines(path, (head, *starts.values(), *ordered, {"finished": dict(plan)}))


def values_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the complete lines of a file with their numbers; none if there is no file."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []  # without an incomplete last line
    for number, line in enumerate(lines, 1):
        if isinstance(value := parse_json(line.decode("utf-8", "replace"), path, number), dict):
            yield number, value


def _prediction(value: Mapping[str, Any]) -> Prediction:
    named = ("key", "episode", "session", "references", "prediction")
    key, episode, session, references, text = (value[name] for name in named)
    if not references:
        raise ValueError(f"{key!r} has no reference")
    details = {name: given for name, given in value.items() if name not in named}
    return Prediction(str(key), str(episode), int(session), tuple(map(str, references)), str(text), details)
