"""Checks the lines of an export and stores them. Knows no SQL; `ld_agent.storage.exchange` defines the format."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError, InputError, RepeatedRowError, StoreError
from ld_agent.storage.rows import (
    COLUMNS,
    COUNTERS,
    FLAG_COLUMNS,
    JSON_COLUMNS,
    NULLABLE_COLUMNS,
    NUMBER_COLUMNS,
    TIME_COLUMNS,
)
from ld_agent.storage.store import Store
from ld_agent.types import checked_channel, checked_name, utc

HEADER = {"format": "ld_agent.memory", "version": 2}
WITHOUT_END = HEADER | {"version": 1}
ADDED_LATER: dict[str, Any] = {
    "thread": "",
    "pinned": False,
    "replaced": False,
    "channel": "chat",
    "said_by": [],
    "interrupted": False,
    "source": "",
    "utc_offset": 0,
    "holds_from": None,
    "holds_until": None,
    "ended_by": "",
    "planned_by": "",
    "otherwise_until": None,
    "expires": None,
    "edited": None,
}
"""Columns that older exports lack, with their values."""
GREATEST = 2**63 - 1
DAY = 86_400


def line_of(value: Any) -> str:
    """A line of an export."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Conversation:
    """The imported part of a conversation, for checking its next line."""

    key: int
    counters: Mapping[str, int]
    sessions: dict[int, tuple[str, bool]] = field(default_factory=dict)
    """The thread of each session, and whether it is closed, by number, in ascending order."""
    open_threads: set[str] = field(default_factory=set)
    utterances: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)
    superseded: dict[str, str] = field(default_factory=dict)
    """The trait that supersedes each, by id."""
    ends_given: bool = True
    """Whether superseded traits say when they ended; older exports do not."""
    last: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """Session and time of the last utterance of each thread."""
    newest: int = 0
    """Number of the last utterance."""


