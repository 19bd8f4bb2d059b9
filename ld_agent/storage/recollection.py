"""When a record was recalled, kept among its details: ``recalls``, the times of the last recalls, and ``recalled_before``,
how many there were before those. Pure; knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ld_agent.types import iso, utc

KEPT = 32
"""Times of recalls that a record keeps; earlier ones are only counted."""


def with_recall(details: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """Details after one more recall; noting the same time again changes nothing."""
    times = sorted({*details.get("recalls", ()), iso(at)})
    counted, kept = times[:-KEPT], times[-KEPT:]
    noted = dict(details) | {"recalls": kept}
    if counted:
        noted["recalled_before"] = details.get("recalled_before", 0) + len(counted)
    return noted


def recalls_before(details: Mapping[str, Any], at: datetime) -> tuple[int, datetime | None]:
    """How often a record was recalled before a time, and when last; recalls at that time and after do not count."""
    times = [time for time in details.get("recalls", ()) if time < iso(at)]
    return details.get("recalled_before", 0) + len(times), utc(times[-1]) if times else None
