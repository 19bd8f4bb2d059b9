"""What views have taken in, for those that take in utterances one by one or keep versions. Knows rows, and no mechanism."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ld_agent.errors import StoreError
from ld_agent.storage.columns import Vector, microseconds, moment, vector_from
from ld_agent.storage.sqlite import Store
from ld_agent.types import Record, Utterance


def unobserved(store: Store, key: int, view: str, session: int, but_speaker: str) -> list[Utterance]:
    """The utterances of a session that a view has not taken in yet, oldest first.

    Args:
        but_speaker: whose utterances do not count.
    """
    taken = """SELECT utterance FROM observed WHERE conversation = ?1 AND view = ?2"""
    waiting = store.db.rows(
        f"SELECT id FROM utterance WHERE conversation = ?1 AND session = ?3 AND speaker != ?4 AND id NOT IN ({taken})",
        (key, view, session, but_speaker),
    )
    wanted = {row[0] for row in waiting}
    return [u for u in session_utterances(store, key, session) if u.id in wanted] if wanted else []


def session_utterances(store: Store, key: int, session: int) -> list[Utterance]:
    """The utterances of a session, oldest first."""
    rows = store.db.rows(
        "SELECT id, speaker, text, at FROM utterance WHERE conversation = ? AND session = ? ORDER BY pk", (key, session)
    )
    return [Utterance(i, speaker, text, moment(at), session) for i, speaker, text, at in rows]


def observe(
    store: Store,
    key: int,
    view: str,
    utterance: Utterance,
    record: tuple[Callable[[str], Record], Vector] | None = None,
) -> Record | None:
    """Mark an utterance as taken in and store what a view keeps of it, in one transaction.

    Returns:
        the stored record; None where there is none to keep, or another process was first.

    Raises:
        StoreError: the conversation was deleted meanwhile.
    """
    with store.db.transaction():
        if not store.is_stored(key):
            raise StoreError(f"{store.path}: the conversation was deleted meanwhile; open it anew")
        if not store.db.execute("INSERT OR IGNORE INTO observed VALUES (?, ?, ?)", (key, view, utterance.id)):
            return None
        if record is None:
            return None
        make, vector = record
        made = make(store.new_record_id(key))
        store.insert_record(key, made, vector)
        return made


def newest_record(store: Store, key: int, view: str, at: datetime | None = None) -> tuple[Record, Vector | None] | None:
    """The record that a view made last, with its vector; None: it made none.

    Args:
        at: nothing younger than this; None: whatever its age.
    """
    row = store.db.row(
        "SELECT pk, vector FROM record WHERE conversation = ?1 AND view = ?2 AND (?3 IS NULL OR at <= ?3) "
        "ORDER BY pk DESC LIMIT 1",
        (key, view, None if at is None else microseconds(at)),
    )
    if row is None:
        return None
    records = store.records(key, [row[0]])
    return (records[0], vector_from(row[1])) if records else None


def digested_views(store: Store, key: int) -> dict[str, set[int]]:
    """The sessions that each view has taken in, by its name."""
    found: dict[str, set[int]] = {}
    for view, session in store.db.rows("SELECT view, session FROM digested WHERE conversation = ?", (key,)):
        found.setdefault(view, set()).add(session)
    return found


def record_counts(store: Store, key: int) -> dict[str, int]:
    """How many records each view has made, by its name."""
    return dict(
        store.db.rows("SELECT view, count(*) FROM record WHERE conversation = ? GROUP BY view ORDER BY view", (key,))
    )
