"""The traits of one speaker as columns, so that thousands can be compared and ranked at once. Knows no store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.rough import WORTH_IT, RoughVectors, contenders
from ld_agent.storage.columns import EPOCH, microseconds
from ld_agent.types import Trait

NEVER = np.iinfo(np.int64).max
GROWTH = 1.5
ROUNDING = np.full(1, 1e-6, np.float32)  # of a product that is not computed in double precision


class SpeakerTraits:
    """n traits in the order they were learned.

    Attributes:
        traits: (n,) the traits themselves.
    """

    def __init__(self, dimension: int) -> None:
        self.traits: list[Trait] = []
        self._vectors = np.empty((0, dimension), np.float32)
        self._rough = RoughVectors(dimension)
        self._times = np.empty((3, 0), np.int64)  # learned at, last mentioned, holds until; microseconds
        self._flags = np.empty((2, 0), np.bool_)  # active, pinned
        self._by_text: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.traits)

    def add(self, trait: Trait, vector: Vectors) -> None:
        """Append a trait."""
        n = len(self.traits)
        if n == len(self._vectors):
            self._reserve(int(n * GROWTH) + 16)
        self._vectors[n] = vector
        self._by_text.setdefault(trait.text, []).append(n)
        self.traits.append(trait)
        self.put(n, trait)

    def put(self, row: int, trait: Trait) -> None:
        """Replace the trait of a row by its later state."""
        until = microseconds(trait.holds_until or EPOCH) if trait.holds_until or not trait.active else NEVER
        self.traits[row] = trait
        self._times[:, row] = microseconds(trait.at), microseconds(trait.last_at), until
        self._flags[:, row] = trait.active, trait.pinned

    def _reserve(self, capacity: int) -> None:
        n = len(self.traits)
        vectors, times = np.empty((capacity, self._vectors.shape[1]), np.float32), np.empty((3, capacity), np.int64)
        flags = np.zeros((2, capacity), np.bool_)
        vectors[:n], times[:, :n], flags[:, :n] = self._vectors[:n], self._times[:, :n], self._flags[:, :n]
        self._vectors, self._times, self._flags = vectors, times, flags

    def cosines(self, vector: Vectors) -> Vectors:
        """(n,) cosine of each trait, past ones included, with a unit vector."""
        cosines: Vectors = self._vectors[: len(self.traits)] @ vector
        return cosines

    def _rough_cosines(self, vector: Vectors) -> tuple[Vectors, Vectors]:
        """(n,) cosines, of many traits approximate ones, and bounds of their errors."""
        n = len(self.traits)
        return self._rough.cosines(self._vectors[:n], vector) if n >= WORTH_IT else (self.cosines(vector), ROUNDING)

    def rivals(self, text: str, vector: Vectors, least: float, at: int) -> Iterator[tuple[int, Trait, float]]:
        """Traits that held when a text was said and may repeat it: (row, trait, cosine), in row order.

        Args:
            least: minimum cosine; the same text always counts.
            at: when it was said, in microseconds since the epoch; what was over by then is excluded.
        """
        cosines, off = self._rough_cosines(vector)
        holding = self._times[2, : len(self.traits)] > at
        always = set(self._by_text.get(text, ()))
        rows = np.array(sorted({*np.flatnonzero(holding & (cosines + off >= least)).tolist(), *always}), np.intp)
        for row, cosine in zip(rows.tolist(), np.vecdot(self._vectors[rows], vector).tolist(), strict=True):
            if holding[row] and (cosine >= least or row in always):
                yield row, self.traits[row], cosine

    def best(self, query: Vectors, at: int, most: int, recency: float, scale: float) -> list[Trait]:
        """The traits known, and not over, at a time that are most relevant to a query, in the order they were learned.

        Pinned traits come first; worth is (1 - recency) · cosine + recency · e^(-age / scale).

        Args:
            query: (dimension,) unit vector.
            at: microseconds since the epoch.
            scale: seconds.
        """
        n, share = len(self.traits), 1 - recency
        known_from, last_said, holds_until = self._times[:, :n]
        recent = recency * np.exp(np.maximum(at - last_said, 0) / (-1e6 * scale))
        recent[self._flags[1, :n]] = np.inf
        cosines, off = self._rough_cosines(query)
        eligible = (known_from <= at) & (holds_until > at)
        rows = contenders(share * cosines + recent, share * off, eligible, most) if most else np.zeros(0, np.intp)
        exact = cosines[rows] if n < WORTH_IT else np.vecdot(self._vectors[rows], query)
        worth = share * exact.astype(np.float64) + recent[rows]
        chosen: NDArray[np.intp] = np.sort(rows[np.lexsort((-rows, -worth))[:most]])
        return [self.traits[row] for row in chosen.tolist()]

    def active(self, text: str) -> list[Trait]:
        """The active traits with exactly this text; without any, those that were active."""
        same = [self.traits[row] for row in self._by_text.get(text, ())]
        return [trait for trait in same if trait.active] or same

    def nearest(self, vectors: Vectors, most: int) -> list[Trait]:
        """The active traits nearest to any of the unit vectors, at most ``most`` for each, in row order.

        Args:
            vectors: (m, dimension).
        """
        n = len(self.traits)
        active = self._flags[0, :n]
        rows = np.flatnonzero(active)
        if 0 < most < len(rows):
            rows = np.unique([row for vector in vectors for row in self._nearest(vector, most, active)])
        return [self.traits[row] for row in rows.tolist()]

    def _nearest(self, vector: Vectors, most: int, active: NDArray[np.bool_]) -> NDArray[np.intp]:
        cosines, off = self._rough_cosines(vector)
        rows = contenders(cosines, off, active, most)
        return rows[np.argsort(-np.vecdot(self._vectors[rows], vector), kind="stable")[:most]]
