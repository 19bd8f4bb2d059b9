"""What memory mechanisms ask an index: a query with limits, and progress to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

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
