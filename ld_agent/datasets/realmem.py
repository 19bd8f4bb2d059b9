"""RealMem (2026): one person's sessions with an assistant over months, a JSON document by person.

A session has a day and no hour. It begins at noon UTC, or `APART` after the end of the one before if that is later; sessions
are put in the order of their days. The person is named as in the file, without underscores; the agent is "Assistant". Empty
utterances are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, built, json_document

AGENT = "Assistant"
APART = timedelta(hours=1, minutes=1)
"""Just over the default β, so that sessions of one day stay apart."""


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("dialogues"), list) and "_metadata" in value


def read(path: Path) -> Iterator[Episode]:
    """Yield the one episode of a document."""
    return built([Record(json_document(path), path, None)], _episode)


def sessions_of(record: Record) -> list[Record]:
    """The sessions of a document in the order of their days; in the episode they are numbered so, from 1."""
    return sorted(record.records("dialogues"), key=_day)


def said_in(session: Record) -> list[Record]:
    """The utterances of a session that say something."""
    return [one for one in session.records("dialogue_turns") if str(one.values.get("content") or "").strip()]


def _episode(record: Record) -> Episode:
    person = record.record("_metadata").text("person_name").replace("_", " ")
    names = {"User": person, AGENT: AGENT}
    turns: list[Turn] = []
    for number, session in enumerate(sessions_of(record), 1):
        said = [(one.text("speaker"), one.text("content").strip()) for one in said_in(session)]
        if unknown := [speaker for speaker, _ in said if speaker not in names]:
            raise session.error(f"speaker {unknown[0]!r} is neither User nor {AGENT}")
        start = max([_day(session), *(last.at + APART for last in turns[-1:])])
        turns += dated([(names[speaker], text) for speaker, text in said], start, number)
    if not turns:
        raise record.error("has no utterances")
    return Episode(person, AGENT, tuple(turns))


def _day(session: Record) -> datetime:
    """Noon of a session's ``current_time``: "2025-12-15 (Monday)"."""
    text = session.text("current_time")
    try:
        return datetime.strptime(text.split()[0], "%Y-%m-%d").replace(hour=12, tzinfo=UTC)
    except ValueError as exc:
        raise session.error(f"current_time={text!r} does not begin with a date such as 2025-12-15") from exc
