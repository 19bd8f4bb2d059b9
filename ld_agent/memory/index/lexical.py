"""BM25 over the stems of texts: which records contain rare words of a question, and how often.

Knows words, the names and periods that a question has, and row numbers, but no vectors or stores.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.reading import Reading
from ld_agent.memory.dates import Period, periods
from ld_agent.memory.index.snapshot import Arrays, as_array, as_texts, packed, unpacked
from ld_agent.text import LONGEST_READ, stems

SATURATION = 1.2  # k1: how quickly repetitions of a word saturate
LENGTH = 0.75  # b: how much long records are penalised
WINDOWS = ("borders", "windows_with", "words", "word_borders")
"""The window data of a lexicon, as plain numbers."""


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
    text = text[-LONGEST_READ:]
    patterns, names = _named(tuple(sorted(set(speakers))), reading)
    named = [name for name, pattern in patterns if pattern.search(text)]
    return Question(
        words=tuple(stems(text, reading)),
        about=named[0] if len(named) == 1 else "",
        names=names,
        periods=tuple(periods(text, at, reading)) if reading.dates_in(text) else (),
    )


@lru_cache(maxsize=256)
def _named(speakers: tuple[str, ...], reading: Reading) -> tuple[list[tuple[str, re.Pattern[str]]], frozenset[str]]:
    """A pattern for each name, and the stems of all names."""
    patterns = [(name, re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)) for name in speakers]
    return patterns, frozenset(word for name in speakers for word in stems(name, reading))


def rarity(documents: int, with_word: int) -> float:
    """The inverse document frequency of BM25, ln(1 + (N - n + ½) / (n + ½)), above 0; 0 for a word that never occurs."""
    return math.log(1 + (documents - with_word + 0.5) / (with_word + 0.5)) if with_word else 0.0


class Postings:
    """The postings of n documents and their lengths; appending takes amortised constant time.

    Document numbers ascend, but need not be consecutive.
    """

    def __init__(self) -> None:
        self._rows: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self.documents: array[int] = array("I")
        self._lengths: array[float] = array("f")
        self._length = 0.0
        self._word_bytes = 0

    def snapshot(self, name: str) -> Arrays:
        """Everything as arrays, for `restored`."""
        arrays = packed(self._rows, f"{name}.rows") | packed(self._counts, f"{name}.counts", "H")
        arrays[f"{name}.documents"] = np.array(self.documents, np.uint32)
        arrays[f"{name}.lengths"] = np.array(self._lengths, np.float32)
        return arrays

    @classmethod
    def restored(cls, arrays: Arrays, name: str) -> Postings:
        """The postings of a `snapshot`."""
        postings = cls()
        postings._rows, postings._counts = unpacked(arrays, f"{name}.rows"), unpacked(arrays, f"{name}.counts", "H")
        postings.documents = array("I", arrays[f"{name}.documents"].tobytes())
        postings._lengths = array("f", arrays[f"{name}.lengths"].tobytes())
        postings._length = float(arrays[f"{name}.lengths"].sum(dtype=np.float64))
        postings._word_bytes = sum(len(word) + 350 + 6 * len(rows) for word, rows in postings._rows.items())
        return postings

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, in constant time."""
        return self._word_bytes + 8 * len(self.documents)

    def add(self, row: int, counts: Mapping[str, int]) -> None:
        """Append a document; its number must be greater than all earlier ones."""
        for word, count in counts.items():
            if word not in self._rows:
                self._rows[word], self._counts[word] = array("I"), array("H")
                self._word_bytes += len(word) + 350
            self._rows[word].append(row)
            self._counts[word].append(min(count, 65_535))
        self._word_bytes += 6 * len(counts)
        self.documents.append(row)
        self._lengths.append(float(sum(counts.values())))
        self._length += self._lengths[-1]

    def match(
        self, words: Iterable[str], rows: NDArray[np.intp] | None = None, most: float = 1.0
    ) -> NDArray[np.float64]:
        """How well documents match some words: BM25 divided by √(Σ rarity + 1), so that long questions do not weigh
        more than short ones relative to other evidence.

        Args:
            rows: (m,) numbers of the requested documents; None: all n documents, numbered 0 to n - 1.
            most: skip words contained in more than this share of the documents.

        Returns: (m,), at least 0; 0 for a number without document.
        """
        n = len(self.documents)
        score = np.zeros(n if rows is None else len(rows))
        if n == 0:
            return score
        documents, wanted = np.frombuffer(self.documents, np.uint32), None if rows is None else rows.astype(np.uint32)
        lengths = np.frombuffer(self._lengths, np.float32)
        scale = SATURATION * LENGTH / max(self._length / n, 1e-9)
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
            if wanted is None:
                holding = place = said_by
            else:
                nearest = np.minimum(said_by.searchsorted(wanted), len(said_by) - 1)
                place = (said_by[nearest] == wanted).nonzero()[0]
                holding, counts = documents.searchsorted(wanted[place]), counts[nearest[place]]
            held = lengths[holding] * scale + SATURATION * (1 - LENGTH)
            score[place] += weight * (SATURATION + 1) * counts / (held + counts)
        score /= math.sqrt(total + 1)
        return score


