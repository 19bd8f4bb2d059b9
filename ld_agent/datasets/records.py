"""Read JSON files record by record, with errors that name file, line and field. Knows no corpus.

JSON lines are streamed: a line is read when its record is requested. Only the newline byte ends a line, because a JSON
string may contain other Unicode line separators.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ld_agent.datasets.base import Episode
from ld_agent.errors import DataFileError, InputError
from ld_agent.types import utc

Built = TypeVar("Built")
Given = TypeVar("Given")
Report = Callable[[DataFileError], None]


class Record:
    """A JSON object and its position; getters raise a DataFileError that names position and field."""

    def __init__(self, values: Any, path: Path, line: int | None, where: str = "") -> None:
        self.path, self.line, self.where = path, line, where
        if not isinstance(values, dict):
            raise DataFileError(path, line, f"{where or 'the record'} is {_kind(values)}, not an object")
        self.values: dict[str, Any] = values

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    @property
    def source(self) -> str:
        return f"{self.path.name}:{self.line}" if self.line else f"{self.path.name}{self.where}"

    def error(self, what: str) -> DataFileError:
        return DataFileError(self.path, self.line, f"{self.where}: {what}" if self.where else what)

    def text(self, key: str) -> str:
        """Return a text unchanged; a blank one is an error."""
        return self.checked_text(self._get(key), key)

    def texts(self, key: str) -> list[str]:
        return [self.checked_text(value, f"{key}[{i}]") for i, value in enumerate(self.items(key))]

    def integer(self, key: str) -> int:
        value = self._get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{key} is {_kind(value)}, not a whole number")
        return value

    def time(self, key: str) -> datetime:
        """Return an ISO 8601 time with its zone, in UTC."""
        try:
            return utc(self.text(key))
        except InputError as exc:
            raise self.error(str(exc)) from exc

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise an error at a key that is not known, so that a misspelled one is noticed."""
        for key in self.values:
            if key not in known:
                raise self.error(f"unknown key {key!r}; the known keys are {', '.join(known)}")

    def items(self, key: str) -> list[Any]:
        value = self._get(key)
        if not isinstance(value, list):
            raise self.error(f"{key} is {_kind(value)}, not a list")
        return value

    def record(self, key: str) -> Record:
        return Record(self._get(key), self.path, self.line, self._inside(key))

    def records(self, key: str) -> list[Record]:
        values = self.items(key)
        return [Record(v, self.path, self.line, self._inside(f"{key}[{i}]")) for i, v in enumerate(values)]

    def _get(self, key: str) -> Any:
        if key not in self.values:
            raise self.error(f"has no {key!r}; its keys are {', '.join(map(repr, list(self.values)[:12])) or 'none'}")
        return self.values[key]

    def _inside(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def checked_text(self, value: Any, name: str) -> str:
        """Return a value if it is text that can be stored; else raise an error that names it."""
        if not isinstance(value, str):
            raise self.error(f"{name} is {_kind(value)}, not text")
        if not value.strip():
            raise self.error(f"{name} is empty; add text or remove the utterance")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.error(f"{name} contains a lone surrogate, which no file can store; fix the escape \\udXXX")
        return value


def json_lines(path: Path, report: Report | None = None) -> Iterator[Record]:
    """Yield one record per line, skipping blank lines; report lines that are not a JSON object.

    Args:
        report: what is done with a bad line; None: what `current_report` says.

    Raises:
        InputError: the file cannot be opened.
    """
    report = report or current_report()
    for number, line in text_lines(path, report):
        try:
            yield Record(parse_json(line, path, number), path, number)
        except DataFileError as exc:
            report(exc)


def json_list(path: Path, key: str = "") -> Iterator[Record]:
    """Yield one record per element of a JSON list, after reading the whole file.

    Args:
        key: under which each element stands in its record; "": the element is the record.
    """
    values = json_document(path)
    if not isinstance(values, list):
        raise DataFileError(path, None, "is not a list of conversations")
    return built(enumerate(values), lambda item: Record({key: item[1]} if key else item[1], path, None, f"[{item[0]}]"))


def text_lines(path: Path, report: Report | None = None) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines with their numbers, from 1; report lines that are not UTF-8."""
    report = report or current_report()
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                except UnicodeDecodeError as exc:
                    report(DataFileError(path, number, f"byte {exc.start + 1} is not UTF-8; convert the file to UTF-8"))
                    continue
                if line:
                    yield number, line
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}; check the path and its permissions") from exc


def json_document(path: Path) -> Any:
    """Return the single JSON value of a file.

    Raises:
        DataFileError: the file is not JSON; names the line.
        InputError: the file cannot be opened.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise DataFileError(path, None, f"byte {exc.start + 1} is not UTF-8; convert the file to UTF-8") from exc
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}; check the path and its permissions") from exc
    return parse_json(text, path, None)


def parse_json(text: str, path: Path, line: int | None) -> Any:
    """Parse a JSON text that starts in ``line`` (None: at the top of the file)."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        what = f"invalid JSON at column {exc.colno}: {exc.msg}; fix or remove the record"
        raise DataFileError(path, line or exc.lineno, what) from exc
    except (ValueError, RecursionError) as exc:
        raise DataFileError(path, line, f"unreadable JSON: {exc}; fix or remove the record") from exc


def built(records: Iterable[Given], build: Callable[[Given], Built]) -> Iterator[Built]:
    """Yield ``build(record)`` for each record; report records that it rejects."""
    report = current_report()
    for record in records:
        try:
            value = build(record)
        except DataFileError as exc:
            report(exc)
            continue
        yield value


def raise_bad(error: DataFileError) -> None:
    """A report that stops at the first bad record."""
    raise error


_REPORT: ContextVar[Report] = ContextVar("report", default=raise_bad)


def current_report() -> Report:
    """What is done with a bad record: raise its error, or what `reporting` names."""
    return _REPORT.get()


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Within, loaders pass bad records to ``report``; if it returns, they skip the record and go on."""
    token = _REPORT.set(report)
    try:
        yield
    finally:
        _REPORT.reset(token)


def unique_ids() -> Callable[[str], str]:
    """Return a function that numbers repeated ids in file order ("valid_7", "valid_7#2")."""
    seen: Counter[str] = Counter()

    def unique(name: str) -> str:
        seen[name] += 1
        return name if seen[name] == 1 else f"{name}#{seen[name]}"

    return unique


def episodes(records: Iterable[Record], build: Callable[[Record], Episode]) -> Iterator[Episode]:
    """Yield the episode of each record, with its source; repeated ids are numbered."""
    unique = unique_ids()
    for episode in built(records, lambda record: replace(build(record), source=record.source)):
        yield replace(episode, id=unique(episode.id))


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), f"the number {value!r}")
