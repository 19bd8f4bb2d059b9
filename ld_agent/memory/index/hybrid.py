"""The scorer ``hybrid``: several kinds of evidence that a record answers a question, added up with fixed weights.

    s_overall = W · (s_sem, s_sent, s_word, s_pass, s_like, s_date) + w_λ λ_t

s_sem is the paper's. s_sent is the cosine of the summary's best sentence; s_word BM25 over what was said and its summary,
in equal parts with BM25 over what the one speaker said whom the question names; s_pass the best two-turn passages (meaning,
rare words, who speaks); s_like passages that are like the best ones of all (relevance feedback: they speak of what is asked
in other words than the question's); s_date the nearness to the dates that are named.
Passages add up as a soft maximum: one that answers counts for most, and a session that comes back to what is asked, as
lists and habits need it, counts for more than one that touches it once.
Every term has its own scale and does not depend on the other records' terms. The weights were fitted by logistic
regression on conversations of LoCoMo, each kept out in turn. Time is added, not multiplied: it decides between records
that match alike, and never erases an old one.

s_near is the greatest cosine of the summary or any passage: not part of the sum, it decides whether a record is admitted.

Pure functions and one question; knows no store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.dates import Period, periods
from ld_agent.memory.east_asian_dates import east_asian_periods
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.index.passages import PackedVectors

Floats = NDArray[np.floating]
Counts = NDArray[np.integer]

WEIGHTS: Mapping[str, float] = {
    "s_sem": 0.95,
    "s_sent": 4.7,
    "s_word": 1.35,
    "s_pass": 6.6,
    "s_like": 1.65,
    "s_date": 4.7,
}
TIME = 0.01
"""w_λ"""
FIRST_LOOK: Mapping[str, float] = {**WEIGHTS, "s_sem": 4.0}
"""The weights by which candidates are chosen: before passages are read, s_sem stands for their meaning too."""
COVER, OWN, SHARPNESS = 0.2, 0.1, 12.0
"""s_pass = ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the windows of a record, x = cos + COVER · cover + OWN [said by the
speaker asked about]; cover as in `Lexicon.cover`."""
LIKE = 4
"""s_like = ln(Σ e^(SHARPNESS · cos(window, p))) / SHARPNESS, p the mean of the LIKE best windows of all records."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the hybrid scorer looks at besides the vector.

    Attributes:
        words: stems of the text.
        about: the one speaker that the text names; "": none or several.
        names: stems of the speakers' names, which tell passages apart by ``about`` and not as words.
        periods: what the text says of time.
    """

    words: tuple[str, ...]
    about: str
    names: frozenset[str]
    periods: tuple[Period, ...]


def question(text: str, at: datetime, speakers: Iterable[str]) -> Question:
    """Read a text as a question about what some speakers said.

    Args:
        at: when it is asked; "last May" is reckoned from there.
    """
    patterns, names = _named(tuple(sorted(set(speakers))))
    named = [name for name, pattern in patterns if pattern.search(text)]
    return Question(
        words=tuple(stems(text)),
        about=named[0] if len(named) == 1 else "",
        names=names,
        periods=(*periods(text, at), *east_asian_periods(text, at)),
    )


@lru_cache(maxsize=256)
def _named(speakers: tuple[str, ...]) -> tuple[list[tuple[str, re.Pattern[str]]], frozenset[str]]:
    """How each name is found in a text, and the stems of all."""
    patterns = [(name, re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)) for name in speakers]
    return patterns, frozenset(word for name in speakers for word in stems(name))


def best_passages(
    vectors: Sequence[PackedVectors],
    windows: Counts,
    vector: NDArray[np.float32],
    further: Floats,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The best sentence and the best windows of each of m records.

    Args:
        vectors: (m,) of each record, windows first, sentences then.
        windows: (m,) how many are windows.
        vector: (dimension,) unit vector of the question.
        further: (w,) what the windows of all records earn besides their cosine, record after record.

    Returns:
        (m,) s_sent, 0 without sentences; (m,) s_pass and (m,) s_like, 0 without windows; (m,) the greatest cosine, -1
        without either.
    """
    counts = windows.tolist()
    s_sent, s_pass, s_like = np.zeros(len(vectors)), np.zeros(len(vectors)), np.zeros(len(vectors))
    turned = [n for n, packed in enumerate(vectors) if counts[n] and len(packed)]
    summarized = [n for n, packed in enumerate(vectors) if len(packed) > counts[n]]
    nearest = np.full(len(vectors), -1.0)
    # All windows, then all sentences, so that each kind lies in one piece.
    parts = [(n, slice(0, counts[n])) for n in turned] + [(n, slice(counts[n], None)) for n in summarized]
    if not parts:
        return s_sent, s_pass, s_like, nearest
    steps = np.concatenate([vectors[n].steps[own] for n, own in parts], dtype=np.float32, casting="unsafe")
    scale = np.concatenate([vectors[n].scale[own] for n, own in parts])
    cosines = (steps @ vector) * scale
    np.maximum(np.minimum(cosines, 1.0, out=cosines), -1.0, out=cosines)
    spoken = sum(counts[n] for n in turned)
    if summarized:
        starts = list(accumulate((len(vectors[n]) - counts[n] for n in summarized[:-1]), initial=spoken))
        s_sent[summarized] = nearest[summarized] = np.maximum.reduceat(cosines, starts)
    if turned:
        if len(turned) < len(vectors):
            ends = list(accumulate(counts))
            further = np.concatenate([further[ends[n] - counts[n] : ends[n]] for n in turned])
        starts = list(accumulate((counts[n] for n in turned[:-1]), initial=0))
        own = cosines[:spoken]
        nearest[turned] = np.maximum(nearest[turned], np.maximum.reduceat(own, starts))
        near = own + further
        best = near.argpartition(max(spoken - LIKE, 0))[-LIKE:]
        middle = scale[best] @ steps[best]
        middle /= max(math.sqrt(middle @ middle), 1e-12)
        like = (steps[:spoken] @ middle) * scale[:spoken]
        s_pass[turned], s_like[turned] = _soft_maxima(np.stack([near, like]), starts)
    return s_sent, s_pass, s_like, nearest


def _soft_maxima(values: Floats, starts: Sequence[int]) -> NDArray[np.float64]:
    """ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the columns from each start to the next, for every row."""
    bounded = np.minimum(SHARPNESS * values, 600.0)  # e^709 overflows: pages pasted whole get there
    return np.asarray(np.log(np.add.reduceat(np.exp(bounded), starts, axis=1)) / SHARPNESS, np.float64)


def weighted(terms: Mapping[str, Floats], weights: Mapping[str, float] = WEIGHTS) -> NDArray[np.float64]:
    """W · terms, (n,); a term that is not given counts as 0, one without a weight not at all.

    Args:
        terms: by name, each (n,); at least one that has a weight.
    """
    first, *others = (name for name in terms if name in weights)
    score = weights[first] * np.asarray(terms[first], np.float64)
    for name in others:
        score += weights[name] * terms[name]
    return score


def formula() -> str:
    """The score as ``/why`` explains it."""
    return " + ".join(f"{weight:g} {name}" for name, weight in WEIGHTS.items()) + f" + {TIME:g} λ"
