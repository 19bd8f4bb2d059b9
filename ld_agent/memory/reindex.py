"""Re-encodes every text of a store after a change of encoder; if interrupted, calling it again finishes the work."""

from __future__ import annotations

from collections.abc import Callable

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.storage.store import Store

BATCH = 256


def reindex(store: Store, encoder: SentenceEncoder, progress: Callable[[int, int], None] | None = None) -> int:
    """Encode all records and traits of all conversations; returns how many.

    Args:
        progress: called with (done, total).
    """
    store.change_encoder(encoder.name, encoder.dimension)
    waiting = store.without_vector()
    for start in range(0, len(waiting), BATCH):
        batch = waiting[start : start + BATCH]
        vectors = encoder.encode([text for _, _, text in batch])
        store.set_any_vectors([(table, key, vector) for (table, key, _), vector in zip(batch, vectors, strict=True)])
        if progress is not None:
            progress(start + len(batch), len(waiting))
    return len(waiting)
