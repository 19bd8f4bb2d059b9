"""Rough cosines with a bound on their error: among very many vectors they rule out nearly all before any is read whole.

The cosines of n float vectors take as long as memory takes to deliver them. A signed byte a dimension is a quarter of
that, and the rows which might still be among the best are few enough to be computed exactly, so a search returns what it
would have returned without.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import PackedVectors

WORTH_IT = 16_384
"""Vectors from which on the detour through bytes pays for itself."""
AT_ONCE = 8_192
QUERY_STEPS = 63
"""Of the query's greatest dimension. With 127, processors without VNNI could overflow the 16 bits in which they add pairs."""
ROUNDING = 1e-5


class RoughVectors:
    """A copy of n unit vectors in signed bytes, which grows with them. Vectors may be added but not changed.

    Args:
        dimension: of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self._n = 0
        self._steps = np.empty((0, dimension), np.int8)
        self._scale_and_lost = np.empty((2, 0), np.float32)  # a step of each vector; the norm of what its bytes lack

    @property
    def nbytes(self) -> int:
        """Bytes held, spare room included."""
        return self._steps.nbytes + self._scale_and_lost.nbytes

    def cosines(self, vectors: Vectors, query: Vectors) -> tuple[Vectors, Vectors]:
        """Cosines with a query and how much each may be off.

        Args:
            vectors: (n, dimension) all vectors; the first ones are those of the call before.
            query: (dimension,) unit vector.

        Returns:
            (n,) cosines and (n,) bounds: the true cosine lies at most that far away.
        """
        import torch

        self._take(vectors)
        step = np.float32(max(np.abs(query).max(), 1e-12) / QUERY_STEPS)
        rounded = np.rint(query / step).astype(np.int8)
        products = torch._int_mm(torch.from_numpy(self._steps[: self._n]), torch.from_numpy(rounded)[None].t())
        scale, lost = self._scale_and_lost[:, : self._n]
        cosines = products[:, 0].float().numpy() * (scale * step)
        # q·v = q'·v' + (q - q')·v' + q·(v - v'), where v' is no longer than 1 plus what it lost
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
    """The eligible rows that may be among the best ones, growing; equals of the last one are among them.

    Args:
        score: (n,) rough scores.
        off: (n,) how far the true ones may be away.
        eligible: (n,)
        most: how many best ones are wanted, at least 1.
    """
    n = len(score)
    if most >= n:
        return np.flatnonzero(eligible)
    sure = np.where(eligible, score - off, -np.inf)
    return np.flatnonzero(eligible & (score + off >= np.partition(sure, n - most)[n - most]))
