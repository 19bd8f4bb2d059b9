"""Conversation Chronicles (Jang et al., 2023): five sessions per episode, the hub's rows as JSON lines.

The corpus gives the time between sessions in words; `interval` converts them. The shortest, an hour, is not under the
default β. Sessions are dated backwards; see `dating`. The agent is the second speaker of the first session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode
from ld_agent.datasets.dating import dated_back
from ld_agent.datasets.records import Record, episodes, json_lines

_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_UNITS = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}
_INTERVAL = re.compile(r"\b(an?|one|a few|few|several|a couple of|couple of)?\s*(hour|day|week|month|year)(s?)\b")


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "first_session_dialogue" in value and "dataID" in value


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line. Empty sessions are skipped; the others keep their numbers."""
    return episodes(json_lines(path), _episode)


def interval(text: str) -> timedelta | None:
    """Convert an interval in words: "a few" is 3, "a couple of" is 2; None if it names no unit."""
    match = _INTERVAL.search(text.lower())
    if match is None:
        return None
    quantity, unit, plural = match.groups()
    number = 2 if quantity and "couple" in quantity else 3 if plural else 1
    return number * _UNITS[unit]


def _episode(record: Record) -> Episode:
    stated = record.texts("time_interval")
    sessions: dict[int, list[tuple[str, str]]] = {}
    gaps: list[timedelta] = []
    since = timedelta()
    for number, ordinal in enumerate(_ORDINALS, start=1):
        if f"{ordinal}_session_dialogue" not in record:
            break
        if number > 1:
            since += _gap(record, stated, number)
        said = _said(record, ordinal)
        if not said:
            continue
        if sessions:
            gaps.append(since)
        since = timedelta()
        sessions[number] = said
    speakers = list(dict.fromkeys(speaker for said in sessions.values() for speaker, _ in said))
    if len(speakers) < 2:
        raise record.error(f"the episode has speakers {speakers}; a conversation needs at least two")
    return Episode(record.text("dataID"), speakers[1], dated_back(sessions, gaps))


def _said(record: Record, ordinal: str) -> list[tuple[str, str]]:
    texts = record.texts(f"{ordinal}_session_dialogue")
    speakers = record.texts(f"{ordinal}_session_speakers")
    if len(texts) != len(speakers):
        raise record.error(f"the {ordinal} session has {len(texts)} utterances and {len(speakers)} speakers")
    return [(speaker.strip(), text.strip()) for speaker, text in zip(speakers, texts, strict=True)]


def _gap(record: Record, stated: list[str], number: int) -> timedelta:
    gap = interval(stated[number - 1]) if number <= len(stated) else None
    if gap is None:
        raise record.error(f"time_interval={stated} has no interval such as 'A few days after' for session {number}")
    return gap
