"""The recall history of a record, kept in its details: ``recalls``, the times of the latest recalls, and
``recalled_before``, the number of earlier ones. Pure functions; knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ld_agent.types import iso, utc

KEPT = 32
"""Number of recall times kept per record; earlier ones are only counted."""


def with_recall(details: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """Details after one more recall; idempotent for the same time."""
    times = sorted({*details.get("recalls", ()), iso(at)})
    counted, kept = times[:-KEPT], times[-KEPT:]
    noted = dict(details) | {"recalls": kept}
    if counted:
        noted["recalled_before"] = details.get("recalled_before", 0) + len(counted)
    return noted


def recalls_before(details: Mapping[str, Any], at: datetime) -> tuple[int, datetime | None]:
    """How often a record was recalled before a time, and when last; recalls at that time or later do not count."""
    times = [time for time in details.get("recalls", ()) if time < iso(at)]
    return details.get("recalled_before", 0) + len(times), utc(times[-1]) if times else None
