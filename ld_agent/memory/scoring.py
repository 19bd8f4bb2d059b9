"""Equations (1)–(3) of LD-Agent as pure functions over arrays: n records at once, no store, no text, no clock. And the
scorers by name: ``paper`` is equation (2) as it stands, ``hybrid`` is ours, ``dense`` and ``bm25`` are simple rivals to
measure them by.

Symbols: V_q, V_k topic sets of query and record; t age of the record in seconds; τ time constant in seconds;
s_sem cosine of the embeddings; s_top topic overlap; λ_t time decay; γ semantic threshold; k records wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ld_agent.errors import ConfigError
from ld_agent.memory.hybrid import TIME, formula, weighted

Floats = NDArray[np.floating]
Counts = NDArray[np.integer]


def topic_overlap(shared: Counts, query_size: int, record_sizes: Counts) -> NDArray[np.float64]:
    """Equation (1): ½ (|V_q ∩ V_k| / |V_q| + |V_q ∩ V_k| / |V_k|), and 0 where either set is empty.

    Args:
        shared: (n,) |V_q ∩ V_k|.
        query_size: |V_q|.
        record_sizes: (n,) |V_k|.

    Returns:
        (n,) s_top in [0, 1].
    """
    if query_size == 0:
        return np.zeros(len(shared))
    overlap: NDArray[np.float64] = 0.5 * (shared / query_size + shared / np.maximum(record_sizes, 1))
    return overlap


def time_decay(age: Floats, tau: float | None) -> NDArray[np.float64]:
    """λ_t = exp(-t / τ) of equation (2).

    Args:
        age: (n,) t in seconds, at least 0.
        tau: τ in seconds; None: no decay.

    Returns:
        (n,) λ in (0, 1]; ages so great that the exponential would vanish keep the smallest positive number.
    """
    if tau is None:
        return np.ones(len(age))
    decay: NDArray[np.float64] = np.maximum(np.exp(-age / tau), np.finfo(np.float64).tiny)
    return decay


@dataclass(frozen=True, slots=True)
class Terms:
    """What a scorer may use, each (n,): s_sem, s_top and λ, and by name what only some scorers look at."""

    s_sem: Floats
    s_top: Floats
    decay: Floats
    more: Mapping[str, Floats] = field(default_factory=dict)


def paper_score(terms: Terms) -> NDArray[np.float64]:
    """Equation (2): s_overall = λ_t (s_sem + s_top), (n,)."""
    score: NDArray[np.float64] = terms.decay * (terms.s_sem + terms.s_top)
    return score


def hybrid_score(terms: Terms) -> NDArray[np.float64]:
    """s_sem and the further terms, weighted, and w_λ λ, (n,); see `ld_agent.memory.hybrid`."""
    score: NDArray[np.float64] = weighted({"s_sem": terms.s_sem, **terms.more}) + TIME * terms.decay
    return score


def dense_score(terms: Terms) -> NDArray[np.float64]:
    """s_sem alone, (n,)."""
    return np.asarray(terms.s_sem, np.float64)


def bm25_score(terms: Terms) -> NDArray[np.float64]:
    """s_word alone, (n,): BM25 over what was said and its summary."""
    return np.asarray(terms.more["s_word"], np.float64)


SCORERS: dict[str, Callable[[Terms], NDArray[np.float64]]] = {
    "paper": paper_score,
    "hybrid": hybrid_score,
    "dense": dense_score,
    "bm25": bm25_score,
}
FORMULAS = {"paper": "λ (s_sem + s_top)", "hybrid": formula(), "dense": "s_sem", "bm25": "s_word"}
"""Each scorer's sum, as it is shown beside the numbers."""
LOOKS_AT_PASSAGES = frozenset({"hybrid", "bm25"})
"""The scorers that need what was said behind each record, and not its summary alone."""


def scorer(name: str) -> Callable[[Terms], NDArray[np.float64]]:
    """Return a named scorer.

    Raises:
        ConfigError: no scorer has that name.
    """
    if name not in SCORERS:
        raise ConfigError(f"memory.scorer={name!r} is unknown; known scorers: {', '.join(SCORERS)}")
    return SCORERS[name]


def best(score: Floats, eligible: NDArray[np.bool_], at: Floats, k: int) -> NDArray[np.intp]:
    """Equation (3): rows of the k best eligible records, best first; among equals the newer, then the later row.

    Args:
        score: (n,) s_overall.
        eligible: (n,) s_sem > γ and not younger than the query.
        at: (n,) time of the record, seconds.
        k: how many at most; 0 gives none.

    Returns:
        (m,) row numbers, m ≤ k; m = 0 is the paper's "no relevant memory".
    """
    n = len(score)
    if 0 < k < n:
        open_to = np.where(eligible, score, -np.inf)
        eligible = eligible & (open_to >= np.partition(open_to, n - k)[n - k])
    rows = np.flatnonzero(eligible) if k > 0 else np.zeros(0, np.intp)
    return rows[np.lexsort((-rows, -at[rows], -score[rows]))][:k]
