"""Data of a server besides the conversations: API keys, answers to requests, and the directory of people.

Contains all SQL of the server. Knows nothing about HTTP; of keys it stores only hashes.
"""

from __future__ import annotations

import hashlib
import secrets
import string
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError
from ld_agent.storage.database import EVERYONE, Database, tenant_of
from ld_agent.storage.rows import PATIENCE, TRAITS, columns_of, from_row, from_rows, insert, insert_item, microseconds
from ld_agent.types import PersonSummary, SessionSummary, ThreadSummary, Utterance

if TYPE_CHECKING:
    from ld_agent.storage.store import Store

SCOPES = ("chat", "memory", "admin")
PREFIX_LENGTH = 12
BEGUN = "begun"
"""The finish of an answer that is still being generated, or was when its server was killed."""
ANSWERS_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key. ``rate``: requests a minute; None: the server's default."""

    prefix: str
    tenant: str
    scopes: tuple[str, ...]
    rate: int | None
    created: datetime
    revoked: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    ``reply`` is the id of the utterance with the text; while `BEGUN`, of the last utterance before it.
    """

    id: str
    thread: str
    request: str | None
    fingerprint: str
    reply: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    at: datetime


class Keys:
    """The API keys of a store.

    Args:
        apart: use a connection whose reads never wait for the store's writes; `close` releases it.
    """

    def __init__(self, store: Store, *, apart: bool = False) -> None:
        self._shared, self._connection = store.db, store.db.for_reading() if apart else store.db
        self._db = self._connection.acting_for(EVERYONE)  # keys are looked up before the tenant is known

    def close(self) -> None:
        """Release the connection, unless it is the store's."""
        if self._connection is not self._shared:
            self._connection.close()

    def create(self, tenant: str, scopes: Sequence[str], rate: int | None, now: datetime) -> str:
        """Create a key and return it; it is not stored in clear and cannot be shown again.

        Raises:
            InputError: an unknown scope.
        """
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise InputError(f"{unknown[0]!r} is not a scope; known: {', '.join(SCOPES)}")
        key = f"lda_{secrets.token_hex(4)}{secrets.token_urlsafe(32)}"
        row = {"prefix": key[:PREFIX_LENGTH], "hash": _hash(key), "tenant": tenant, "scopes": list(scopes)}
        insert(self._db, "api_key", row | {"rate": rate, "created": now})
        return key

    def all(self) -> list[ApiKey]:
        return from_rows(ApiKey, self._db.rows(f"SELECT {KEY} FROM api_key ORDER BY created, prefix"))

    def in_use(self) -> bool:
        """Whether there has ever been a key; from then on every request needs one."""
        return bool(self._db.row("SELECT 1 FROM api_key LIMIT 1"))

    def find(self, key: str) -> ApiKey | None:
        """The stored key, unless it is unknown or was revoked."""
        row = self._db.row(f"SELECT {KEY} FROM api_key WHERE hash = ? AND revoked IS NULL", (_hash(key),))
        return from_row(ApiKey, row) if row else None

    def valid(self, prefix: str) -> bool:
        """Whether the key with this prefix is still valid."""
        return bool(self._db.row("SELECT 1 FROM api_key WHERE prefix = ? AND revoked IS NULL", (prefix,)))

    def revoke(self, prefix: str, now: datetime) -> ApiKey:
        """Revoke the key with this prefix.

        Raises:
            InputError: no such key.
        """
        self._db.execute(
            "UPDATE api_key SET revoked = ? WHERE prefix = ? AND revoked IS NULL", (microseconds(now), prefix)
        )
        row = self._db.row(f"SELECT {KEY} FROM api_key WHERE prefix = ?", (prefix,))
        if not row:
            raise InputError(f"no key begins with {prefix!r}; `ld-agent keys list` shows the prefixes")
        return from_row(ApiKey, row)


