"""Pending work that may fail: tried oldest first; failures are counted, and after a few the work is set aside.

No failure here prevents a conversation from opening or a turn from being answered. Work that was set aside gets one
more attempt whenever its conversation is opened. Knows no particular kind of work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ld_agent.errors import LDAgentError, StoreError
from ld_agent.steps import Steps, answered
from ld_agent.storage.base import PATIENCE, Store


def attempted(
    store: Store, key: int, work: str, items: Sequence[str], do: Callable[[Sequence[str]], Steps[None]], waiting: str
) -> Steps[list[str]]:
    """Do one kind of pending work on some items, oldest first.

    Items form one batch, except that an item that failed before is tried alone, so that a bad item does not delay the
    rest for long. A failure is counted against the oldest item of its batch; later items are left for another time.

    Args:
        items: utterance ids or session numbers, oldest first.
        do: the work, on some of the items.
        waiting: what the failed items are waiting for, in words ("to be summarized").

    Returns:
        notes on what failed; none if all went well.
    """
    failed_before = {failure.item for failure in store.failures(key) if failure.work == work} if items else set()
    start = 0
    while start < len(items):
        stop = start + 1
        while items[start] not in failed_before and stop < len(items) and items[stop] not in failed_before:
            stop += 1
        try:
            yield from answered(do(items[start:stop]))
        except Exception as exc:
            reason = str(exc) if isinstance(exc, LDAgentError) else f"{type(exc).__name__}: {exc}"
            with suppress(StoreError):  # whatever writes next reports a store that cannot be written
                if store.failed(key, work, items[start : start + 1], reason):
                    aside = f"{work}: {items[start]} failed {PATIENCE} times and was set aside"
                    return [f"{aside} ({reason}); `ld-agent memory rebuild` retries"]
            return [f"{work}: {len(items) - start} waiting {waiting}: {reason}"]
        start = stop
    return []
