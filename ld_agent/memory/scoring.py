"""Equations (1)–(3) of LD-Agent as pure functions over arrays: n records at once, no store, no text, no clock. Also the
named scorers: ``paper`` is equation (2) exactly, ``hybrid`` is ours, ``dense`` and ``bm25`` are simple baselines.

    s_overall = W · (s_sem, s_sent, s_word, s_pass, s_like, s_date, s_new) + w_λ λ_t                       (hybrid)

s_sem is the paper's. s_sent is the cosine of the summary's best sentence; s_word is BM25 over utterances and summary,
averaged with BM25 over the utterances of the one speaker that the question names; s_pass scores the best two-turn
passages (meaning, rare words, speaker); s_like scores passages similar to the best ones overall (relevance feedback:
they use other words than the question); s_date is the closeness to the named dates; s_new is λ_t for a message that goes
on with what was talked about, and 0 for a question (`goes_on`). Passages are combined by a soft
maximum: the best one dominates, and a session that returns to the subject, as lists and habits do, scores higher than
one that mentions it once. Every term has a fixed scale, independent of other records. The weights were fitted by
logistic regression on LoCoMo conversations with leave-one-out validation. Time is added, not multiplied: it decides
between records that match equally well, and never erases an old one. s_near, the greatest cosine of the summary or any
passage, is not part of the sum, but decides whether a record is eligible.

Symbols: V_q, V_k topic sets of query and record; t age of the record in seconds; τ time constant in seconds;
s_sem cosine of the embeddings; s_top topic overlap; λ_t time decay; γ semantic threshold; k records wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ld_agent.config.named import named

Floats = NDArray[np.floating]
Counts = NDArray[np.integer]

WEIGHTS: Mapping[str, float] = {
    "s_sem": 0.95,
    "s_sent": 4.7,
    "s_word": 1.35,
    "s_pass": 6.6,
    "s_like": 1.65,
    "s_date": 4.7,
    "s_new": 10.0,
}
TIME = 0.01
"""w_λ"""
TERMS: Mapping[str, str] = {
    "s_sem": "the memory means the same",
    "s_top": "topics in common",
    "s_sent": "its best sentence means the same",
    "s_word": "rare words in common",
    "s_pass": "what was said then means the same",
    "s_like": "resembles the other places that fit",
    "s_date": "close to a date in the question",
    "s_new": "talked about lately",
    "s_near": "the nearest place; decides whether it counts",
    "decay": "how recent it is",
}
"""The terms of scores, in words and in the order of the documentation."""
FIRST_LOOK: Mapping[str, float] = {**WEIGHTS, "s_sem": 4.0}
"""The weights for choosing candidates; before passages are read, s_sem also represents their meaning."""


def topic_overlap(shared: Counts, query_size: int, record_sizes: Counts) -> NDArray[np.float64]:
    """Equation (1): ½ (|V_q ∩ V_k| / |V_q| + |V_q ∩ V_k| / |V_k|), and 0 if either set is empty.

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
        (n,) λ in (0, 1]; if the exponential underflows, the smallest positive number.
    """
    if tau is None:
        return np.ones(len(age))
    decay: NDArray[np.float64] = np.maximum(np.exp(-age / tau), np.finfo(np.float64).tiny)
    return decay


def goes_on(words: int) -> float:
    """How far a message of that many words goes on with what was talked about lately, rather than asks about any time: from 0
    up to 18 words, as questions have, to 1 from 40."""
    return min(1.0, max(0.0, (words - 18) / 22))


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms available to a scorer, each (n,): s_sem, s_top and λ, and by name those of particular scorers."""

    s_sem: Floats
    s_top: Floats
    decay: Floats
    more: Mapping[str, Floats] = field(default_factory=dict)


def paper_score(terms: Terms) -> NDArray[np.float64]:
    """Equation (2): s_overall = λ_t (s_sem + s_top), (n,)."""
    score: NDArray[np.float64] = terms.decay * (terms.s_sem + terms.s_top)
    return score


def weighted(terms: Mapping[str, Floats], weights: Mapping[str, float] = WEIGHTS) -> NDArray[np.float64]:
    """W · terms, (n,); a missing term counts as 0, and one without weight is ignored.

    Args:
        terms: by name, each (n,); at least one that has a weight.
    """
    first, *others = (name for name in terms if name in weights)
    score = weights[first] * np.asarray(terms[first], np.float64)
    for name in others:
        score += weights[name] * terms[name]
    return score


