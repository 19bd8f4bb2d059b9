"""The words of texts as stems, and BM25 over them: which records say rare words of a question, and how often.

Knows words and row numbers; nothing of vectors, times or stores.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import Stemmer
from numpy.typing import NDArray

from ld_agent.modules.wording import FUNCTION_WORDS, words_of

SATURATION = 1.2  # k1: how soon a repeated word stops to count
LENGTH = 0.75  # b: how much a long record is held back
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
_CUT_FORMS = frozenset(
    "his him her hers don didn doesn isn wasn aren weren couldn wouldn shouldn hasn haven ve re ll".split()
)


def stems(text: str) -> list[str]:
    """The words of a text that carry meaning, as English Snowball stems in their order, repetitions kept.

    Words of other alphabets stay as they are; a Chinese, Japanese or Korean character counts as a word.
    """
    words = [
        word
        for word in words_of(_POSSESSIVE.sub(" ", text))
        if word not in FUNCTION_WORDS
        and word not in _CUT_FORMS
        and not (len(word) == 1 and word.isascii() and word.isalpha())
    ]
    stemmer = Stemmer.Stemmer("english")  # one a call: a stemmer must not be shared between threads
    return list(stemmer.stemWords(words))


def rarity(documents: int, with_word: int) -> float:
    """The inverse document frequency of BM25, ln(1 + (N - n + ½) / (n + ½)), above 0; 0 for a word that never occurs."""
    return math.log(1 + (documents - with_word + 0.5) / (with_word + 0.5)) if with_word else 0.0


class Lexicon:
    """Word statistics of n records and of their windows, appended in amortised constant time."""

    def __init__(self) -> None:
        self._rows: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._windows_with: dict[str, array[int]] = {}
        self._lengths: array[float] = array("f")
        self._borders: array[int] = array("I", [0])  # windows of row r: from border r to border r + 1

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """Bytes held by lists and statistics, about."""
        rows = sum(len(word) + 350 + 6 * len(listed) for word, listed in self._rows.items())
        return rows + sum(170 + 4 * len(listed) for listed in self._windows_with.values()) + 8 * len(self._lengths)

    def add(self, counts: Mapping[str, int], windows: Sequence[Iterable[str]]) -> None:
        """Append one record.

        Args:
            counts: how often it says each stem.
            windows: the stems of each of its windows.
        """
        row, window = len(self._lengths), self._borders[-1]
        for word, count in counts.items():
            self._rows.setdefault(word, array("I")).append(row)
            self._counts.setdefault(word, array("H")).append(min(count, 65_535))
        for words in windows:
            for word in set(words):
                self._windows_with.setdefault(word, array("I")).append(window)
            window += 1
        self._lengths.append(float(sum(counts.values())))
        self._borders.append(window)

    def match(
        self, words: Iterable[str], rows: NDArray[np.intp] | None = None, most: float = 1.0
    ) -> NDArray[np.float64]:
        """How well records match some words: BM25 divided by √(Σ rarity + 1), so that long questions, whose sums are
        greater, do not weigh more than short ones beside other evidence.

        Args:
            rows: (m,) of which records; None: of all.
            most: words that more than this share of the records say are passed over.

        Returns:
            (m,) or (n,), at least 0.
        """
        n = len(self._lengths)
        lengths = np.frombuffer(self._lengths, np.float32) if n else np.zeros(0, np.float32)
        mean = max(float(lengths.mean()) if n else 0.0, 1e-9)
        score = np.zeros(n if rows is None else len(rows))
        total = 0.0
        for word in sorted(set(words)):
            listed = self._rows.get(word)
            if listed is None:
                continue
            weight = rarity(n, len(listed))
            total += weight
            if len(listed) > most * n:
                continue
            said_by, counts = np.frombuffer(listed, np.uint32), np.frombuffer(self._counts[word], np.uint16)
            place: NDArray[np.integer] = said_by
            if rows is not None:
                found = np.minimum(np.searchsorted(said_by, rows.astype(np.uint32)), len(said_by) - 1)
                place = np.flatnonzero(said_by[found] == rows)
                said_by, counts = said_by[found[place]], counts[found[place]]
            share = SATURATION * (1 - LENGTH + LENGTH * lengths[said_by] / mean)
            score[place] += weight * (SATURATION + 1) * counts / (counts + share)
        matched: NDArray[np.float64] = score / math.sqrt(total + 1)
        return matched

    def windows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The windows of records: (m,) number of the first one among all windows, (m,) how many."""
        borders = np.frombuffer(self._borders, np.uint32)
        first = borders[rows].astype(np.intp)
        return first, borders[rows + 1].astype(np.intp) - first

    def cover(self, words: Iterable[str], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Which of some words the windows of records say: Σ rarity of the words said / √(Σ rarity of all + 1).

        Args:
            rows: (m,) rows of the records.

        Returns:
            (w,) for all their windows, record after record.
        """
        first, sizes = self.windows(rows)
        starts, ends = first.astype(np.uint32), (first + sizes).astype(np.uint32)
        offsets = np.cumsum(sizes) - sizes
        covered = np.zeros(int(sizes.sum()))
        total = 0.0
        for word in sorted(set(words)):
            listed = self._windows_with.get(word)
            if listed is None:
                continue
            weight = rarity(self._borders[-1], len(listed))
            total += weight
            windows = np.frombuffer(listed, np.uint32)
            low, high = np.searchsorted(windows, starts), np.searchsorted(windows, ends)
            for record in np.flatnonzero(high > low):
                said = windows[low[record] : high[record]].astype(np.intp)
                covered[said - first[record] + offsets[record]] += weight
        share: NDArray[np.float64] = covered / math.sqrt(total + 1)
        return share
