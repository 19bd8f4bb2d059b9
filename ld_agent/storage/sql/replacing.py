"""Removes edited and regenerated turns from a conversation. Their texts stay in the store as history."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.storage.database import Database
from ld_agent.storage.sql.personas import HOLDS_AGAIN


def replace_utterances(db: Database, key: int, utterance_ids: Sequence[str]) -> None:
    """Mark utterances as replaced; remove traits and records that came only from them.

    Traits that these utterances ended become active again.
    """
    values = (key, list(utterance_ids))
    from_these = db.within("source", "?2")
    only_from_these = f"""sources != '[]' AND NOT EXISTS
        (SELECT 1 FROM {db.elements("record.sources")} AS source WHERE NOT {db.within("source.value", "?2")})"""
    traits = f"SELECT id FROM trait WHERE conversation = ?1 AND {from_these}"
    db = db.of(key)
    with db.transaction(key):
        db.execute(
            f"UPDATE utterance SET replaced = 1, extracted = 1 WHERE conversation = ?1 AND {db.within('id', '?2')}",
            values,
        )
        db.execute(
            f"""UPDATE trait SET {HOLDS_AGAIN}
                WHERE conversation = ?1 AND ({db.within("ended_by", "?2")} OR superseded_by IN ({traits}))""",
            values,
        )
        db.execute(f"DELETE FROM trait WHERE conversation = ?1 AND {from_these}", values)
        gone = f"record IN (SELECT id FROM record WHERE conversation = ?1 AND {only_from_these})"
        db.execute(f"DELETE FROM recall WHERE conversation = ?1 AND ({db.within('utterance', '?2')} OR {gone})", values)
        db.execute(f"DELETE FROM record WHERE conversation = ?1 AND {only_from_these}", values)
        db.execute("DELETE FROM snapshot WHERE conversation = ?", (key,))
        db.execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (key,))
