"""Pending work that may fail: tried oldest first, counted where it fails, and set aside after a few failures.

Nothing that fails here keeps a conversation from opening or a turn from being answered. Knows no kind of work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ld_agent.errors import LDAgentError, StoreError
from ld_agent.steps import Steps
from ld_agent.storage.base import PATIENCE, Store


def attempted(
    store: Store, key: int, work: str, items: Sequence[str], do: Callable[[int], Steps[None]], waiting: str
) -> Steps[list[str]]:
    """Do a kind of pending work on its first items.

    All items are one batch, unless the oldest has failed before: it then goes alone, so that one bad item does not hold up
    the rest. A failure is counted against the oldest item.

    Args:
        items: utterance ids or session numbers, oldest first.
        do: the work on the first n items.
        waiting: what failed items wait for, in words ("to be summarized").

    Returns:
        notes on what failed; none if all went well.
    """
    if not items:
        return []
    failed_before = {failure.item for failure in store.failures(key) if failure.work == work}
    try:
        yield from do(1 if items[0] in failed_before else len(items))
    except Exception as exc:
        reason = str(exc) if isinstance(exc, LDAgentError) else f"{type(exc).__name__}: {exc}"
        with suppress(StoreError):  # what cannot be written to is reported by what comes next
            if store.failed(key, work, items[:1], reason):
                return [
                    f"{work}: {items[0]} failed {PATIENCE} times and was set aside ({reason}); `ld-agent memory rebuild` retries"
                ]
        return [f"{work}: {len(items)} waiting {waiting}: {reason}"]
    return []
