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
        self._lengths: array[float] = array("f")
        self._length = 0.0
        self._borders: array[int] = array("I", [0])  # windows of row r: from border r to border r + 1
        self._numbers: dict[str, int] = {}  # of the words that windows say
        self._windows_with: array[int] = array("I")  # by the word's number
        self._words: array[int] = array("I")  # numbers of each window's different words, window after window
        self._word_borders: array[int] = array("I", [0])

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        """Bytes held by lists and statistics, about."""
        rows = sum(len(word) + 350 + 6 * len(listed) for word, listed in self._rows.items())
        windows = 4 * (len(self._words) + len(self._word_borders)) + 110 * len(self._numbers)
        return rows + windows + 8 * len(self._lengths)

    def add(self, counts: Mapping[str, int], windows: Sequence[Iterable[str]]) -> None:
        """Append one record.

        Args:
            counts: how often it says each stem.
            windows: the stems of each of its windows.
        """
        row = len(self._lengths)
        for word, count in counts.items():
            self._rows.setdefault(word, array("I")).append(row)
            self._counts.setdefault(word, array("H")).append(min(count, 65_535))
        start, numbers = len(self._words), self._numbers
        for words in windows:
            self._words.extend([numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(words)])
            self._word_borders.append(len(self._words))
        self._windows_with.extend([0] * (len(numbers) - len(self._windows_with)))
        np.add.at(np.frombuffer(self._windows_with, np.uint32), np.frombuffer(self._words, np.uint32)[start:], 1)
        self._lengths.append(float(sum(counts.values())))
        self._length += self._lengths[-1]
        self._borders.append(len(self._word_borders) - 1)

    def match(
        self,
        words: Iterable[str],
        rows: NDArray[np.intp] | None = None,
        shares: tuple[float, float] = (0.0, 1.0),
    ) -> NDArray[np.float64]:
        """How well records match some words: BM25 divided by √(Σ rarity + 1), so that long questions, whose sums are
        greater, do not weigh more than short ones beside other evidence.

        Args:
            rows: (m,) of which records; None: of all.
            shares: count only the words that more than the first and at most the second share of the records say. What
                parts of the range give adds up to what the whole gives.

        Returns:
            (m,) or (n,), at least 0.
        """
        n = len(self._lengths)
        score = np.zeros(n if rows is None else len(rows))
        if n == 0:
            return score
        lengths = np.frombuffer(self._lengths, np.float32)
        scale = SATURATION * LENGTH / max(self._length / n, 1e-9)
        wanted, own = (None, lengths) if rows is None else (rows.astype(np.uint32), lengths[rows])
        total = 0.0
        for word in sorted(set(words)):
            listed = self._rows.get(word)
            if listed is None:
                continue
            weight = rarity(n, len(listed))
            total += weight
            if not shares[0] * n < len(listed) <= shares[1] * n:
                continue
            said_by, counts = np.frombuffer(listed, np.uint32), np.frombuffer(self._counts[word], np.uint16)
            if wanted is None:
                held = lengths[said_by] * scale + SATURATION * (1 - LENGTH)
                score[said_by] += weight * (SATURATION + 1) * counts / (held + counts)
            else:
                found = said_by.searchsorted(wanted)
                found[found == len(said_by)] = 0
                counts = counts[found] * (said_by[found] == wanted)
                score += weight * (SATURATION + 1) * counts / (own * scale + SATURATION * (1 - LENGTH) + counts)
        score /= math.sqrt(total + 1)
        return score

    def windows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The windows of records: (w,) their numbers among all windows, record after record; (m,) how many of each."""
        borders = np.frombuffer(self._borders, np.uint32)
        first = borders[rows].astype(np.intp)
        sizes = borders[rows + 1].astype(np.intp) - first
        return np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum()), sizes

    def cover(self, words: Iterable[str], windows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Which of some words windows say: Σ rarity of the words said / √(Σ rarity of all + 1).

        Args:
            windows: (w,) their numbers.

        Returns:
            (w,)
        """
        worth, total = np.zeros(len(self._numbers)), 0.0
        for word in sorted(set(words)):
            number = self._numbers.get(word)
            if number is not None:
                worth[number] = rarity(self._borders[-1], self._windows_with[number])
                total += worth[number]
        borders, spoken = np.frombuffer(self._word_borders, np.uint32), np.frombuffer(self._words, np.uint32)
        starts, ends = borders[windows], borders[windows + 1]
        heads = np.flatnonzero(np.diff(windows, prepend=-2) != 1)  # the words of windows in a row stand in one stretch
        tails = np.flatnonzero(np.diff(windows, append=-2) != 1)
        stretches = zip(starts[heads].tolist(), ends[tails].tolist(), strict=True)
        said = np.concatenate([spoken[:0], *(spoken[start:end] for start, end in stretches)])
        told = np.flatnonzero(worth.astype(np.bool_)[said])
        if not len(told):
            return np.zeros(len(windows))
        place = np.cumsum(ends - starts, dtype=np.intp).searchsorted(told, "right")
        share: NDArray[np.float64] = np.bincount(place, worth[said[told]], len(windows)) / math.sqrt(total + 1)
        return share