class Answers:
    """The answers to requests."""

    def __init__(self, store: Store) -> None:
        self._db = store.db

    def keep(self, key: int, answer: Answer) -> None:
        """Store an answer; those older than a month are dropped."""
        # In a separate statement: rows of other conversations are not locked here, and two servers drop the same ones.
        self._db.of(key).execute("DELETE FROM answer WHERE at < ?", (microseconds(answer.at - ANSWERS_KEPT),))
        with self._db.transaction(key):
            self._db.of(key).execute(
                "DELETE FROM answer WHERE id = ?1 OR (conversation = ?2 AND request = ?3)",
                (answer.id, key, answer.request),
            )
            insert_item(self._db.of(key), "answer", key, answer)

    def of_request(self, key: int, request: str) -> Answer | None:
        """The answer to the request with this Idempotency-Key in a conversation."""
        query = f"SELECT {ANSWER} FROM answer WHERE conversation = ? AND request = ?"
        row = self._db.of(key).row(query, (key, request))
        return from_row(Answer, row) if row else None

    def find(self, answer_id: str) -> tuple[str, Answer] | None:
        """An answer by its id, with the id of its conversation; not one that has only begun."""
        everyone = self._db.acting_for(EVERYONE)
        of_answer = "SELECT c.id FROM answer a JOIN conversation c ON c.pk = a.conversation WHERE a.id = ?"
        whose = everyone.row(of_answer, (answer_id,))
        row = everyone.row(f"SELECT {ANSWER} FROM answer WHERE id = ?", (answer_id,))
        answer = from_row(Answer, row) if whose and row else None
        return None if answer is None or answer.finish == BEGUN else (str(whose[0]), answer)

    def text(self, key: int, answer: Answer) -> str:
        """The text of an answer; "" if its utterance is gone."""
        row = self._db.of(key).row("SELECT text FROM utterance WHERE conversation = ? AND id = ?", (key, answer.reply))
        return str(row[0]) if row else ""


