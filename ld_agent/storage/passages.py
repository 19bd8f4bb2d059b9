"""The table of passages: what stands beside a record so that one remark finds it. Derived from what is stored, so that it
may be missing and is made anew; it goes with its record. Knows rows, not what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ld_agent.storage.columns import json_text, moment
from ld_agent.storage.sqlite import Store
from ld_agent.types import Utterance

Row = tuple[str, bytes]
"""Words as JSON text, and vectors."""


def stored_words(store: Store, records: Sequence[int]) -> dict[int, str]:
    """The words of those records that have a row, by the record's primary key."""
    return dict(_column(store, "words", records))


def stored_vectors(store: Store, records: Sequence[int]) -> dict[int, bytes]:
    """The vectors of those records that have a row, by the record's primary key."""
    return dict(_column(store, "vectors", records))


def _column(store: Store, column: str, records: Sequence[int]) -> list[tuple[int, Any]]:
    return store.db.rows(
        f"SELECT record, {column} FROM passage WHERE record IN (SELECT value FROM json_each(?))",
        (json_text(list(records)),),
    )


def store_passages(store: Store, made: Mapping[int, Row]) -> None:
    """Store rows, in one transaction; a record that was deleted meanwhile gets none.

    Raises:
        EncoderMismatchError: another process has changed the store's encoder.
    """
    with store.db.transaction():
        store.require_same_encoder()
        for record, (words, vectors) in made.items():
            store.db.execute(
                "INSERT OR REPLACE INTO passage SELECT pk, ?, ? FROM record WHERE pk = ?", (words, vectors, record)
            )


def texts_and_sources(store: Store, key: int, records: Sequence[int]) -> list[tuple[int, str, list[Utterance]]]:
    """Records of a conversation by primary key, each with its text and the utterances that it came from, in order."""
    rows = store.db.rows(
        "SELECT pk, text, sources FROM record WHERE conversation = ? AND pk IN (SELECT value FROM json_each(?)) ORDER BY pk",
        (key, json_text(list(records))),
    )
    listed = [(pk, text, json.loads(sources)) for pk, text, sources in rows]
    said = utterances_by_id(store, key, sorted({source for _, _, sources in listed for source in sources}))
    return [(pk, text, [said[source] for source in sources if source in said]) for pk, text, sources in listed]


def utterances_by_id(store: Store, key: int, ids: Sequence[str]) -> dict[str, Utterance]:
    """Utterances of a conversation by id; one that is not stored is left out."""
    return {
        i: Utterance(i, speaker, text, moment(at), session)
        for i, speaker, text, at, session in store.db.rows(
            "SELECT id, speaker, text, at, session FROM utterance "
            "WHERE conversation = ? AND id IN (SELECT value FROM json_each(?))",
            (key, json_text(list(ids))),
        )
    }
