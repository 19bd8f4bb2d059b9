"""Copies every conversation of one store into another, of any engines. Knows no SQL.

Each conversation is copied atomically and verified before the next, so that interrupted copies resume. Vectors and API
keys are not copied; vectors are recomputed from the texts when the store is next used.
"""

from __future__ import annotations

from collections.abc import Callable

from ld_agent.errors import StoreError
from ld_agent.storage.base import Store
from ld_agent.storage.exchange import export_lines, store_lines


def copy_store(source: Store, target: Store, advanced: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Copy every conversation that the target lacks; return the number copied.

    Args:
        advanced: called with how many conversations are done, of how many.

    Raises:
        StoreError: the target has a conversation with the same id but other content, or the copy differs.
    """
    if source.path == target.path:
        raise StoreError(f"{source.path} is both source and target; give another --to")
    chosen, copied = source.conversations(), 0
    for done, conversation in enumerate(chosen, 1):
        lines = list(export_lines(source, conversation.id))
        if target.find_conversation(conversation.id) is None:
            with target.writing(None):
                store_lines(target, (line.encode() for line in lines), source.path)
                _check_same(source, target, conversation.id, lines)
            copied += 1
        else:
            _check_same(source, target, conversation.id, lines)
        advanced(done, len(chosen))
    return copied


def _check_same(source: Store, target: Store, name: str, lines: list[str]) -> None:
    if lines != list(export_lines(target, name)):
        raise StoreError(
            f"conversation {name!r} of {target.path} differs from the one in {source.path}; "
            "delete it there, or copy into another store"
        )
