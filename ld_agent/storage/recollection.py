"""When records were recalled, kept among their details. Knows rows, and no mechanism.

The details hold ``recalls``, the times of the last recalls, and ``recalled_before``, how many there were before those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ld_agent.storage.columns import json_text
from ld_agent.storage.sqlite import Store
from ld_agent.types import iso, utc

KEPT = 32  # times of recalls that a record keeps; the ones before are only counted


def note_recall(store: Store, key: int, records: Sequence[int], at: datetime) -> None:
    """Note that records were recalled at a time, in one transaction; noting it again for the same time changes nothing.

    Args:
        records: primary keys.
    """
    with store.db.transaction():
        for pk, record in zip(records, store.records(key, records), strict=True):
            details = dict(record.details)
            times = sorted({*details.get("recalls", ()), iso(at)})
            forgotten, details["recalls"] = times[:-KEPT], times[-KEPT:]
            if forgotten:
                details["recalled_before"] = details.get("recalled_before", 0) + len(forgotten)
            store.db.execute("UPDATE record SET details = ? WHERE pk = ?", (json_text(details), pk))


def recalls_before(details: Mapping[str, Any], at: datetime) -> tuple[int, datetime | None]:
    """How often a record was recalled before a time, and when last; recalls at that time and after do not count."""
    times = [time for time in details.get("recalls", ()) if time < iso(at)]
    return details.get("recalled_before", 0) + len(times), utc(times[-1]) if times else None
