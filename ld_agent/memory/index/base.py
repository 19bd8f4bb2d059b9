"""The interface between memory mechanisms and search: a query with limits in, records with scores out.

`ld_agent.memory.index.records` implements it in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ld_agent.types import Recalled

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) during long work, until done equals total."""


def no_progress(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Search:
    """A query and its limits.

    Attributes:
        text: the query, for scorers that look at its words, names and dates.
        vector: (dimension,) unit vector of the query.
        at: records younger than this are not found.
        k: maximum number of records.
        gamma: γ; what it bounds is the scorer's `admission`.
        topics: V_q, without repetitions.
        tau: τ in seconds; None: no decay.
        scorer: by name, see `ld_agent.memory.scoring.SCORERS`.
    """

    text: str
    vector: NDArray[np.float32]
    at: datetime
    k: int
    gamma: float
    topics: tuple[str, ...] = ()
    tau: float | None = None
    scorer: str = "dense"


class Index(Protocol):
    """The records of one view of one conversation."""

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        ...

    def search(self, search: Search) -> list[Recalled]:
        """Return the k best records by equations (1)–(3) or another scorer, best first; empty: no relevant memory.

        Finds records stored since the last search, by this process or another.

        Raises:
            StoreError: the conversation was deleted.
        """
        ...
