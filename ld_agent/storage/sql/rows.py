"""Converts table rows to the package's types. Knows columns, but runs only the statement that selects utterances."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from ld_agent.storage.columns import json_text, microseconds, moment
from ld_agent.storage.database import Database
from ld_agent.storage.rows import FLAG_COLUMNS, JSON_COLUMNS, TIME_COLUMNS
from ld_agent.types import Record, Utterance

UTTERANCE = "id, speaker, text, at, session, channel, interrupted, utc_offset"
RECORD = "id, view, text, at, session, topics, sources, fallback, details, pinned, channel, said_by"


def plain_value(column: str, stored: Any) -> Any:
    """A value of a row of `COLUMNS` from its column."""
    if column in TIME_COLUMNS:
        return None if stored is None else moment(stored)
    if column in JSON_COLUMNS:
        return json.loads(stored)
    return bool(stored) if column in FLAG_COLUMNS else stored


def stored_value(column: str, value: Any) -> Any:
    """What `plain_value` reads, as a statement's parameter."""
    if column in TIME_COLUMNS:
        return None if value is None else microseconds(value)
    return json_text(value) if column in JSON_COLUMNS else value


def utterances(db: Database, where: str, values: tuple[Any, ...]) -> list[Utterance]:
    """The utterances selected by a WHERE clause, in its order, without replaced ones."""
    return list(map(_utterance, db.rows(f"SELECT {UTTERANCE} FROM utterance WHERE replaced = 0 AND {where}", values)))


def thread_utterances(db: Database, key: int, thread: str) -> list[Utterance]:
    """See `Store.thread_utterances`."""
    rows = db.rows(
        """SELECT id, speaker,
                  CASE WHEN EXISTS (SELECT 1 FROM change WHERE conversation = ?1 AND target = utterance.id)
                       THEN '' ELSE text END,
                  at, session, channel, interrupted, utc_offset FROM utterance
           WHERE conversation = ?1 AND (replaced = 0 OR text = '')
             AND session IN (SELECT number FROM session WHERE conversation = ?1 AND thread = ?2) ORDER BY pk""",
        (key, thread),
    )
    return list(map(_utterance, rows))


def _utterance(row: tuple[Any, ...]) -> Utterance:
    """An utterance from the columns `UTTERANCE`."""
    i, speaker, text, at, session, channel, interrupted, offset = row
    return Utterance(i, speaker, text, moment(at), session, channel, bool(interrupted), offset)


def offset_of(at: datetime) -> int:
    """The offset from UTC of an aware time, in seconds."""
    return int((at.utcoffset() or timedelta()).total_seconds())


def record(row: tuple[Any, ...]) -> Record:
    """A record from the columns `RECORD`."""
    i, view, text, at, session, topics, sources, fallback, details, pinned, channel, said_by = row
    return Record(
        id=i,
        view=view,
        text=text,
        at=moment(at),
        session=session,
        topics=tuple(json.loads(topics)),
        sources=tuple(json.loads(sources)),
        fallback=bool(fallback),
        details=json.loads(details),
        pinned=bool(pinned),
        channel=channel,
        said_by=tuple(json.loads(said_by)),
    )


def record_values(record: Record) -> tuple[Any, ...]:
    """The values of the columns `RECORD`."""
    return (
        record.id,
        record.view,
        record.text,
        microseconds(record.at),
        record.session,
        json_text(record.topics),
        json_text(record.sources),
        record.fallback,
        json_text(dict(record.details)),
        record.pinned,
        record.channel,
        json_text(record.said_by),
    )
