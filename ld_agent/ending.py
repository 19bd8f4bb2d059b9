"""Ends a thread's running session explicitly: pending work is finished, then the session is closed and digested."""

from __future__ import annotations

from datetime import datetime

from ld_agent.errors import InputError
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.relation import Relation
from ld_agent.steps import Steps
from ld_agent.types import Record, utc


def session_ended(relation: Relation, cache: ShortTermCache, at: datetime | str | None) -> Steps[list[Record]]:
    """End the running session, as steps; return the records made from it.

    Raises:
        InputError: ``at`` is before its last utterance.
    """
    store = relation.resources.store
    if not cache.utterances:
        return []
    last = cache.utterances[-1]
    if at is not None and utc(at) < last.at:
        raise InputError(f"at={at} is before the session's last utterance ({last.at.isoformat()}); give a later time")
    yield from relation.pending(answered=True)
    relation.refresh()
    with store.writing(relation.key):
        cache.reload()
        if cache.utterances and cache.utterances[-1].session == last.session:
            cache.end()
    yield from relation.pending(answered=True)
    return store.records(relation.key, session=last.session)
