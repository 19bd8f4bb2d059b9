"""Export and import of a store as JSON lines: everything that was said and remembered, without vectors, independent of
the database. Importing an export and exporting again gives the same bytes. A file cannot prove where it comes from, so an
import takes what it says as it stands, channels included, as a backup must.

Line 1 is ``{"format": "ld_agent.memory", "version": 2}``. Then, conversation by conversation in the order of their ids,
one ``conversation`` line is followed by its ``session``, ``enabled`` (from which session on a view digests), ``digested`` (a
view has digested a session), ``utterance``, ``observed`` (a view has observed an utterance), ``record``, ``trait``, ``change``
(an edit, pin or removal by a person) and ``recall`` (a reply recalled a record) lines in the order of storing; ``kind`` names
each. Times are ISO 8601 in UTC. The last line is ``{"kind": "end", "counts": {KIND: number of lines, ...}}``: a file without
it was truncated. Vectors are recomputed from the texts when the store is next used.

Version 1 had no last line, and no threads, pins or changes. It can still be imported if each conversation has as many
utterances as its first line says. This detects any truncation except after the last utterance of the last conversation,
which only loses records and traits.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError, InputError, RepeatedRowError, StoreError
from ld_agent.storage.base import Store, StoredConversation
from ld_agent.storage.rows import (
    COLUMNS,
    COUNTERS,
    FLAG_COLUMNS,
    JSON_COLUMNS,
    NULLABLE_COLUMNS,
    NUMBER_COLUMNS,
    TIME_COLUMNS,
)
from ld_agent.types import checked_channel, checked_name, iso, utc

HEADER = {"format": "ld_agent.memory", "version": 2}
WITHOUT_END = HEADER | {"version": 1}
SINCE_VERSION_2: dict[str, Any] = {"thread": "", "pinned": False}
"""Columns that exports of version 1 lack, with their values."""
ADDED_LATER: dict[str, Any] = {
    "replaced": False,
    "channel": "chat",
    "said_by": [],
    "interrupted": False,
    "source": "",
    "utc_offset": 0,
    "holds_from": None,
    "holds_until": None,
    "ended_by": "",
}
"""Columns that older exports of version 2 lack, with their values."""
COUNTED = {"utterance": "utterances", "record": "records", "trait": "traits"}
GREATEST = 2**63 - 1
DAY = 86_400


def export_lines(store: Store, conversation_id: str | None = None) -> Iterator[str]:
    """Lines of the export, without line ends: the whole store, or one conversation.

    Each conversation is read as of one moment, whatever other processes write in between.

    Raises:
        StoreError: no such conversation.
    """
    chosen = store.conversations() if conversation_id is None else [found_conversation(store, conversation_id)]
    yield _line(HEADER)
    counts: Counter[str] = Counter()
    for conversation in chosen:
        with store.reading():
            rows = list(_conversation_rows(store, conversation))
        counts.update(row["kind"] for row in rows)
        yield from map(_line, rows)
    yield _line({"kind": "end", "counts": {kind: counts[kind] for kind in ("conversation", *COLUMNS)}})


def _conversation_rows(store: Store, conversation: StoredConversation) -> Iterator[dict[str, Any]]:
    counters = store.counters(conversation.key)
    if not counters:  # deleted since the list was made
        return
    yield {"kind": "conversation", "id": conversation.id, "agent": conversation.agent} | counters
    for kind in COLUMNS:
        for row in store.rows(conversation.key, kind):
            yield {"kind": kind} | {c: iso(value) if isinstance(value, datetime) else value for c, value in row.items()}


def copy_conversation(store: Store, conversation_id: str, names: Sequence[str]) -> None:
    """Store copies of a conversation under other ids.

    Raises:
        StoreError: no such conversation, or the new id is already in use.
    """
    header, head, *rest, end = export_lines(store, conversation_id)
    copies = [line for name in names for line in (_line(json.loads(head) | {"id": name}), *rest)]
    counts = {kind: count * len(names) for kind, count in json.loads(end)["counts"].items()}
    lines = [header, *copies, _line({"kind": "end", "counts": counts})]
    with store.writing(None):
        store_lines(store, (line.encode() for line in lines), store.path)


def store_lines(store: Store, lines: Iterable[bytes], source: str) -> None:
    """Store the conversations of an export; call in a transaction.

    Raises: as `import_file`.
    """
    _Import(store, Path(source)).take_all(lines)


def import_lines(store: Store, lines: Iterable[bytes], source: str, conversation_id: str) -> None:
    """Import an export of one conversation under another id, atomically.

    Raises: as `import_file`; DataFileError also for more or fewer conversations.
    """
    named = [_renamed(line, conversation_id) for line in lines]
    with store.writing(None):
        if (count := _Import(store, Path(source)).take_all(named)) != 1:
            raise DataFileError(source, None, f"holds {count} conversations; give an export of one")


def _renamed(line: bytes, conversation_id: str) -> bytes:
    """The line of a conversation with another id; other lines unchanged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return line  # rejected on import, with its line number
    is_head = isinstance(row, dict) and row.get("kind") == "conversation"
    return _line(row | {"id": conversation_id}).encode() if is_head else line


def import_file(store: Store, path: Path) -> int:
    """Import every conversation of an export, all of them or none; returns how many.

    Raises:
        DataFileError: a line that is not of the format, or a file that was cut; names file and line.
        StoreError: a conversation of the file is in the store already.
    """
    try:
        with path.open("rb") as lines, store.writing(None):
            return _Import(store, path).take_all(lines)
    except OSError as exc:
        raise DataFileError(path, None, f"cannot be read ({exc}); give an export of `ld-agent memory export`") from exc