def hybrid_score(terms: Terms) -> NDArray[np.float64]:
    """W · (s_sem and the further terms) + w_λ λ, (n,)."""
    score: NDArray[np.float64] = weighted({"s_sem": terms.s_sem, **terms.more}) + TIME * terms.decay
    return score


def dense_score(terms: Terms) -> NDArray[np.float64]:
    """s_sem alone, (n,)."""
    return np.asarray(terms.s_sem, np.float64)


def bm25_score(terms: Terms) -> NDArray[np.float64]:
    """s_word alone, (n,): BM25 over what was said and its summary."""
    return np.asarray(terms.more["s_word"], np.float64)


@dataclass(frozen=True, slots=True)
class Scorer:
    """One way to rank records, with its description.

    Attributes:
        score: the sum by which records are ranked.
        formula: the sum as shown next to the numbers.
        decided_by: name of the number that decides whether a record is eligible.
        decided_by_is: explanation of that number, if it is not the paper's.
        bound: what the number must exceed; None: γ.
        needs_passages: uses the utterances behind each record, not only its summary.
        first_look: weights for choosing candidates before their passages are read; None: rank all records.
        most: the score of a record all of whose terms are 1.
    """

    name: str
    score: Callable[[Terms], NDArray[np.float64]]
    formula: str
    decided_by: str = "s_sem"
    decided_by_is: str = ""
    bound: float | None = None
    needs_passages: bool = False
    first_look: Mapping[str, float] | None = None
    most: float = 1.0

    def admits(self, terms: Terms, gamma: float) -> NDArray[np.bool_]:
        """(n,) whether each record is eligible."""
        deciding = terms.s_sem if self.decided_by == "s_sem" else terms.more[self.decided_by]
        admitted: NDArray[np.bool_] = deciding > (gamma if self.bound is None else self.bound)
        return admitted

    def admission(self, gamma: float, talk: float | None = None) -> str:
        """The rule of `admits` in words: "s_sem > γ = 0.125".

        Args:
            talk: what small talk needs instead, where it is told from questions.
        """
        meaning = f" ({self.decided_by_is})" if self.decided_by_is else ""
        more = (
            f" (for small talk that a check finds: ≥ {talk:g})"
            if talk is not None and self.decided_by == "s_near"
            else ""
        )
        return f"{self.decided_by}{meaning} > {f'γ = {gamma:g}' if self.bound is None else f'{self.bound:g}'}{more}"


SCORERS: dict[str, Scorer] = {
    one.name: one
    for one in (
        Scorer("paper", paper_score, "λ (s_sem + s_top)", most=2.0),
        Scorer(
            "hybrid",
            hybrid_score,
            " + ".join(f"{weight:g} {name}" for name, weight in WEIGHTS.items()) + f" + {TIME:g} λ",
            decided_by="s_near",
            decided_by_is="the cosine of the summary or its nearest passage",
            needs_passages=True,
            first_look=FIRST_LOOK,
            most=sum(weight for name, weight in WEIGHTS.items() if name != "s_new") + TIME,  # of a question
        ),
        Scorer("dense", dense_score, "s_sem"),
        Scorer(
            "bm25",
            bm25_score,
            "s_word",
            decided_by="s_word",
            decided_by_is="a word in common",
            bound=0.0,
            needs_passages=True,
        ),
    )
}


def scorer(name: str) -> Scorer:
    """Return the scorer that ``memory.scorer`` names.

    Raises:
        ConfigError: there is none.
    """
    is_scorer, wanted = lambda thing: isinstance(thing, Scorer), "a ld_agent.memory.scoring.Scorer"
    return named(SCORERS, name, key="memory.scorer", kinds="scorers", wanted=wanted, fits=is_scorer)


def best(score: Floats, eligible: NDArray[np.bool_], at: Floats, k: int) -> NDArray[np.intp]:
    """Equation (3): rows of the k best eligible records, best first; ties go to the newer record, then the later row.

    Args:
        score: (n,) s_overall.
        eligible: (n,) admitted by the scorer (in the paper, s_sem > γ) and not younger than the query.
        at: (n,) time of the record, seconds.
        k: maximum number of records; 0 gives none.

    Returns:
        (m,) row numbers, m ≤ k; m = 0 is the paper's "no relevant memory".
    """
    n = len(score)
    if 0 < k < n:
        open_to = np.where(eligible, score, -np.inf)
        eligible = eligible & (open_to >= np.partition(open_to, n - k)[n - k])
    rows = np.flatnonzero(eligible) if k > 0 else np.zeros(0, np.intp)
    return rows[np.lexsort((-rows, -at[rows], -score[rows]))][:k]
