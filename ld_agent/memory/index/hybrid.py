"""The scorer ``hybrid``: a weighted sum of several kinds of evidence that a record answers a question.

    s_overall = W · (s_sem, s_sent, s_word, s_pass, s_like, s_date) + w_λ λ_t

s_sem is the paper's. s_sent is the cosine of the summary's best sentence; s_word is BM25 over utterances and summary,
averaged with BM25 over the utterances of the one speaker that the question names; s_pass scores the best two-turn
passages (meaning, rare words, speaker); s_like scores passages similar to the best ones overall (relevance feedback:
they use other words than the question); s_date is the closeness to the named dates. Passages are combined by a soft
maximum: the best one dominates, and a session that returns to the subject, as lists and habits do, scores higher than
one that mentions it once. Every term has a fixed scale, independent of other records. The weights were fitted by
logistic regression on LoCoMo conversations with leave-one-out validation. Time is added, not multiplied: it decides
between records that match equally well, and never erases an old one.

s_near is the greatest cosine of the summary or any passage.

It is not part of the sum, but decides whether a record is eligible. Pure functions; knows no store.
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

from ld_agent.languages.reading import Reading
from ld_agent.memory.dates import Period, periods
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.index.passages import PackedVectors

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
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
"""The weights for choosing candidates; before passages are read, s_sem also represents their meaning."""
COVER, SPEAKER, SHARPNESS = 0.2, 0.1, 12.0
"""s_pass = ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the windows of a record, x = cos + COVER · cover + SPEAKER [said by the
speaker asked about]; cover as in `Lexicon.cover`."""
LIKE = 4
"""s_like = ln(Σ e^(SHARPNESS · cos(window, p))) / SHARPNESS, p the mean of the LIKE best windows of all records."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the hybrid scorer uses of a question besides its vector.

    Attributes:
        words: stems of the text.
        about: the only speaker that the text names; "": none or several.
        names: stems of the speakers' names, which count through ``about`` and not as words.
        periods: the periods of time that the text names.
    """

    words: tuple[str, ...]
    about: str
    names: frozenset[str]
    periods: tuple[Period, ...]


def question(text: str, at: datetime, speakers: Iterable[str], reading: Reading) -> Question:
    """Parse a question about what some speakers said.

    Args:
        at: when it is asked; "last May" is relative to it.
    """
    patterns, names = _named(tuple(sorted(set(speakers))), reading)
    named = [name for name, pattern in patterns if pattern.search(text)]
    return Question(
        words=tuple(stems(text, reading)),
        about=named[0] if len(named) == 1 else "",
        names=names,
        periods=tuple(periods(text, at, reading)),
    )


@lru_cache(maxsize=256)
def _named(speakers: tuple[str, ...], reading: Reading) -> tuple[list[tuple[str, re.Pattern[str]]], frozenset[str]]:
    """A pattern for each name, and the stems of all names."""
    patterns = [(name, re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)) for name in speakers]
    return patterns, frozenset(word for name in speakers for word in stems(name, reading))


def best_passages(
    vectors: Sequence[PackedVectors], windows: Counts, vector: NDArray[np.float32], further: Floats
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Score the best sentence and the best windows of each of m records.

    Args:
        vectors: (m,) the vectors of each record, windows before sentences.
        windows: (m,) the number of windows.
        vector: (dimension,) unit vector of the question.
        further: (w,) additional scores of the windows of all records, record by record.

    Returns:
        (m,) s_sent, 0 without sentences; (m,) s_pass and (m,) s_like, 0 without windows; (m,) the greatest cosine, -1
        without either.
    """
    counts = windows.tolist()
    s_sent, s_pass, s_like = np.zeros(len(vectors)), np.zeros(len(vectors)), np.zeros(len(vectors))
    turned = [n for n, packed in enumerate(vectors) if counts[n] and len(packed)]
    summarized = [n for n, packed in enumerate(vectors) if len(packed) > counts[n]]
    nearest = np.full(len(vectors), -1.0)
    # All windows, then all sentences, so that each kind is contiguous.
    parts = [(n, slice(0, counts[n])) for n in turned] + [(n, slice(counts[n], None)) for n in summarized]
    if not parts:
        return s_sent, s_pass, s_like, nearest
    steps = np.concatenate([vectors[n].steps[rows] for n, rows in parts], dtype=np.float32, casting="unsafe")
    scale = np.concatenate([vectors[n].scale[rows] for n, rows in parts])
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
        alone = cosines[:spoken]
        nearest[turned] = np.maximum(nearest[turned], np.maximum.reduceat(alone, starts))
        near = alone + further
        like = _like_the_best(near, steps[:spoken], scale[:spoken])
        s_pass[turned], s_like[turned] = _soft_maxima(np.stack([near, like]), starts)
    return s_sent, s_pass, s_like, nearest


def _like_the_best(near: Floats, steps: NDArray[np.float32], scale: NDArray[np.float32]) -> Floats:
    """(w,) the cosine of each window with the mean of the `LIKE` best by ``near`` (w,); its vector is ``steps`` × ``scale``."""
    best = near.argpartition(max(len(near) - LIKE, 0))[-LIKE:]
    middle = scale[best] @ steps[best]
    middle /= max(math.sqrt(middle @ middle), 1e-12)
    like: Floats = (steps @ middle) * scale
    return like


def _soft_maxima(values: Floats, starts: Sequence[int]) -> NDArray[np.float64]:
    """ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the columns from each start to the next, for every row."""
    bounded = np.minimum(SHARPNESS * values, 600.0)  # e^709 overflows, which long pasted texts can reach
    return np.asarray(np.log(np.add.reduceat(np.exp(bounded), starts, axis=1)) / SHARPNESS, np.float64)


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


def formula() -> str:
    """The score as ``/why`` explains it."""
    return " + ".join(f"{weight:g} {name}" for name, weight in WEIGHTS.items()) + f" + {TIME:g} λ"
