"""A person's memory as a folder of Markdown to read and edit: ``profile.md`` has the traits, ``events/2024-05.md`` the
sessions of a month with their memories and what was said. Unchanged memory gives the same bytes.

Each line ends in a comment with its id and a digest of what it said, by which edits are found again. The first line of the
profile counts the ids assigned so far: what is newer was never in the folder, and so not deleted from it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError, InputError
from ld_agent.files import write_text
from ld_agent.storage.conversations import ID_LETTERS
from ld_agent.storage.rows import ITEMS, StoredConversation
from ld_agent.storage.store import Store
from ld_agent.types import Record, Trait, Utterance

FORMAT = "ld_agent.markdown"
PROFILE, EVENTS = "profile.md", "events"
PAST, SAID = "### No longer", "### Said"
MONTHS = "[0-9]*-[0-9][0-9].md"
"""The files of sessions; others are their owner's."""
COMMENT = re.compile(r"(?:(?<!\s)\s++)?<!-- (?P<id>[a-z][1-9]\d*+|session \d++) ?(?P<digest>[0-9a-f]{6})?[^<>]*-->")
"""What a line of the folder ends in."""


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the folder, which may go on over further ones.

    Attributes:
        id: of a trait, record or utterance; "": a human wrote it.
        digest: of what it said when it was written.
        under: the heading it stands under: a speaker, or a session.
        place: file and line, for messages.
    """

    id: str
    text: str
    digest: str
    under: str
    place: str

    @property
    def source(self) -> str:
        """By which one that a human wrote is stored once."""
        return hashlib.blake2b(
            f"{FORMAT}/{self.under}/{self.text}".encode("utf-8", "replace"), digest_size=16
        ).hexdigest()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a human changed in a folder.

    Attributes:
        edited: new texts by id.
        forgotten: ids of deleted lines, with what they say.
        added: lines without an id.
    """

    edited: Mapping[str, str]
    forgotten: Mapping[str, str]
    added: list[Item]

    def __len__(self) -> int:
        return len(self.edited) + len(self.forgotten) + len(self.added)

    def listed(self, now: Mapping[str, str]) -> Iterator[str]:
        """A line each.

        Args:
            now: what is stored, by id.
        """
        for name, text in self.edited.items():
            yield f"edit {name}: {_line(now[name])} -> {_line(text)}"
        for name, text in self.forgotten.items():
            yield f"forget {name}: {_line(text)}"
        for item in self.added:
            yield f"add ({item.place}): {_line(item.text)}"


def is_folder(path: Path) -> bool:
    """Whether a folder has a memory in Markdown."""
    profile = path / PROFILE
    first = profile.read_bytes().partition(b"\n")[0] if profile.is_file() else b""
    return FORMAT.encode() in first.replace(b"\0", b"")  # in UTF-16, too, which `_read` refuses


def write_folder(store: Store, conversation: StoredConversation, path: Path) -> int:
    """Write a conversation's memory into a folder, new or written before; return the number of files.

    Raises:
        InputError: the folder has something else, or edits that were not read back.
    """
    if path.exists() and not (path.is_dir() and (is_folder(path) or not [*path.glob(PROFILE), *path.glob(EVENTS)])):
        raise InputError(f"{path} has something else under {PROFILE} or {EVENTS}; give another folder")
    if is_folder(path) and conversation_of(path) != conversation.id:
        raise InputError(f"{path} has the memory of {conversation_of(path)!r}; give another folder")
    if is_folder(path) and changes(store, conversation, path):
        raise InputError(f"{path} has edits; read them back with `ld-agent memory import {path}`, or undo them")
    return rewrite_folder(store, conversation, path)


def rewrite_folder(store: Store, conversation: StoredConversation, path: Path) -> int:
    """Write as `write_folder` does, over edits. If interrupted, the folder has no changes: its counters come last."""
    with store.reading():
        files = dict(_files(store, conversation))
    path.mkdir(parents=True, exist_ok=True)
    if not is_folder(path):
        write_text(path / PROFILE, _first_line(conversation, dict.fromkeys(ID_LETTERS, 0)))
    (path / EVENTS).mkdir(exist_ok=True)
    for name, text in reversed(files.items()):  # a session that begins later than it did is in both months meanwhile
        write_text(path / name, text)
    for old in (path / EVENTS).glob(MONTHS):
        if f"{EVENTS}/{old.name}" not in files and "<!-- session " in _read(old):
            old.unlink()
    return len(files)


def conversation_of(path: Path) -> str:
    """The id of the conversation in a folder."""
    return str(_header(path)["conversation"])


def changes(store: Store, conversation: StoredConversation, path: Path) -> Changes:
    """What was changed in a folder since it was written, and is not so in the store.

    Raises:
        DataFileError: a file is damaged or not UTF-8; a line was emptied or given another speaker.
    """
    header, now = _header(path), contents(store, conversation.key)
    speakers = {u.id: f"{u.speaker}:" for u in store.utterances(conversation.key)}
    edited, added, there = dict[str, str](), list[Item](), set[str]()
    for item in _items(path):
        there.add(item.id)
        if not item.id:
            added += [item] if item.text else []
        elif item.digest != _digest(item.text) and item.id in now:
            speaker, place = speakers.get(item.id, ""), path / item.place
            if not item.text.removeprefix(speaker).strip():
                raise DataFileError(place, None, "has no text; delete the whole line to forget what it said")
            if not item.text.startswith(speaker):
                raise DataFileError(place, None, f"must begin with {speaker!r}; who said it cannot be changed")
            if _digest(now[item.id]) != _digest(store.redaction.kept(item.text)):
                edited[item.id] = item.text
    known = store.known_sources(conversation.key, [item.source for item in added])
    given = {letter: int(header[kind]) for kind, letter in ID_LETTERS.items()}
    gone = {i: text for i, text in now.items() if i not in there and int(i[1:]) <= given[i[0]]}
    return Changes(edited, gone, [item for item in added if item.source not in known])


