"""What was said in the conversations of a store, by sessions and threads, and imported history.

Imported lines are those with a source; they stand in threads of their own. What is learned from them is work of its own
(`Utterances.unextracted`, `Shelf.undigested`), so that no reply waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from ld_agent.errors import InputError
from ld_agent.storage.conversations import Conversations
from ld_agent.storage.rows import (
    PATIENCE,
    TRAITS,
    UTTERANCE,
    Line,
    from_row,
    from_rows,
    insert,
    insert_item,
    microseconds,
    moment,
    stored_value,
)
from ld_agent.types import Utterance, iso, utc

OPEN_SESSIONS = "session INDEXED BY session_open"
"""For ``closed = 0``: left to itself, SQLite reads every session of a conversation."""
EVERYTHING = 2**62
"""A LIMIT without effect; the engines spell "no limit" differently."""
IMPORTED = "EXISTS (SELECT 1 FROM utterance WHERE conversation = ?1 AND session = number AND source != '')"
"""SQL: whether a row of ``session`` is of imported history."""


class Utterances(Conversations):
    """See `ld_agent.storage.store.Store`."""

    def select(self, key: int, clauses: str, *values: Any) -> list[Utterance]:
        """The utterances of a conversation, its key is ?1, that SQL clauses select, in their order; without replaced ones."""
        query = f"SELECT {UTTERANCE} FROM utterance WHERE conversation = ?1 AND replaced = 0 {clauses}"
        return from_rows(Utterance, self.db.of(key).rows(query, (key, *values)))

    # ---- saying

    def append(
        self,
        key: int,
        speaker: str,
        text: str,
        at: datetime | None,
        beta: float,
        now: Callable[[], datetime],
        thread: str = "",
        channel: str = "chat",
        interrupted: bool = False,
        follows: bool = False,
    ) -> Utterance:
        """Store one utterance, without secrets; if the gap before it exceeds β, close the thread's session first (equation 4).

        Args:
            at: when it was said; None: now, but not before the thread's last utterance.
            beta: β in seconds.
            channel: how it reached the memory, one of `CHANNELS`.
            interrupted: it is a reply that ended early.
            follows: if ``at`` lies before the thread's last utterance, it was said at the time of that.

        Raises:
            InputError: ``at`` lies before the thread's last utterance.
        """
        text = self.redaction.stored(text)
        with self.db.transaction(key):
            session, last = self._last(key, thread)
            follows = follows or at is None
            at = utc(now(), "the clock") if at is None else at
            if last and follows:
                at = max(at, last)
            if last and at < last:
                raise InputError(
                    f"at={iso(at)} is before the last utterance of this conversation ({iso(last)}); "
                    "give a later time, or use another conversation id"
                )
            session = self._session_at(key, thread, session, last, at, beta)
            given = self.next_id(key, "utterances")
            utterance = Utterance(given, speaker, text, at.astimezone(UTC), session, channel, interrupted, _offset(at))
            insert_item(self.db.of(key), "utterance", key, utterance)
        return utterance

    def _last(self, key: int, thread: str) -> tuple[int, datetime | None]:
        """A thread's last session (0: none, or it is closed) and the time of its last line, if it has any."""
        row = self.db.of(key).row(
            """SELECT number, closed, (SELECT at FROM utterance WHERE conversation = ?1 AND session = number
                                       AND replaced = 0 ORDER BY pk DESC LIMIT 1)
               FROM session WHERE conversation = ?1 AND thread = ?2 ORDER BY number DESC LIMIT 1""",
            (key, thread),
        )
        number, closed, at = row or (0, 1, None)
        return 0 if closed else int(number), None if at is None else moment(at)

    def _session_at(self, key: int, thread: str, session: int, last: datetime | None, at: datetime, beta: float) -> int:
        """The session that a line of a thread belongs to, given `_last`: the running one, unless the gap exceeds β."""
        if session and last and (at - last).total_seconds() > beta:
            self.close_session(key, thread)
            session = 0
        if session:
            return session
        row = self.db.of(key).row("SELECT max(number) FROM session WHERE conversation = ?", (key,))
        number = int(row[0] or 0) + 1
        insert(self.db.of(key), "session", {"conversation": key, "number": number, "thread": thread})
        return number

    def close_session(self, key: int, thread: str = "") -> int | None:
        """Close the thread's open session; return its number, or None if none is open."""
        with self.db.transaction(key):
            where = "WHERE conversation = ? AND thread = ? AND closed = 0"
            row = self.db.of(key).row(f"SELECT number FROM {OPEN_SESSIONS} {where}", (key, thread))
            self.db.of(key).execute(f"UPDATE {OPEN_SESSIONS} SET closed = 1 {where}", (key, thread))
        return int(row[0]) if row else None

    # ---- what was said

    def utterances(self, key: int) -> list[Utterance]:
        return self.select(key, "ORDER BY pk")

    def session_utterances(self, key: int, session: int) -> list[Utterance]:
        return self.select(key, "AND session = ?2 ORDER BY pk", session)

    def latest_utterances(self, key: int, most: int) -> list[Utterance]:
        """The last utterances of all threads, oldest session first."""
        return self.select(key, "ORDER BY session DESC, pk DESC LIMIT ?2", most)[::-1]  # the order of an index

    def utterances_by_id(self, key: int, ids: Sequence[str]) -> dict[str, Utterance]:
        """Utterances by id; missing ones are omitted."""
        return {u.id: u for u in self.select(key, f"AND {self.db.within('id', '?2')}", list(ids))}

    def last_utterance(self, key: int, thread: str | None = None) -> Utterance | None:
        """The last utterance of a thread; None: of any thread, without imported history."""
        number, here = "SELECT max(number) FROM session WHERE conversation = ?1", ""
        if thread is None:
            number, here = f"{number} AND NOT {IMPORTED}", "AND source = ''"
            sessions = f"SELECT number FROM {OPEN_SESSIONS} WHERE conversation = ?1 AND closed = 0 UNION {number}"
        else:
            sessions = f"{number} AND thread = ?2"
        clauses = f"AND session IN ({sessions}) {here} ORDER BY pk DESC LIMIT 1"
        return next(iter(self.select(key, clauses, *(() if thread is None else (thread,)))), None)

    def open_utterances(self, key: int, thread: str | None = "") -> list[Utterance]:
        """The content of the short-term cache M_S: the utterances of the thread's open session; None: of all open
        sessions."""
        return self.select(
            key,
            f"""AND session IN (SELECT number FROM {OPEN_SESSIONS}
                WHERE conversation = ?1 AND closed = 0 AND (thread = ?2 OR ?2 IS NULL)) ORDER BY pk""",
            thread,
        )

    def last_of_each(self, key: int) -> list[Utterance]:
        """The last utterance of each open session, oldest session first."""
        last = "(SELECT max(pk) FROM utterance WHERE conversation = ?1 AND session = number AND replaced = 0)"
        number, pk = (
            f"SELECT {one} FROM {OPEN_SESSIONS} WHERE conversation = ?1 AND closed = 0" for one in ("number", last)
        )
        return self.select(key, f"AND session IN ({number}) AND pk IN ({pk}) ORDER BY session")

    def open_threads(self, key: int) -> list[str]:
        """The threads with an open session."""
        where = "WHERE conversation = ? AND closed = 0 ORDER BY number"
        return [row[0] for row in self.db.of(key).rows(f"SELECT thread FROM {OPEN_SESSIONS} {where}", (key,))]

    def thread_names(self, key: int) -> list[str]:
        """All threads."""
        return [
            row[0] for row in self.db.of(key).rows("SELECT DISTINCT thread FROM session WHERE conversation = ?", (key,))
        ]

    def thread_utterances(self, key: int, thread: str) -> list[Utterance]:
        """All utterances of a thread as their speakers know them: the text of those changed since is "", and forgotten ones are
        included."""
        rows = self.db.of(key).rows(
            f"""SELECT {UTTERANCE},
                edited IS NOT NULL OR EXISTS (SELECT 1 FROM change WHERE conversation = ?1 AND target = utterance.id)
                FROM utterance WHERE conversation = ?1 AND (replaced = 0 OR text = '')
                AND session IN (SELECT number FROM session WHERE conversation = ?1 AND thread = ?2) ORDER BY pk""",
            (key, thread),
        )
        return [from_row(Utterance, (*row[:2], "" if changed else row[2], *row[3:])) for *row, changed in rows]

    def speakers(self, key: int) -> list[str]:
        """Everyone who has spoken, in order."""
        rows = self.db.of(key).rows("SELECT first, name FROM speaker WHERE conversation = ?", (key,))
        return [name for _, name in sorted(rows)]

    def first_speaker(self, key: int, but: str) -> str | None:
        """Who spoke first here, except for one speaker; imported lines do not count."""
        where = "conversation = ? AND source = '' AND speaker != ? ORDER BY pk LIMIT 1"
        row = self.db.of(key).row(f"SELECT speaker FROM utterance WHERE {where}", (key, but))
        return row[0] if row else None

    def lines_before(self, key: int, utterance: Utterance, most: int) -> list[Utterance]:
        """What was said right before an utterance in its session, oldest first: at most so many lines."""
        before = "pk < (SELECT pk FROM utterance WHERE conversation = ?1 AND id = ?3)"
        clauses = f"AND session = ?2 AND {before} ORDER BY pk DESC LIMIT ?4"
        return self.select(key, clauses, utterance.session, utterance.id, most)[::-1]

    def answered(self, key: int, utterance: Utterance) -> str:
        """The text another speaker said right before an utterance in its session; "" for nothing."""
        last = self.lines_before(key, utterance, 1)
        return last[0].text if last and last[0].speaker != utterance.speaker else ""

    def unextracted(self, key: int, *, imported: bool = False, most: int | None = None) -> list[Utterance]:
        """Utterances whose traits have not been extracted yet, unless that kept failing.

        Args:
            imported: those of imported history instead of those said here, in order of time.
            most: at most this many; None: all.
        """
        failed = f"FROM failure WHERE conversation = ?1 AND work = '{TRAITS}' AND item = utterance.id"
        which, order = ("source != ''", "at, pk") if imported else ("source = ''", "pk")
        waiting = f"AND extracted = 0 AND {which} AND NOT EXISTS (SELECT 1 {failed} AND attempts >= {PATIENCE})"
        return self.select(key, f"{waiting} ORDER BY {order} LIMIT ?2", EVERYTHING if most is None else most)

    # ---- imported history

    def known_sources(self, key: int, sources: Sequence[str]) -> set[str]:
        """Those of some sources of `Line` that are stored."""
        where = f"conversation = ?1 AND source != '' AND {self.db.within('source', '?2')}"
        rows = self.db.of(key).rows(f"SELECT source FROM utterance WHERE {where}", (key, list(sources)))
        return {row[0] for row in rows}

    def edited_history(self, key: int, lines: Sequence[Line]) -> dict[str, Line]:
        """By id, the stored lines that were edited since where they come from; not those that were changed here."""
        edited = {line.source: (line, microseconds(line.edited)) for line in lines if line.edited}
        rows = self.db.of(key).rows(
            f"""SELECT id, source, text, edited FROM utterance
                WHERE conversation = ?1 AND replaced = 0 AND source != '' AND {self.db.within("source", "?2")}
                AND NOT EXISTS (SELECT 1 FROM change WHERE conversation = ?1 AND target = utterance.id)""",
            (key, list(edited)),
        )
        return {
            name: line
            for name, source, text, before in rows
            for line, at in [edited[source]]
            if at > (before or 0) and self.redaction.kept(line.text) != text
        }

    def note_edited(self, key: int, at: datetime, edited: datetime) -> None:
        """Note that the changes logged at a time are those of an edit where an imported line comes from, and not made here."""
        with self.db.transaction(key):
            changes = "FROM change WHERE conversation = ?1 AND at = ?2"
            self.db.of(key).execute(
                f"UPDATE utterance SET edited = ?3 WHERE conversation = ?1 AND id IN (SELECT target {changes})",
                (key, microseconds(at), microseconds(edited)),
            )
            self.db.of(key).execute(f"DELETE {changes}", (key, microseconds(at)))

    def add_history(self, key: int, lines: Sequence[Line], beta: float) -> int:
        """Store the messages of an imported history that are not stored yet, atomically; return how many.

        Each chat becomes a thread, and messages older than its last one another thread.

        Args:
            beta: β in seconds.
        """
        with self.db.transaction(key):
            known = self.known_sources(key, [line.source for line in lines])
            for line in [line for line in lines if line.edited and line.source in known]:
                self.db.of(key).execute(
                    """UPDATE utterance SET edited = ?1 WHERE conversation = ?2 AND source = ?3 AND text = ?4
                       AND (edited IS NULL OR edited < ?1)""",
                    (stored_value("edited", line.edited), key, line.source, self.redaction.kept(line.text)),
                )
            fresh = {line.source: line for line in lines if line.source not in known}
            first = int(self.next_id(key, "utterances", len(fresh))[1:]) - len(fresh) + 1
            threads: dict[str, tuple[int, datetime | None]] = {}
            ordered = sorted(fresh.values(), key=lambda line: line.at)
            texts = self.redaction.stored([line.text for line in ordered])
            for number, (line, text) in enumerate(zip(ordered, texts, strict=True), first):
                session = self._history_session(key, line, beta, threads)
                said = Utterance(f"u{number}", line.speaker, text, line.at, session, "import", False, _offset(line.at))
                more = {"source": line.source, "extracted": line.learned, "edited": line.edited}
                insert_item(self.db.of(key), "utterance", key, said, **more)
        return len(fresh)

    def _history_session(
        self, key: int, line: Line, beta: float, threads: dict[str, tuple[int, datetime | None]]
    ) -> int:
        """The session that a line belongs to: of its thread, or of a further one where the line is earlier than the last.

        Args:
            threads: `_last` of each thread, noted here.
        """
        for variant in count(1):
            name = line.thread if variant == 1 else f"{line.thread} ({variant})"
            if name not in threads:
                threads[name] = self._last(key, name)
            session, last = threads[name]
            if last is None or line.at >= last:
                break
        session = self._session_at(key, name, session, last, line.at, beta)
        threads[name] = session, line.at
        return session

    def close_history(self, key: int) -> None:
        """Close the sessions of imported history that are still open."""
        with self.db.transaction(key):
            self.db.of(key).execute(
                f"UPDATE session SET closed = 1 WHERE conversation = ?1 AND closed = 0 AND {IMPORTED}", (key,)
            )

    def to_learn(self, key: int) -> int:
        """The number of imported messages from which nothing was learned yet."""
        where = "conversation = ? AND extracted = 0 AND source != ''"
        return int(self.db.of(key).row(f"SELECT count(*) FROM utterance WHERE {where}", (key,))[0])


def _offset(at: datetime) -> int:
    """The offset from UTC of an aware time, in seconds."""
    return int((at.utcoffset() or timedelta()).total_seconds())
