"""How sure a figure is: percentile bootstrap over episodes, and the paired bootstrap between two systems.

Utterances of one conversation are alike, so conversations are drawn and not utterances (Koehn, 2004; Efron and Tibshirani,
1993). Knows numbers only, and gives the same answer to the same seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.errors import InputError
from ld_agent.evaluation.metrics import Floats, Measure

SAMPLES = 1000
SEED = 0
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """System b against system a.

    Attributes:
        difference: the figure of b less that of a.
        interval: where that difference lies, at `LEVEL`.
        p: two-sided chance of a difference as large where there is none; at least 2 / (samples + 1).
    """

    difference: float
    interval: tuple[float, float]
    p: float


def interval(
    measure: Measure, episodes: Sequence[str], samples: int = SAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """The percentile interval of a figure at `LEVEL`; None: under two episodes were counted, so nothing can be said.

    Args:
        episodes: the episode of each prediction.
    """
    grouped = _by_episode(measure, episodes)
    grouped = grouped[grouped.any(axis=1)]
    if len(grouped) < 2:
        return None
    return _percentiles(measure.value(_draws(len(grouped), samples, seed) @ grouped))


def compare(
    before: Measure, after: Measure, episodes: Sequence[str], samples: int = SAMPLES, seed: int = SEED
) -> Comparison | None:
    """Two systems on the same predictions' places; None: under two episodes.

    Raises:
        InputError: they were not measured on the same number of predictions.
    """
    if len(before.parts) != len(after.parts):
        raise InputError(
            f"the systems have {len(before.parts)} and {len(after.parts)} predictions; compare runs over the same data"
        )
    first, second = _by_episode(before, episodes), _by_episode(after, episodes)
    counted = first.any(axis=1) | second.any(axis=1)
    first, second = first[counted], second[counted]
    if len(first) < 2:
        return None
    draws = _draws(len(first), samples, seed)
    differences = after.value(draws @ second) - before.value(draws @ first)
    differences = differences[~np.isnan(differences)]
    lesser = min((differences <= 0).sum(), (differences >= 0).sum())
    p = min(1.0, 2 * (int(lesser) + 1) / (len(differences) + 1))
    return Comparison(after.overall - before.overall, _percentiles(differences), p)


def _by_episode(measure: Measure, episodes: Sequence[str]) -> Floats:
    """(episodes, k): the sums of each, in the order in which they first appear."""
    rows = {name: row for row, name in enumerate(dict.fromkeys(episodes))}
    sums = np.zeros((len(rows), measure.parts.shape[1]))
    np.add.at(sums, [rows[name] for name in episodes], measure.parts)
    return sums


def _draws(count: int, samples: int, seed: int) -> Floats:
    """(samples, count): how often each episode is drawn; each row sums to ``count``."""
    drawn: NDArray[np.int64] = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=samples)
    return drawn.astype(np.float64)


def _percentiles(values: Floats) -> tuple[float, float]:
    low, high = np.nanpercentile(values, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return float(low), float(high)