def contents(store: Store, key: int) -> dict[str, str]:
    """What a folder says of a conversation, by id."""
    traits = {trait.id: trait.text for trait in store.traits(key)}
    records = {record.id: record.text for record in store.records(key) if record.view != ITEMS}
    return traits | records | {u.id: _said(u) for u in store.utterances(key)}


def _header(path: Path) -> dict[str, Any]:
    first = _read(path / PROFILE).partition("\n")[0]
    try:
        header: dict[str, Any] = json.loads(first.removeprefix("<!-- ").removesuffix(" -->"))
        if header.get("version") == 1 and {"conversation", *ID_LETTERS} <= {*header}:
            return header
    except ValueError:
        pass
    raise DataFileError(path / PROFILE, 1, "is damaged; restore it, or export again into another folder")


# ---- writing


def _files(store: Store, conversation: StoredConversation) -> Iterator[tuple[str, str]]:
    key = conversation.key
    lines = [_first_line(conversation, store.counters(key)), f"# {_line(conversation.id)}"]
    traits = store.traits(key)
    for speaker in dict.fromkeys([*store.speakers(key), *(trait.speaker for trait in traits)]):
        lines += ["", f"## {speaker}", ""]
        told = [trait for trait in traits if trait.speaker == speaker]
        lines += [_trait(trait) for trait in told if trait.active]
        if past := [trait for trait in told if not trait.active]:
            lines += ["", PAST, "", *map(_trait, past)]
    yield PROFILE, "\n".join(lines) + "\n"
    sessions: dict[int, list[Record | Utterance]] = {}
    known: list[Record | Utterance] = [record for record in store.records(key) if record.view != ITEMS]
    for one in [*known, *store.utterances(key)]:
        sessions.setdefault(one.session, []).append(one)
    began = {number: _began(session) for number, session in sessions.items()}
    ordered = sorted(sessions, key=lambda number: (f"{began[number]:%Y-%m}", began[number], number))
    for month, numbers in groupby(ordered, key=lambda number: f"{began[number]:%Y-%m}"):
        lines = [f"# {month}"]
        for number in numbers:
            lines += ["", f"## {began[number]:%Y-%m-%d %H:%M} <!-- session {number} -->", ""]
            lines += [_written(one.id, one.text, one.view) for one in sessions[number] if isinstance(one, Record)]
            lines += ["", SAID, ""]
            lines += [_written(one.id, _said(one)) for one in sessions[number] if isinstance(one, Utterance)]
        yield f"{EVENTS}/{month}.md", "\n".join(lines) + "\n"


def _first_line(conversation: StoredConversation, counters: Mapping[str, int]) -> str:
    header = {"format": FORMAT, "version": 1, "conversation": conversation.id, **counters}
    shown = json.dumps(header, ensure_ascii=False).replace(">", "\\u003e")
    return f"<!-- {shown} -->"


def _began(session: Sequence[Record | Utterance]) -> datetime:
    """When a session began, by the clock of who spoke first; of one whose lines were forgotten, the time of its memory."""
    said = [one.local_at for one in session if isinstance(one, Utterance)]
    return said[0] if said else session[0].at


def _trait(trait: Trait) -> str:
    until = f", until {trait.holds_until:%Y-%m-%d}" if trait.holds_until else ""
    told = f"told {trait.at:%Y-%m-%d} in {trait.source}{until}" if trait.source else "configured"
    return _written(trait.id, trait.text, told)


def _written(name: str, text: str, note: str = "") -> str:
    said = _normal(text).replace("\n", "\n  ")
    return f"- {said} <!-- {name} {_digest(text)}{f' {note}' if note else ''} -->"


def _said(utterance: Utterance) -> str:
    return f"{utterance.speaker}: {utterance.text}"


def _normal(text: str) -> str:
    """A text with plain line breaks, and without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def _digest(text: str) -> str:
    """Of a text, however its lines are broken."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=3).hexdigest()


def _line(text: str) -> str:
    return " ".join(text.split())[:160]


# ---- reading


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as exc:
        raise DataFileError(file, None, "is not UTF-8; save it in that encoding") from exc


def _items(path: Path) -> Iterator[Item]:
    files = [path / PROFILE, *sorted((path / EVENTS).glob(MONTHS))]
    for file in files:
        under, text, start = "", list[str](), 0
        lines = _read(file).splitlines()
        for number, line in enumerate([*lines, "#"], 1):
            aside = bool(text) and not text[-1].strip() and bool(line.strip()) and not line.startswith("  ")
            if text and (line.startswith(("- ", "#")) or aside):
                yield _item(text, under, f"{file.relative_to(path)}, line {start}")
                text = []
            if line.startswith("- "):
                text, start = [line], number
            elif text:
                text.append(line)
            elif line.startswith("## "):
                heading = COMMENT.search(line)
                under = heading["id"] if heading else line.removeprefix("## ").strip()


def _item(lines: list[str], under: str, place: str) -> Item:
    text = "\n".join([lines[0].removeprefix("- "), *(line.removeprefix("  ") for line in lines[1:])])
    *_, comment = [None, *(match for match in COMMENT.finditer(text) if match["digest"])]
    if comment is None:
        return Item("", _normal(text), "", under, place)
    rest = text[: comment.start()] + text[comment.end() :]
    return Item(comment["id"], _normal(rest), comment["digest"], under, place)
