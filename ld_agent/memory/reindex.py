"""Makes every vector of a store anew, after a change of encoder; broken off, it is finished by calling it again."""

from __future__ import annotations

from collections.abc import Callable

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.storage.sqlite import Store

BATCH = 256


def reindex(store: Store, encoder: SentenceEncoder, progress: Callable[[int, int], None] | None = None) -> int:
    """Encode all records and traits of all conversations; returns how many.

    Args:
        progress: called with (done, total).
    """
    store.change_encoder(encoder.name, encoder.dimension)
    waiting = [(table, key, text) for table in ("record", "trait") for key, text in store.without_vector(table)]
    for start in range(0, len(waiting), BATCH):
        batch = waiting[start : start + BATCH]
        vectors = encoder.encode([text for _, _, text in batch])
        with store.db.transaction():
            for (table, key, _), vector in zip(batch, vectors, strict=True):
                store.set_vector(table, key, vector)
        if progress is not None:
            progress(start + len(batch), len(waiting))
    return len(waiting)
