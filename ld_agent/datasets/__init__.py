"""Loaders for recorded conversations: `load_episodes` detects the format from the content.

This module knows only the names of the formats; each has its own file. `data/README.md` lists the source of each
corpus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path
from typing import Any

from ld_agent.config.named import named
from ld_agent.datasets import (
    carecall,
    chats,
    conversation_chronicles,
    dialogsum,
    exports,
    jsonl,
    locomo,
    memorybank,
    msc,
    msc_personasummary,
    realmem,
    ubuntu_irc,
)
from ld_agent.datasets.base import AnnotatedUtterance, Episode, Loader, Turn, annotated
from ld_agent.datasets.dialogsum import Dialogue, load_dialogues
from ld_agent.datasets.jsonl import write_episodes
from ld_agent.datasets.records import json_document, parse_json, text_lines
from ld_agent.errors import DataFileError, InputError

__all__ = [
    "LOADERS",
    "AnnotatedUtterance",
    "Dialogue",
    "Episode",
    "Loader",
    "Turn",
    "format_of",
    "iter_episodes",
    "load_annotated_utterances",
    "load_dialogues",
    "load_episodes",
    "write_episodes",
]

LOADERS: dict[str, Loader] = {
    "jsonl": Loader(jsonl.recognises, jsonl.read),
    "msc": Loader(msc.recognises, msc.read),
    "msc_personasummary": Loader(msc_personasummary.recognises, msc_personasummary.read),
    "conversation_chronicles": Loader(conversation_chronicles.recognises, conversation_chronicles.read),
    "dialogsum": Loader(dialogsum.recognises, dialogsum.read),
    "ubuntu_irc": Loader(ubuntu_irc.recognises, ubuntu_irc.read),
    "locomo": Loader(locomo.recognises, locomo.read),
    "carecall": Loader(carecall.recognises, carecall.read),
    "memorybank": Loader(memorybank.recognises, memorybank.read),
    "realmem": Loader(realmem.recognises, realmem.read),
    "chats": Loader(chats.recognises, chats.read),
}

_SESSION = re.compile(r"session_([1-9]\d*)")
_SNIFFED_LINES = 20
_SNIFFED_BYTES = 8192


def load_episodes(path: str | Path, format: str | None = None, *, limit: int | None = None) -> list[Episode]:
    """Return the conversations of a file, in file order; arguments and errors as in `iter_episodes`."""
    return list(iter_episodes(path, format, limit=limit))


def iter_episodes(path: str | Path, format: str | None = None, *, limit: int | None = None) -> Iterator[Episode]:
    """Yield the conversations of a file, in file order; of JSON lines, one line is in memory at a time.

    Within `records.reporting`, bad records are reported and skipped.

    Args:
        path: a file in one of the formats of `LOADERS`, or a Multi-Session Chat folder. Of a folder, ``valid.txt`` is
            read, or else ``session_N/valid.txt`` with the highest N.
        format: a key of `LOADERS`, or a `Loader` of one's own as ``package.module:NAME``; None: detect it from the content.
        limit: stop reading after this many episodes; None: all; 0: none.

    Raises:
        DataFileError: a record is malformed or has another shape; names file and line.
        ConfigError: there is no such format.
        InputError: the limit is negative, or the file is missing, empty, binary or not in a
            known format.
    """
    chosen = None if format is None else loader(format)
    if limit is not None and limit < 0:
        raise InputError(f"limit={limit} is negative; give the number of conversations to read")
    file = _data_file(Path(path))
    return islice((chosen or loader(_recognised(file))).read(file), limit)


def loader(name: str, key: str = "format") -> Loader:
    """The format of that name: of the project, of an installed package (`_installed`), or ``package.module:NAME``.

    Args:
        key: what the name was given for, for messages.
    """
    is_loader, wanted = lambda thing: isinstance(thing, Loader), "a ld_agent.datasets.Loader"
    known = LOADERS if name in LOADERS else {**LOADERS, **_installed()}
    return named(known, name, key=key, kinds="formats", wanted=wanted, fits=is_loader)


def _installed() -> Mapping[str, Loader]:
    """The formats of installed packages: entry points of the group ``ld_agent.datasets``."""
    return {point.name: point.load() for point in entry_points(group="ld_agent.datasets")}


def load_annotated_utterances(path: str | Path, *, limit: int | None = None) -> list[AnnotatedUtterance]:
    """Return the utterances with annotated traits, each with the utterance it answers.

    Of ``msc_personasummary``, only the sessions in this file are read; earlier ones are not joined.

    Args:
        limit: maximum number of sessions (lines) of ``msc_personasummary``, or of episodes of another corpus; None: all.

    Raises:
        DataFileError: a record is malformed or has another shape; names file and line.
        InputError: as in `load_episodes`, or the corpus has no annotated traits.
    """
    file = _data_file(Path(path))
    name = _recognised(file)
    if name == "msc_personasummary":
        sessions = islice(msc_personasummary.read_annotated(file), limit)
        return [utterance for session in sessions for utterance in session]
    utterances = [
        utterance
        for episode in load_episodes(file, name, limit=limit)
        for utterance in annotated(episode.id, [(t.session or 1, t.speaker, t.text, t.traits) for t in episode.turns])
    ]
    if not utterances:
        raise InputError(
            f"{path} ({name}) has no trait annotations; give a file of msc_personasummary, or conversations with traits"
        )
    return utterances


def format_of(path: str | Path) -> str:
    """Detect the format of a data file: a key of `LOADERS`.

    Raises:
        InputError: the file is missing, empty, binary or not in a known format.
    """
    return _recognised(_data_file(Path(path)))


def _data_file(path: Path) -> Path:
    """Resolve the file to read and check what every format requires."""
    if path.is_dir():
        sessions = [(int(match[1]), s / "valid.txt") for s in path.iterdir() if (match := _SESSION.fullmatch(s.name))]
        files = [file for _, file in sorted(sessions, reverse=True) if file.is_file()]
        path = next(iter([*filter(Path.is_file, [path / "valid.txt"]), *files]), path)
    if path.is_dir():
        raise InputError(f"{path} is a folder without valid.txt or session_N/valid.txt; give the path of a data file")
    if not path.exists():
        raise InputError(f"no data file {path}; check the path")
    try:
        with path.open("rb") as file:
            start = file.read(_SNIFFED_BYTES)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    if not start.strip():
        raise InputError(f"{path} is empty; give a file of conversations")
    if b"\0" in start:
        raise InputError(f"{path} is a binary file; give a text file in one of the formats {', '.join(LOADERS)}")
    return path


def _recognised(path: Path) -> str:
    """Detect the format from the first readable lines, or else from the whole document."""
    first_line, first_error = "", None
    for number, line in islice(text_lines(path, lambda error: None), _SNIFFED_LINES):
        first_line = first_line or line
        try:
            name = _shape_of(parse_json(line, path, number))
        except DataFileError as exc:
            first_error = first_error or exc
            continue
        if name is not None:
            return name
    try:
        name = _shape_of(json_document(path))
    except DataFileError as exc:
        _check_no_history(path)
        # For a document, report where its parser stopped; for JSON lines, report the first malformed line.
        is_document = first_line.startswith("[") or first_line == "{"
        raise (None if is_document else first_error) or exc from exc
    if name is None:
        _check_no_history(path)
        raise InputError(f"{path} is not in a known format; name its format, one of {', '.join(LOADERS)}")
    return name


def _check_no_history(path: Path) -> None:
    """Refuse what another program exported, which is no corpus."""
    try:
        program = exports.format_of(exports.Export(path))
    except InputError:
        return
    raise InputError(f"{path} is a history from {program}; store it with `ld-agent memory import`")


def _shape_of(value: Any) -> str | None:
    for loaders in (LOADERS, _installed()):
        for name, known in loaders.items():
            if known.recognises(value):
                return name
    return None
