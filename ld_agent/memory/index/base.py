"""The seam between memory mechanisms and whatever finds their records: a search with its limits in, records with numbers out.

`ld_agent.memory.index.records` is one implementation, in memory; a database with vectors and full text may be another.
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
"""Is told (what, done, total) of work that may take long, until done is total."""


def untold(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for, and within which limits.

    Attributes:
        text: the query, for scorers that look at its words, names and dates.
        vector: (dimension,) unit vector of the query.
        at: nothing younger than this is found.
        k: most records.
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
        """The k best records by equations (1)–(3) or another scorer, best first; none: no relevant memory.

        What was stored since the last search, by this process or another, is found.

        Raises:
            StoreError: the conversation was deleted.
        """
        ...
