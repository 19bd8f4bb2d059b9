"""Stores imported history: messages of other programs, each once, in threads of their own. Knows no format.

Imported lines are those with a source. What is learned from them is work of its own (`Store.unextracted`,
`Shelf.undigested`), so that no reply waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ld_agent.errors import StoreError
from ld_agent.storage.columns import microseconds, moment
from ld_agent.storage.database import Database
from ld_agent.storage.rows import Line
from ld_agent.storage.sql.rows import offset_of

EVERYTHING = 2**62
"""A LIMIT without effect; the engines spell "no limit" differently."""
IMPORTED = "EXISTS (SELECT 1 FROM utterance WHERE conversation = ?1 AND session = number AND source != '')"
"""SQL: whether a row of ``session`` is of imported history."""
ANY_IMPORTED = "EXISTS (SELECT 1 FROM utterance WHERE conversation = ?1 AND source != '')"
"""SQL: whether a conversation has any."""


class HistoryStore:
    """The part of a store that keeps imported history; see `ld_agent.storage.base.Store`."""

    db: Database

    def known_sources(self, key: int, sources: Sequence[str]) -> set[str]:
        where = f"conversation = ?1 AND source != '' AND {self.db.within('source', '?2')}"
        rows = self.db.of(key).rows(f"SELECT source FROM utterance WHERE {where}", (key, list(sources)))
        return {row[0] for row in rows}

    def add_history(self, key: int, lines: Sequence[Line], beta: float) -> int:
        with self.db.transaction(key):
            db, known = self.db.of(key), self.known_sources(key, [line.source for line in lines])
            fresh = {line.source: line for line in lines if line.source not in known}
            given = db.rows(
                "UPDATE conversation SET utterances = utterances + ? WHERE pk = ? RETURNING utterances",
                (len(fresh), key),
            )
            if not given:
                raise StoreError(f"{db.path}: the conversation was deleted during the import")
            threads = _Threads(db, key, beta)
            first = int(given[0][0]) - len(fresh) + 1
            for number, line in enumerate(sorted(fresh.values(), key=lambda line: line.at), first):
                db.execute(
                    """INSERT INTO utterance
                       (conversation, id, session, speaker, text, at, extracted, channel, source, utc_offset)
                       VALUES (?, ?, ?, ?, ?, ?, ?, 'import', ?, ?)""",
                    (
                        *(key, f"u{number}", threads.session(line.thread, line.at), line.speaker, line.text),
                        *(microseconds(line.at), int(line.learned), line.source, offset_of(line.at)),
                    ),
                )
        return len(fresh)

    def close_history(self, key: int) -> None:
        with self.db.transaction(key):
            self.db.of(key).execute(
                f"UPDATE session SET closed = 1 WHERE conversation = ?1 AND closed = 0 AND {IMPORTED}", (key,)
            )

    def to_learn(self, key: int) -> int:
        where = "conversation = ? AND extracted = 0 AND source != ''"
        return int(self.db.of(key).row(f"SELECT count(*) FROM utterance WHERE {where}", (key,))[0])

    def first_speaker(self, key: int, but: str) -> str | None:
        where = "conversation = ? AND source = '' AND speaker != ? ORDER BY pk LIMIT 1"
        row = self.db.of(key).row(f"SELECT speaker FROM utterance WHERE {where}", (key, but))
        return row[0] if row else None


class _Threads:
    """The sessions in which lines are stored: that of their thread, or of another where the line is earlier than its last."""

    def __init__(self, db: Database, key: int, beta: float) -> None:
        self._db, self._key, self._beta = db, key, beta
        self._last: dict[str, tuple[int, datetime] | None] = {}
        """Session and time of each thread's last line."""
        row = db.row("SELECT max(number) FROM session WHERE conversation = ?", (key,))
        self._sessions = int(row[0] or 0)

    def session(self, thread: str, at: datetime) -> int:
        """The number of the session that a line belongs to."""
        name, variant = thread, 1
        while (last := self._state(name)) is not None and at < last[1]:
            variant += 1
            name = f"{thread} ({variant})"
        session = last[0] if last else 0
        if last is None or not session or (at - last[1]).total_seconds() > self._beta:
            session = self._opened(name, session)
        self._last[name] = session, at
        return session

    def _state(self, thread: str) -> tuple[int, datetime] | None:
        if thread not in self._last:
            row = self._db.row(
                """SELECT number, closed, (SELECT max(at) FROM utterance WHERE conversation = ?1 AND session = number)
                   FROM session WHERE conversation = ?1 AND thread = ?2 ORDER BY number DESC LIMIT 1""",
                (self._key, thread),
            )
            self._last[thread] = (0 if row[1] else int(row[0]), moment(row[2])) if row and row[2] is not None else None
        return self._last[thread]

    def _opened(self, thread: str, before: int) -> int:
        """Open a session of a thread after closing the one ``before``, if it is open (0: none)."""
        if before:
            self._db.execute("UPDATE session SET closed = 1 WHERE conversation = ? AND number = ?", (self._key, before))
        self._sessions += 1
        self._db.execute(
            "INSERT INTO session (conversation, number, thread) VALUES (?, ?, ?)", (self._key, self._sessions, thread)
        )
        return self._sessions