class Import:
    """Checks and stores the lines of an export one by one. The caller holds the transaction.

    Args:
        path: how errors name the file.
        name: store its only conversation under this id; None: all conversations under theirs.
        latest: no session that has not ended may have later lines, as it would not end before that; None: any may.
    """

    def __init__(self, store: Store, path: Path | str, name: str | None = None, latest: datetime | None = None) -> None:
        self._store, self._path, self._name, self._latest = store, path, name, latest
        self._conversation: _Conversation | None = None
        self._counts: Counter[str] = Counter()
        self._version = self._ended = 0

    def take_all(self, lines: Iterable[bytes]) -> int:
        """Import all lines; return the number of conversations."""
        number = 0
        for number, line in enumerate(lines, 1):
            with self._named(number):
                self._take(number, json.loads(line.decode("utf-8"), parse_constant=_number))
        if number == 0:
            raise DataFileError(self._path, None, "is empty; give an export of `ld-agent memory export`")
        with self._named(number):
            self._finish_conversation()
            if self._version > 1 and not self._ended:
                raise ValueError("the file was cut here, its end line is missing; export it again")
        return self._counts["conversation"]

    @contextmanager
    def _named(self, number: int) -> Iterator[None]:
        """Add file and line to exceptions raised inside."""
        try:
            yield
        except RepeatedRowError as exc:
            reason = f"repeats an earlier line ({exc}); nothing was imported"
            raise DataFileError(self._path, number, reason) from exc
        except StoreError as exc:
            raise StoreError(f"{self._path}, line {number}: {exc}") from exc
        except (InputError, ValueError, KeyError, TypeError, RecursionError) as exc:
            reason = f"unknown or missing key {exc}" if isinstance(exc, KeyError) else str(exc)
            reason = f"cannot be imported: {reason}; nothing was imported"
            raise DataFileError(self._path, number, reason) from exc

    def _take(self, number: int, row: Any) -> None:
        if number == 1:
            if row not in (HEADER, WITHOUT_END):
                raise ValueError(f"expected {line_of(HEADER)}; is this an export of a newer version?")
            self._version = row["version"]
            return
        kind = row["kind"]
        if self._ended:
            raise ValueError("a line follows the end line")
        if kind == "end":
            self._end(row)
            return
        if kind == "conversation":
            self._finish_conversation()
            self._conversation = self._begin(row)
        elif self._conversation is None:
            raise ValueError(f"a {kind} line precedes the first conversation line")
        else:
            values = {c: _inside(c, (ADDED_LATER | row)[c]) for c in COLUMNS[kind]}
            self._check(self._conversation, kind, values, row)
            self._store.add_row(self._conversation.key, kind, values)
        self._counts[kind] += 1

    def _end(self, row: Mapping[str, Any]) -> None:
        wanted = {kind: self._counts[kind] for kind in ("conversation", *COLUMNS)}
        if dict.fromkeys(wanted, 0) | row["counts"] != wanted:  # older exports lack some
            raise ValueError(
                f"the export holds {line_of(row['counts'])[:200]} lines, but the file has {line_of(wanted)}; "
                "lines are missing, export it again"
            )
        self._ended = 1

    def _begin(self, row: Mapping[str, Any]) -> _Conversation:
        name, agent = self._name or _inside("id", row["id"]), _inside("agent", row["agent"])
        checked_name(agent, "agent")
        if not name.strip():
            raise ValueError("the conversation id is empty")
        if self._name and self._counts["conversation"]:
            raise ValueError("a second conversation begins; give an export of one")
        if self._store.find_conversation(name):
            raise StoreError(
                f"{self._store.path} already has a conversation {name!r}; delete it first, or import into another store"
            )
        counters = {c: _inside(c, row[c]) for c in COUNTERS}
        key = self._store.open_conversation(name, agent).key
        self._store.set_counters(key, counters)
        return _Conversation(key, counters)

    def _finish_conversation(self) -> None:
        """Run the checks that need the whole conversation."""
        taken = self._conversation
        if taken is None:
            return
        if len(taken.utterances) != taken.counters["utterances"]:
            raise ValueError(
                f"the conversation has {taken.counters['utterances']} utterances, but {len(taken.utterances)} lines of them"
            )
        if unknown := set(taken.superseded.values()) - taken.traits:
            raise ValueError(f"a trait is superseded by {min(unknown)}, which is missing")
        if circle := _circle(taken.superseded):
            raise ValueError(f"the trait {circle} is superseded by itself, through others")
        if not taken.ends_given:
            traits = {trait.id: trait for trait in self._store.traits(taken.key)}
            for trait in traits.values():
                if (newer := traits.get(trait.superseded_by or "")) and newer.source:
                    self._store.personas(taken.key).update(replace(trait, holds_until=newer.at, ended_by=newer.source))

    def _check(self, taken: _Conversation, kind: str, values: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Check that a line is consistent: everything that `Conversation.respond` checks, ids and references."""
        if (counted := f"{kind}s") in COUNTERS:
            given = taken.counters[counted]
            if not re.fullmatch(r"[a-z][1-9][0-9]{0,17}", values["id"]) or int(values["id"][1:]) > given:
                raise ValueError(f"the id {values['id']!r} is not one of the conversation's {given} {counted}")
        if "text" in values and not values["text"].strip() and not values.get("replaced"):  # a forgotten line is blank
            raise ValueError(f"the text of {kind} {values['id']} is blank")
        if "channel" in values:
            checked_channel(values["channel"])
        if "speaker" in values:
            checked_name(values["speaker"])
        if not values.get("view", "-").strip():
            raise ValueError("the view has no name")
        if kind == "session":
            _check_session(taken, values)
        elif "session" in values and values["session"] not in taken.sessions:
            raise ValueError(f"its session {values['session']} has no session line")
        if kind == "utterance":
            _check_utterance(taken, values)
            _, closed = taken.sessions[values["session"]]
            if self._latest and values["at"] > self._latest and not closed:
                raise ValueError(f"utterance {values['id']}, in a session that has not ended, is still to come")
        elif kind in ("observed", "record", "trait", "recall"):
            said = [row.get("utterance")]
            learned = [row.get("source"), values.get("ended_by"), values.get("planned_by")]
            sources = {"observed": said, "recall": said, "record": row.get("sources"), "trait": learned}
            for source in sources[kind] or []:
                if source and source not in taken.utterances:
                    raise ValueError(f"its utterance {source!r} is missing")
        if kind == "trait":
            taken.traits.add(values["id"])
            if values["superseded_by"] is not None:
                taken.superseded[values["id"]] = values["superseded_by"]
                taken.ends_given &= "holds_until" in row


def _number(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is not a number")
    return float(name)


def _circle(superseded: Mapping[str, str]) -> str:
    """A trait that supersedes itself, through others or at once; "": there is none."""
    settled = set[str]()
    for trait in superseded:
        passed = set[str]()
        while trait in superseded and trait not in settled:
            if trait in passed:
                return trait
            passed.add(trait)
            trait = superseded[trait]
        settled |= passed
    return ""


def _check_session(taken: _Conversation, values: Mapping[str, Any]) -> None:
    number, thread, last = values["number"], values["thread"], next(reversed(taken.sessions), 0)
    if thread in taken.open_threads:
        raise ValueError(f"session {number} follows one that is not closed")
    if number <= last:
        raise ValueError(f"session {number} follows session {last}")
    taken.sessions[number] = thread, bool(values["closed"])
    if not values["closed"]:
        taken.open_threads.add(thread)


def _check_utterance(taken: _Conversation, values: Mapping[str, Any]) -> None:
    (thread, _), number = taken.sessions[values["session"]], taken.newest
    session, at = taken.last.get(thread, (0, values["at"]))
    if values["session"] < session:
        raise ValueError(f"utterance {values['id']} of session {values['session']} follows one of session {session}")
    if values["at"] < at:
        raise ValueError(f"utterance {values['id']} is earlier than the one before it")
    if not values["id"].startswith("u") or int(values["id"][1:]) <= number:
        raise ValueError(f"the id {values['id']} follows u{number}")
    taken.last[thread], taken.newest = (values["session"], values["at"]), int(values["id"][1:])
    taken.utterances.add(values["id"])


def _inside(column: str, value: Any) -> Any:
    """A line's value in the store's type; other types and text that cannot be stored are rejected."""
    line_of(value).encode()
    if value is None and column in NULLABLE_COLUMNS:
        return None
    if column in TIME_COLUMNS:
        return utc(value, column)
    if column == "details":
        fits = isinstance(value, dict)
    elif column in JSON_COLUMNS:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif column in FLAG_COLUMNS:
        fits = isinstance(value, bool)
    elif column in NUMBER_COLUMNS:
        least, most = (-DAY + 1, DAY - 1) if column == "utc_offset" else (0, GREATEST)
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    else:
        fits = isinstance(value, str)
    if not fits:
        raise ValueError(f"{column} is {line_of(value)[:80]}")
    return value
