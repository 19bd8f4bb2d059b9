"""DialogSum (Chen et al., 2021): single dialogues with summaries, as JSON lines.

Speakers are named by their tags ("#Person1#"), as in the summaries; `named_dialogue` gives them first names, because a
summarizer of the agent's sessions must not be tuned on tags. The corpus has no dates: a dialogue begins at `dating.ANCHOR`. As
an episode it is one session whose agent is the second speaker.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, built, episodes, json_lines, unique_ids
from ld_agent.errors import InputError
from ld_agent.types import Session, Utterance

_LINE = re.compile(r"(#Person\d+#):\s*+(.*\S)")
TAG = re.compile(r"#Person(\d+)#")
NAMES = (
    "Alex Andy Ashley Avery Bailey Cameron Casey Charlie Chris Dana Drew Eden Elliot Emery Finley Frankie Harper Hayden "
    "Jamie Jesse Jordan Jules Kai Kelly Kendall Kim Lane Lee Leslie Logan Morgan Nico Noel Parker Pat Quinn Reese Riley "
    "River Robin Rowan Sage Sam Sasha Shannon Sidney Skyler Taylor Terry Tracy"
).split()
"""Gender-neutral, because the summaries use "he" and "she"."""


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


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line. A dialogue with a single speaker is a bad record."""
    return episodes(json_lines(path), _episode)


def load_dialogues(path: str | Path, *, limit: int | None = None) -> list[Dialogue]:
    """Return the dialogues of a file with their summaries.

    Args:
        path: a JSON-lines file of the corpus.
        limit: maximum number of dialogues; None: all.

    Raises:
        DataFileError: a record is malformed or has another shape.
        InputError: the file does not exist.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path}; give a file such as dialogsum.dev.jsonl")
    unique = unique_ids()
    dialogues = islice(built(json_lines(file), _dialogue), limit)
    return [replace(dialogue, id=unique(dialogue.id)) for dialogue in dialogues]


def _episode(record: Record) -> Episode:
    turns = _turns(record)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    if len(speakers) < 2:
        raise record.error(f"dialogue has only one speaker, {speakers[0]}; a conversation needs at least two")
    return Episode(record.text("fname"), speakers[1], turns)


def _dialogue(record: Record) -> Dialogue:
    summaries = _numbered(record, "summary")
    if not summaries:
        raise record.error("has neither summary nor summary1")
    return Dialogue(record.text("fname"), _turns(record), summaries, _numbered(record, "topic"), record.source)


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
        said.append((match[1], match[2]))
    return dated(said)


def _numbered(record: Record, key: str) -> tuple[str, ...]:
    return tuple(record.text(name).strip() for name in (key, f"{key}1", f"{key}2", f"{key}3") if name in record)


def free_names(dialogue_id: str, texts: Iterable[str]) -> list[str]:
    """Return the names that occur in no text, in an order that depends only on the dialogue's id."""
    taken = {word.casefold() for text in texts for word in re.findall(r"\w+", text)}
    free = [n for n in NAMES if n.casefold() not in taken] or NAMES
    return sorted(free, key=lambda n: hashlib.sha256(f"{dialogue_id} {n}".encode()).digest())


def named_dialogue(dialogue: Dialogue) -> tuple[Session, tuple[str, ...]]:
    """Return a dialogue as a session of named speakers, and its summaries with the same names.

    The names depend only on the dialogue's id and exclude those already in its text.
    """
    texts = [*(turn.text for turn in dialogue.turns), *dialogue.summaries]
    free = free_names(dialogue.id, texts)
    names: dict[str, str] = {}

    def name(number: str) -> str:
        return names.setdefault(number, free[len(names) % len(free)])

    def renamed(text: str) -> str:
        return TAG.sub(lambda match: name(match[1]), text)

    utterances = tuple(
        Utterance(f"u{n}", renamed(turn.speaker), renamed(turn.text), turn.at, 1)
        for n, turn in enumerate(dialogue.turns, 1)
    )
    return Session(1, utterances), tuple(renamed(summary) for summary in dialogue.summaries)