class Directory:
    """Paged lists of stored people and their data."""

    def __init__(self, store: Store) -> None:
        self._store, self._db = store, store.db

    def people(self, prefix: str, after: str, most: int, containing: str = "") -> list[PersonSummary]:
        """The conversations whose id begins with a prefix and that follow another one, in the order of their ids."""
        within = "id < ?2" if prefix else "id NOT LIKE '%/%' AND ?2 = ''"
        return self._listed(
            self._db.acting_for(tenant_of(prefix)),
            rf"""id > ?1 AND {within}
                AND lower(substr(id, ?3)) LIKE ?4 ESCAPE '\'""",
            (after, prefix and prefix + chr(0x10FFFF), len(prefix) + 1, _pattern(containing)),
            most,
        )

    def everyone(self) -> list[PersonSummary]:
        """All conversations, of all tenants, in the order of their ids."""
        return self._listed(self._db.acting_for(EVERYONE), "1 = 1", (), sys.maxsize)

    def person(self, key: int) -> PersonSummary | None:
        """One conversation as a list shows it."""
        return next(iter(self._listed(self._db.of(key), "c.pk = ?1", (key,), 1)), None)

    def _listed(self, db: Database, where: str, values: tuple[Any, ...], most: int) -> list[PersonSummary]:
        rows = db.rows(
            f"""SELECT id, (SELECT count(*) FROM session WHERE conversation = c.pk),
                       (SELECT count(*) FROM utterance WHERE conversation = c.pk)
                           - (SELECT count(*) FROM utterance WHERE conversation = c.pk AND replaced = 1),
                       (SELECT count(*) FROM record WHERE conversation = c.pk),
                       (SELECT count(*) FROM trait WHERE conversation = c.pk AND superseded_by IS NULL AND ended_by = ''),
                       (SELECT at FROM utterance WHERE conversation = c.pk
                           AND pk = (SELECT max(pk) FROM utterance WHERE conversation = c.pk))
                FROM conversation c WHERE {where} ORDER BY id LIMIT {most}""",
            values,
        )
        return from_rows(PersonSummary, rows)

    def has_memory(self, key: int, target: str) -> bool:
        """Whether there is a record, trait or utterance with this id."""
        return bool(
            self._db.of(key).row(
                """SELECT 1 FROM record WHERE conversation = ?1 AND id = ?2
                   UNION ALL SELECT 1 FROM trait WHERE conversation = ?1 AND id = ?2
                   UNION ALL SELECT 1 FROM utterance WHERE conversation = ?1 AND id = ?2 AND replaced = 0""",
                (key, target),
            )
        )

    def threads(self, key: int) -> list[ThreadSummary]:
        """Threads, the latest first."""
        rows = self._db.of(key).rows(
            """SELECT s.thread, count(*), max(u.at) FROM utterance u
               JOIN session s ON s.conversation = u.conversation AND s.number = u.session
               WHERE u.conversation = ? AND replaced = 0 GROUP BY s.thread ORDER BY max(u.pk) DESC""",
            (key,),
        )
        return from_rows(ThreadSummary, rows)

    def sessions(self, key: int, before: int | None, most: int) -> list[SessionSummary]:
        """Sessions by number, the latest first; ``before``: only those with lower numbers."""
        rows = self._db.of(key).rows(
            """SELECT s.number, s.thread, s.closed, count(u.pk), min(u.at), max(u.at) FROM
                 (SELECT conversation, number, thread, closed FROM session o
                  WHERE conversation = ?1 AND (number < ?2 OR ?2 IS NULL) AND EXISTS
                    (SELECT 1 FROM utterance WHERE conversation = o.conversation AND session = o.number AND replaced = 0)
                  ORDER BY number DESC LIMIT ?3) AS s
               JOIN utterance u ON u.conversation = s.conversation AND u.session = s.number AND u.replaced = 0
               GROUP BY s.number, s.thread, s.closed ORDER BY s.number DESC""",
            (key, before, most),
        )
        return from_rows(SessionSummary, rows)

    def recalls(self, key: int, sessions: Sequence[int], most: int) -> dict[int, tuple[int, list[Utterance]]]:
        """By session, the number of replies that recalled its memories, and the latest of these replies."""
        rows = self._db.of(key).rows(
            f"""SELECT session, reply, replies FROM (
                  SELECT session, reply, count(*) OVER (PARTITION BY session) AS replies,
                         row_number() OVER (PARTITION BY session ORDER BY pk DESC) AS place
                  FROM (SELECT DISTINCT r.session, u.id AS reply, u.pk FROM record r
                        JOIN recall c ON c.conversation = r.conversation AND c.record = r.id
                        JOIN utterance u ON u.conversation = c.conversation AND u.id = c.utterance AND u.replaced = 0
                        WHERE r.conversation = ?1 AND {self._db.within("r.session", "?2")}) AS recalled) AS placed
                WHERE place <= ?3 ORDER BY session, place""",
            (key, list(sessions), most),
        )
        said = self._store.utterances_by_id(key, [reply for _, reply, _ in rows])
        by_session: dict[int, tuple[int, list[Utterance]]] = {}
        for session, reply, replies in rows:
            by_session.setdefault(session, (replies, []))[1].append(said[reply])
        return by_session

    def search(self, key: int, words: Sequence[str], most: int) -> list[Utterance]:
        """Utterances that contain all of some texts, whatever their case, the latest first."""
        contained = "".join(rf"AND lower(text) LIKE ?{n} ESCAPE '\' " for n in range(3, len(words) + 3))
        return self._store.select(key, f"{contained}ORDER BY pk DESC LIMIT ?2", most, *map(_pattern, words))

    def unfinished(self, *, set_aside: bool = True) -> list[str]:
        """Conversations with pending trait extraction.

        Args:
            set_aside: also those where it failed `PATIENCE` times.
        """
        failed = f"""AND NOT EXISTS (SELECT 1 FROM failure f WHERE f.conversation = u.conversation AND work = '{TRAITS}'
                     AND item = u.id AND attempts >= {PATIENCE})"""
        rows = self._db.acting_for(EVERYONE).rows(
            f"""SELECT DISTINCT c.id FROM utterance u JOIN conversation c ON c.pk = u.conversation
                WHERE extracted = 0 {"" if set_aside else failed}"""
        )
        return [row[0] for row in rows]

    def overdue(self, before: datetime) -> list[tuple[str, str]]:
        """(conversation, thread) of each open session in which nothing was said since a time."""
        rows = self._db.acting_for(EVERYONE).rows(
            """SELECT c.id, s.thread FROM session s JOIN conversation c ON c.pk = s.conversation
               WHERE s.closed = 0 AND
                 (SELECT max(at) FROM utterance u WHERE u.conversation = s.conversation AND u.session = s.number) < ?""",
            (microseconds(before),),
        )
        return [(row[0], row[1]) for row in rows]


KEY, ANSWER = (columns_of(kind) for kind in (ApiKey, Answer))
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _pattern(words: str) -> str:
    """The LIKE pattern for lower-case texts that contain these words."""
    words = words.translate(LOWER)  # only ASCII, as both engines do with a column, whatever the database's locale
    return "%" + words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
