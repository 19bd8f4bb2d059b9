"""Read and write files of predictions; `ld_agent.evaluation.runner` documents the format.

Knows no configuration, task or metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ld_agent.errors import DataFileError, InputError
from ld_agent.files import check_output, written_atomically

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


@dataclass(frozen=True, slots=True)
class Prediction:
    """One line of predictions; ``details`` holds all other keys of the line."""

    key: str
    episode: str
    session: int
    references: tuple[str, ...]
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its header line and the predictions made so far."""

    header: Mapping[str, Any]
    predictions: tuple[Prediction, ...]

    @property
    def name(self) -> str:
        return str(self.header["name"])

    @property
    def task(self) -> str:
        return str(self.header["task"])


def read_run(out: Path) -> Run:
    """Read a finished or unfinished run, with predictions in the order they were made.

    An incomplete last line is ignored.

    Raises:
        InputError: the folder has no run.
        DataFileError: a line is not a prediction.
    """
    header: dict[str, Any] | None = None
    predictions: dict[str, Prediction] = {}
    path = out / PREDICTIONS
    for number, value in values_of(path) if path.is_file() else ():
        if "run" in value:
            header = header or value["run"]
        elif "key" in value:
            try:
                predictions[value["key"]] = prediction_of(value)
            except (KeyError, TypeError, ValueError) as exc:
                raise DataFileError(path, number, f"not a prediction ({exc!r}); remove the line and run again") from exc
    if header is None:
        raise InputError(f"no run in {out}; give a folder written by ld-agent eval … --out")
    return Run(header, tuple(predictions.values()))


def check_same_items(runs: Sequence[Run]) -> None:
    """Refuse runs that cannot be compared.

    Raises:
        InputError: the runs differ in task, data or predicted items.
    """
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


def missing(out: Path) -> tuple[int, int]:
    """Return how many predictions of a run are missing, and its total, by what was last started or finished.

    Raises: as in `read_run`.
    """
    plans = [plan for _, value in values_of(out / PREDICTIONS) if (plan := value.get("started", value.get("finished")))]
    wanted = int(plans[-1]["predictions"]) if plans else 0
    return max(wanted - len(read_run(out).predictions), 0), wanted


def runs_under(folder: Path) -> list[Path]:
    """Return the folders of all runs in a folder tree, sorted by path."""
    return sorted(path.parent for path in folder.rglob(PREDICTIONS))


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
    with written_atomically(path) as file:
        for value in (head, *starts.values(), *ordered, {"finished": dict(plan)}):
            file.write(json.dumps(value, ensure_ascii=False) + "\n")


def write_scores(out: Path, scores: Mapping[str, Any]) -> None:
    """Write ``scores.json`` atomically."""
    target = out / SCORES
    check_output(target)
    with written_atomically(target) as file:
        file.write(json.dumps(scores, indent=2, ensure_ascii=False) + "\n")


def line_of(item: Item, text: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of a prediction; ``details`` are additional keys."""
    line = {"key": item.key, "episode": item.episode, "session": item.session, "references": list(item.references)}
    return line | dict(item.about) | {"prediction": text} | dict(details)


def prediction_of(value: Mapping[str, Any]) -> Prediction:
    """Parse a line as a prediction.

    Raises:
        KeyError, TypeError, ValueError: the line is not a prediction.
    """
    named = {"key", "episode", "session", "references", "prediction"}
    references = tuple(map(str, value["references"]))
    if not references:
        raise ValueError(f"{value['key']!r} has no reference")
    rest = {key: given for key, given in value.items() if key not in named}
    return Prediction(
        str(value["key"]), str(value["episode"]), int(value["session"]), references, str(value["prediction"]), rest
    )


def values_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the complete lines of a file with their numbers."""
    lines = path.read_bytes().split(b"\n")[:-1]  # drop an incomplete last line
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as exc:
            raise DataFileError(path, number, f"not JSON ({exc}); remove the line and run again") from exc
        if isinstance(value, dict):
            yield number, value


class Lines:
    """Append lines to a file of predictions after removing an incomplete last line."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path, self._header = path, header
        self._file: IO[str] | None = None

    def __enter__(self) -> Lines:
        try:
            if self._path.exists():
                whole = self._path.read_bytes()
                with self._path.open("rb+") as file:
                    file.truncate(whole.rfind(b"\n") + 1)
            self._file = self._path.open("a", encoding="utf-8", newline="\n")
        except OSError as exc:
            raise InputError(f"{self._path} cannot be written ({exc.strerror}); give another --out") from exc
        if not self._path.stat().st_size:
            self.write({"run": dict(self._header)})
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, value: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(value, ensure_ascii=False) + "\n")
        self._file.flush()


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flattened: dict[str, Any] = {}
    for key, value in values.items():
        flattened |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flattened