class Lexicon:
    """Word statistics of n records, of each speaker's words in them, and of their windows."""

    def __init__(self) -> None:
        self._all = Postings()
        self._by: dict[str, Postings] = {}
        self._borders: array[int] = array("I", [0])  # windows of row r: from border r to border r + 1
        self._numbers: dict[str, int] = {}  # of the words in windows
        self._windows_with: array[int] = array("I")  # by the word's number
        self._words: array[int] = array("I")  # numbers of the distinct words of each window, window by window
        self._word_borders: array[int] = array("I", [0])

    def snapshot(self) -> Arrays:
        """Everything as arrays, for `restored`."""
        arrays = self._all.snapshot("all") | {"by": as_array(self._by), "spoken": as_array(self._numbers)}
        for number, postings in enumerate(self._by.values()):
            arrays |= postings.snapshot(f"by{number}")
        return arrays | {name: np.array(getattr(self, f"_{name}"), np.uint32) for name in WINDOWS}

    @classmethod
    def restored(cls, arrays: Arrays) -> Lexicon:
        """The statistics of a `snapshot`."""
        lexicon = cls()
        lexicon._all = Postings.restored(arrays, "all")
        lexicon._by = {name: Postings.restored(arrays, f"by{n}") for n, name in enumerate(as_texts(arrays["by"]))}
        lexicon._numbers = {word: number for number, word in enumerate(as_texts(arrays["spoken"]))}
        for name in WINDOWS:
            setattr(lexicon, f"_{name}", array("I", arrays[name].tobytes()))
        return lexicon

    def __len__(self) -> int:
        return len(self._all.documents)

    @property
    def nbytes(self) -> int:
        """Approximate size of lists and statistics in bytes."""
        windows = 4 * (len(self._words) + len(self._word_borders) + len(self._borders)) + 110 * len(self._numbers)
        return self._all.nbytes + sum(postings.nbytes for postings in self._by.values()) + windows

    def add(
        self, counts: Mapping[str, int], windows: Sequence[Iterable[str]], by: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Append one record.

        Args:
            counts: how often each stem occurs.
            windows: the stems of each of its windows.
            by: how often each speaker says each stem.
        """
        row = len(self)
        self._all.add(row, counts)
        for speaker, spoken in by.items():
            self._by.setdefault(speaker, Postings()).add(row, spoken)
        start, numbers = len(self._words), self._numbers
        for words in windows:
            self._words.extend([numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(words)])
            self._word_borders.append(len(self._words))
        self._windows_with.extend([0] * (len(numbers) - len(self._windows_with)))
        np.add.at(np.frombuffer(self._windows_with, np.uint32), np.frombuffer(self._words, np.uint32)[start:], 1)
        self._borders.append(len(self._word_borders) - 1)

    def match(self, words: Iterable[str], most: float = 1.0) -> NDArray[np.float64]:
        """How well each record matches some words, (n,); see `Postings.match`."""
        return self._all.match(words, most=most)

    def match_by(self, speaker: str, words: Iterable[str], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """How well a speaker's words in some records match, (m,) as ``rows``; 0 if they said nothing."""
        postings = self._by.get(speaker)
        return postings.match(words, rows) if postings else np.zeros(len(rows))

    def windows(self, rows: NDArray[np.intp]) -> list[tuple[int, int]]:
        """The windows of records, numbered globally: (m,) the first of each record and (m,) the one after its last."""
        borders = np.frombuffer(self._borders, np.uint32)
        return list(zip(borders[rows].tolist(), borders[rows + 1].tolist(), strict=True))

    def cover(self, words: Iterable[str], windows: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
        """Which of some words occur in windows: Σ rarity of those that occur / √(Σ rarity of all + 1).

        Args:
            windows: ranges of windows, as returned by `windows`.

        Returns: (w,) for the windows of all ranges, in order.
        """
        worth, total = np.zeros(len(self._numbers)), 0.0
        for word in sorted(set(words)):
            number = self._numbers.get(word)
            if number is not None:
                worth[number] = rarity(self._borders[-1], self._windows_with[number])
                total += worth[number]
        borders, spoken = np.frombuffer(self._word_borders, np.uint32), np.frombuffer(self._words, np.uint32)
        starts = np.concatenate([borders[:0], *(borders[first:after] for first, after in windows)])
        ends = np.concatenate([borders[:0], *(borders[first + 1 : after + 1] for first, after in windows)])
        said = np.concatenate([spoken[:0], *(spoken[borders[first] : borders[after]] for first, after in windows)])
        earned = worth[said]
        earning = earned.nonzero()[0]
        place = (ends - starts).cumsum(dtype=np.intp).searchsorted(earning, "right")
        share: NDArray[np.float64] = np.bincount(place, earned[earning], len(starts)) / math.sqrt(total + 1)
        return share