@dataclass(slots=True)
class _Conversation:
    """The imported part of a conversation, for checking its next line."""

    key: int
    counters: Mapping[str, int]
    sessions: dict[int, bool] = field(default_factory=dict)
    """Whether each session is closed, by number."""
    utterances: set[str] = field(default_factory=set)
    traits: set[str] = field(default_factory=set)
    replacements: set[str] = field(default_factory=set)
    """The ids of traits that supersede others."""
    ends_given: bool = True
    """Whether superseded traits say when they ended; older exports do not."""
    threads: dict[int, str] = field(default_factory=dict)
    """The thread of each session."""
    last: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    """Session and time of the last utterance of each thread."""
    newest: int = 0
    """Number of the last utterance."""


class _Import:
    """Checks and stores the lines of an export one by one. The caller holds the transaction."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store, self._path = store, path
        self._conversation: _Conversation | None = None
        self._counts: Counter[str] = Counter()
        self._version = self._ended = 0

    def take_all(self, lines: Iterable[bytes]) -> int:
        """Import all lines; return the number of conversations."""
        number = 0
        for number, line in enumerate(lines, 1):
            with self._named(number):
                self._take(number, json.loads(line.decode("utf-8")))
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
                raise ValueError(f"expected {_line(HEADER)}; is this an export of a newer version?")
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
            given = ADDED_LATER | (SINCE_VERSION_2 | row if self._version == 1 else row)
            values = {c: _inside(c, given[c]) for c in COLUMNS[kind]}
            self._check(self._conversation, kind, values, row)
            self._store.add_row(self._conversation.key, kind, values)
        self._counts[kind] += 1

    def _end(self, row: Mapping[str, Any]) -> None:
        wanted = {kind: self._counts[kind] for kind in ("conversation", *COLUMNS)}
        if (
            row["counts"] | {kind: 0 for kind in wanted if kind not in row["counts"]} != wanted
        ):  # older exports lack some
            raise ValueError(
                f"the export holds {_line(row['counts'])[:200]} lines, but the file has {_line(wanted)}; "
                "lines are missing, export it again"
            )
        self._ended = 1

    def _begin(self, row: Mapping[str, Any]) -> _Conversation:
        name, agent = _inside("id", row["id"]), _inside("agent", row["agent"])
        checked_name(agent, "agent")
        if not name.strip():
            raise ValueError("the conversation id is empty")
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
        if unknown := taken.replacements - taken.traits:
            raise ValueError(f"a trait is superseded by {min(unknown)}, which is missing")
        if not taken.ends_given:
            shelf = self._store.personas(taken.key)
            traits = {trait.id: trait for trait, _ in shelf.traits()}
            for trait in traits.values():
                if (newer := traits.get(trait.superseded_by or "")) and newer.source:
                    shelf.update(replace(trait, holds_until=newer.at, ended_by=newer.source))

    def _check(self, taken: _Conversation, kind: str, values: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Check that a line is consistent: everything that `Conversation.respond` checks, ids and references."""
        if kind in COUNTED:
            given = taken.counters[COUNTED[kind]]
            if not re.fullmatch(r"[a-z][1-9][0-9]{0,17}", values["id"]) or int(values["id"][1:]) > given:
                raise ValueError(f"the id {values['id']!r} is not one of the conversation's {given} {COUNTED[kind]}")
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
        elif kind in ("observed", "record", "trait", "recall"):
            said = [row.get("utterance")]
            learned = [row.get("source"), values.get("ended_by")]
            sources = {"observed": said, "recall": said, "record": row.get("sources"), "trait": learned}
            for source in sources[kind] or []:
                if source and source not in taken.utterances:
                    raise ValueError(f"its utterance {source!r} is missing")
        if kind == "trait":
            taken.traits.add(values["id"])
            if values["superseded_by"] is not None:
                taken.replacements.add(values["superseded_by"])
                taken.ends_given &= "holds_until" in row


def _check_session(taken: _Conversation, values: Mapping[str, Any]) -> None:
    number, thread = values["number"], values["thread"]
    if any(taken.threads[other] == thread and not closed for other, closed in taken.sessions.items()):
        raise ValueError(f"session {number} follows one that is not closed")
    if number <= max(taken.sessions, default=0):
        raise ValueError(f"session {number} follows session {max(taken.sessions, default=0)}")
    taken.sessions[number], taken.threads[number] = bool(values["closed"]), thread


def _check_utterance(taken: _Conversation, values: Mapping[str, Any]) -> None:
    thread, number = taken.threads[values["session"]], taken.newest
    session, at = taken.last.get(thread, (0, values["at"]))
    if values["session"] < session:
        raise ValueError(f"utterance {values['id']} of session {values['session']} follows one of session {session}")
    if values["at"] < at:
        raise ValueError(f"utterance {values['id']} is earlier than the one before it")
    if not values["id"].startswith("u") or int(values["id"][1:]) <= number:
        raise ValueError(f"the id {values['id']} follows u{number}")
    taken.last[thread], taken.newest = (values["session"], values["at"]), int(values["id"][1:])
    taken.utterances.add(values["id"])


def found_conversation(store: Store, conversation_id: str) -> StoredConversation:
    """Find a conversation.

    Raises:
        StoreError: it is not there; names those that are.
    """
    conversation = store.find_conversation(conversation_id)
    if conversation is None:
        known = ", ".join(c.id for c in store.conversations()[:10]) or "none"
        raise StoreError(f"{store.path} has no conversation {conversation_id!r}; it has: {known}")
    return conversation


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _inside(column: str, value: Any) -> Any:
    """A line's value in the store's type; other types and text that cannot be stored are rejected."""
    _line(value).encode()
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
        raise ValueError(f"{column} is {_line(value)[:80]}")
    return value
