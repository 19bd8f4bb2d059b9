"""Confidence intervals by percentile bootstrap over episodes, and paired bootstrap tests between two systems.

Utterances of one conversation are not independent, so conversations are resampled instead (Koehn, 2004; Efron and
Tibshirani, 1993). Knows numbers only; deterministic for a given seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ld_agent.errors import InputError
from ld_agent.evaluation.metrics import Floats, Measure

SAMPLES = 1000
SEED = 0
LEVEL = 0.95


class Comparison(NamedTuple):
    """System b compared with system a: the figure of b minus that of a, its confidence interval at `LEVEL`, and the two-sided
    p-value, at least 2 / (samples + 1)."""

    difference: float
    interval: tuple[float, float]
    p: float


def interval(measure: Measure, episodes: Sequence[str], seed: int = SEED) -> tuple[float, float] | None:
    """Return the percentile interval of a figure at `LEVEL`, given each prediction's episode; None if fewer than two count."""
    grouped = _by_episode(measure, episodes)
    grouped = grouped[grouped.any(axis=1)]
    if len(grouped) < 2:
        return None
    return _percentiles(measure.value(_draws(len(grouped), seed=seed) @ grouped))


def compare(before: Measure, after: Measure, episodes: Sequence[str], samples: int = SAMPLES) -> Comparison | None:
    """Compare two systems on the same predictions; None if fewer than two episodes count."""
    if len(before.parts) != len(after.parts):
        raise InputError(
            f"the systems have {len(before.parts)} and {len(after.parts)} predictions; compare runs over the same data"
        )
    first, second = _by_episode(before, episodes), _by_episode(after, episodes)
    counted = first.any(axis=1) | second.any(axis=1)
    first, second = first[counted], second[counted]
    if len(first) < 2:
        return None
    draws = _draws(len(first), samples)
    differences = after.value(draws @ second) - before.value(draws @ first)
    differences = differences[~np.isnan(differences)]
    lesser = min((differences <= 0).sum(), (differences >= 0).sum())
    p = min(1.0, 2 * (int(lesser) + 1) / (len(differences) + 1))
    return Comparison(after.overall - before.overall, _percentiles(differences), p)


def _by_episode(measure: Measure, episodes: Sequence[str]) -> Floats:
    """Return the sums of each episode, (episodes, k), in order of first appearance."""
    rows = {name: row for row, name in enumerate(dict.fromkeys(episodes))}
    sums = np.zeros((len(rows), measure.parts.shape[1]))
    np.add.at(sums, [rows[name] for name in episodes], measure.parts)
    return sums


def _draws(count: int, samples: int = SAMPLES, seed: int = SEED) -> Floats:
    """Return how often each episode is drawn, (samples, count); each row sums to ``count``."""
    drawn: NDArray[np.int64] = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=samples)
    return drawn.astype(np.float64)


def _percentiles(values: Floats) -> tuple[float, float]:
    low, high = np.nanpercentile(values, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return float(low), float(high)
