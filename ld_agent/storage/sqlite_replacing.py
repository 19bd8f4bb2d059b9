"""Takes edited and regenerated turns out of a conversation in SQLite. What was said stays in the file as history."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.storage.columns import json_text
from ld_agent.storage.connection import Connection

THESE = "(SELECT value FROM json_each(?2))"
ONLY_FROM_THESE = f"""sources != '[]' AND NOT EXISTS
    (SELECT 1 FROM json_each(record.sources) AS source WHERE source.value NOT IN {THESE})"""


def replace_utterances(db: Connection, key: int, utterance_ids: Sequence[str]) -> None:
    """Mark utterances as replaced; remove traits and records that came from nothing else.

    What a removed trait had superseded is active again.
    """
    values = (key, json_text(list(utterance_ids)))
    traits = f"SELECT id FROM trait WHERE conversation = ?1 AND source IN {THESE}"
    with db.transaction():
        db.execute(
            f"UPDATE utterance SET replaced = 1, extracted = 1 WHERE conversation = ?1 AND id IN {THESE}", values
        )
        db.execute(
            f"UPDATE trait SET superseded_by = NULL WHERE conversation = ?1 AND superseded_by IN ({traits})", values
        )
        db.execute(f"DELETE FROM trait WHERE conversation = ?1 AND source IN {THESE}", values)
        db.execute(f"DELETE FROM record WHERE conversation = ?1 AND {ONLY_FROM_THESE}", values)
        db.execute("DELETE FROM snapshot WHERE conversation = ?", (key,))
        db.execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (key,))
