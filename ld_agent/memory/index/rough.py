"""Approximate cosines with bounded errors, which rule out almost all of very many vectors before any is read in full.

Computing the cosines of n float vectors is limited by memory bandwidth. One signed byte per dimension needs a quarter
of it, and the few rows that might still be among the best are computed exactly, so the search result does not change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import PackedVectors

WORTH_IT = 16_384
"""Minimum number of vectors for which approximation pays off."""
AT_ONCE = 8_192
QUERY_STEPS = 63
"""Quantised value of the query's greatest dimension. With 127, processors without VNNI could overflow their 16-bit
sums."""
ROUNDING = 1e-5


class RoughVectors:
    """A growing copy of n unit vectors in signed bytes. Vectors may be added but not changed.

    Args:
        dimension: of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._n = 0
        self._steps = np.empty((0, dimension), np.int8)
        self._scale_and_lost = np.empty((2, 0), np.float32)  # step size of each vector; norm of its rounding error

    @property
    def nbytes(self) -> int:
        """Bytes held, including spare capacity."""
        return self._steps.nbytes + self._scale_and_lost.nbytes

    def cosines(self, vectors: Vectors, query: Vectors) -> tuple[Vectors, Vectors]:
        """Return approximate cosines with a query, and bounds of their errors.

        Args:
            vectors: (n, dimension) all vectors; those of the previous call come first, unchanged.
            query: (dimension,) unit vector.

        Returns: (n,) cosines and (n,) bounds on their distance from the true cosines.
        """
        import torch

        self._take(vectors)
        step = np.float32(max(np.abs(query).max(), 1e-12) / QUERY_STEPS)
        rounded = np.rint(query / step).astype(np.int8)
        products = torch._int_mm(torch.from_numpy(self._steps[: self._n]), torch.from_numpy(rounded)[None].t())
        scale, lost = self._scale_and_lost[:, : self._n]
        cosines = products[:, 0].float().numpy() * (scale * step)
        # q·v = q'·v' + (q - q')·v' + q·(v - v'), where |v'| ≤ 1 + |v - v'|
        off = np.float32(np.linalg.norm(query - rounded * step)) * (1 + lost) + lost + np.float32(ROUNDING)
        return cosines, off

    def _take(self, vectors: Vectors) -> None:
        """Pack the vectors that are new."""
        if len(vectors) > len(self._steps):
            self._reserve(max(len(vectors), len(self._steps) * 9 // 8))
        for start in range(self._n, len(vectors), AT_ONCE):
            part = vectors[start : start + AT_ONCE]
            packed, rows = PackedVectors.of(part), slice(start, start + len(part))
            self._steps[rows] = packed.steps
            self._scale_and_lost[:, rows] = packed.scale, np.linalg.norm(part - packed.unpacked, axis=1)
        self._n = len(vectors)

    def _reserve(self, capacity: int) -> None:
        steps, pair = np.empty((capacity, self._steps.shape[1]), np.int8), np.empty((2, capacity), np.float32)
        steps[: self._n], pair[:, : self._n] = self._steps[: self._n], self._scale_and_lost[:, : self._n]
        self._steps, self._scale_and_lost = steps, pair


def contenders(
    score: NDArray[np.floating], off: NDArray[np.floating], eligible: NDArray[np.bool_], most: int
) -> NDArray[np.intp]:
    """The eligible rows that may be among the best, ascending, including ties with the last one.

    Args:
        score: (n,) rough scores.
        off: (n,) error bounds of the scores.
        eligible: (n,)
        most: number of rows wanted, at least 1.
    """
    n = len(score)
    if most >= n:
        return np.flatnonzero(eligible)
    sure = np.where(eligible, score - off, -np.inf)
    return np.flatnonzero(eligible & (score + off >= np.partition(sure, n - most)[n - most]))
