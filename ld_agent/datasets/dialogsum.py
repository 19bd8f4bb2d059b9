"""DialogSum (Chen et al., 2021): single dialogues with summaries, as JSON lines.

Speakers are named by their tags ("#Person1#"), as in the summaries. The corpus has no dates: a dialogue begins at
`dating.ANCHOR`. As an episode it is one session whose agent is the second speaker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Report, Turn
from ld_agent.datasets.dating import ANCHOR, spaced
from ld_agent.datasets.records import Record, UniqueIds, built, current_report, json_lines
from ld_agent.errors import DataFileError, InputError

_LINE = re.compile(r"(#Person\d+#):\s*(.*\S)")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue with its reference summaries and topics: one of each in training data, three in test data."""

    id: str
    turns: tuple[Turn, ...]
    summaries: tuple[str, ...]
    topics: tuple[str, ...]
    source: str


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("dialogue"), str) and "fname" in value


def read(path: Path, report: Report) -> Iterator[Episode]:
    """Yield one episode per line. A dialogue with a single speaker is a bad record."""
    unique = UniqueIds()
    return built(json_lines(path, report), lambda record: _episode(record, unique), report)


def load_dialogues(
    path: str | Path, *, limit: int | None = None, on_bad: Callable[[DataFileError], None] | None = None
) -> list[Dialogue]:
    """Return the dialogues of a file with their summaries.

    Args:
        path: a JSON-lines file of the corpus.
        limit: maximum number of dialogues; None: all.
        on_bad: called with the error of each bad record, which is then skipped; None: raise the error.

    Raises:
        DataFileError: a record is malformed or has another shape.
        InputError: the file does not exist.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path}; give a file such as dialogsum.dev.jsonl")
    unique = UniqueIds()
    report = on_bad or current_report()
    return list(islice(built(json_lines(file, report), lambda record: _dialogue(record, unique), report), limit))


def _episode(record: Record, unique: UniqueIds) -> Episode:
    turns = _turns(record)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    if len(speakers) < 2:
        raise record.error(f"dialogue has only one speaker, {speakers[0]}; a conversation needs at least two")
    return Episode(unique(record.text("fname")), speakers[1], turns, {}, record.source)


def _dialogue(record: Record, unique: UniqueIds) -> Dialogue:
    summaries = _numbered(record, "summary")
    if not summaries:
        raise record.error("has neither summary nor summary1")
    turns = _turns(record)
    return Dialogue(unique(record.text("fname")), turns, summaries, _numbered(record, "topic"), record.source)


def _turns(record: Record) -> tuple[Turn, ...]:
    said = []
    for number, line in enumerate(record.text("dialogue").splitlines(), start=1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise record.error(
                f"line {number} of the dialogue, {line[:40]!r}, does not begin with a tag such as #Person1#:"
            )
        said.append(match.groups())
    times = spaced(ANCHOR, len(said))
    return tuple(Turn(speaker, text, at, 1) for (speaker, text), at in zip(said, times, strict=True))


def _numbered(record: Record, key: str) -> tuple[str, ...]:
    return tuple(record.text(name).strip() for name in (key, f"{key}1", f"{key}2", f"{key}3") if name in record)
