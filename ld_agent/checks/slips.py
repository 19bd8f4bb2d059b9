"""What a line takes back of what its speaker said a moment ago, put right: "I play the viola." – "Cello, I mean!"

Weights of words tell whether a line corrects something. In a sentence told before, the words that are most like words of the
line give way to these, so that all words stay the speaker's own. Knows no store and no model that writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ld_agent.errors import ModelError
from ld_agent.languages.reading import Reading
from ld_agent.text import REPORTING, stems_listed, stems_of

CORRECTING, ALIKE, TOGETHER = -1.4, 0.5, 1.2
"""Least log-odds that a line corrects something, likeness of the words that give way and those in their place, and sum of the
likeness and `ODDS` of the log-odds: of held-out sentences 38 % of those taken back are found and none of 98 others
(``claims/held_out/taken_back.txt``); in 4,700 lines of MSC, one is."""
ODDS = 0.5
NAMED, SHARED = 0.4, 0.4
"""Added to the likeness if the line names the words that give way ("Graz, not Linz"), and for other words that both have: the
logarithm of their number and one."""
CUE, PART_OF_IT = 5.0, 4.0
"""Weight of a word that says that something is corrected, "meant", "wrong", and of one that may be part of that: "oh", "mean"."""
OF_NAMES = 0.3
"""Names are of a kind even if they are little alike: "Split" and "Zadar". A capital in place of a name makes
one."""
PER_WORD = 0.04
"""Taken off for each word beyond the first, and for each by which the two differ."""
LATELY = 6
"""Lines before one that corrects a slip in which that is looked for."""
MOST_WORDS, LONGEST = 3, 300
"""Words that give way, or come in their place; characters of a line or a sentence that are read."""
WORD, READ = re.compile(r"\w+(?:[-'’.:]\w+)*+"), re.compile(r"\w+|[*!?.,:]")
NEGATED = re.compile(r"(?:\bnot|n['’]t)\s(?:\w{1,3}\s)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Slip:
    """A sentence that its speaker takes back.

    Attributes:
        place: of the sentence among those told before.
        text: the sentence as it is right.
        new: the words of the correction in it.
        alike: cosine of the words that gave way and those in their place; of two names, `OF_NAMES` more.
    """

    place: int
    text: str
    new: str
    alike: float


@dataclass(frozen=True, slots=True)
class _Exchange:
    place: int
    old: str
    new: str
    text: str
    extra: float
    names: bool


class Corrections:
    """Judges whether a line corrects what its speaker said just before: a weight for each word and pair of words.

    Args:
        folder: has ``corrects.json``, by ``python -m training.corrects``; without it, no line does.

    Raises:
        ModelError: the file has another content.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / "corrects.json"
        try:
            loaded = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"": -math.inf}
            self._weights = {word: float(weight) for word, weight in loaded.items()}
            self._always = self._weights.pop("")
            if not all(map(math.isfinite, self._weights.values())) or math.isnan(self._always):
                raise ValueError("a weight is no number")
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as exc:
            raise ModelError(
                f"{file} has no weights of words ({exc}); make it anew: python -m training.corrects"
            ) from exc

    def log_odds(self, line: str) -> float:
        """The logarithm of the odds that a line corrects something."""
        found = words_and_pairs(line)
        return self._always + sum(self._weights.get(one, 0.0) for one in found) / math.sqrt(max(len(found), 1))

    def slip(
        self, told: Sequence[str], line: str, encode: Callable[[Sequence[str]], NDArray[np.float32]], reading: Reading
    ) -> Slip | None:
        """The sentence that a line corrects, of those that its speaker told a moment ago; None: none of them.

        Args:
            encode: texts → (n, dimension) unit vectors.
        """
        line, odds = line[:LONGEST], self.log_odds(line)
        if odds < CORRECTING:
            return None
        news = [span for span in _spans(line, reading) if not self._corrects_only(line, span)]
        exchanges = [one for place, text in enumerate(told) for one in _exchanges(place, text, line, news, reading)]
        if not exchanges:
            return None
        texts = list(dict.fromkeys(text for one in exchanges for text in (one.old, one.new)))
        vectors = dict(zip(texts, encode(texts), strict=True))
        alike = [float(vectors[one.old] @ vectors[one.new]) + OF_NAMES * one.names for one in exchanges]
        likeness = [kind + one.extra for kind, one in zip(alike, exchanges, strict=True)]
        best = int(np.argmax(likeness))
        if likeness[best] < ALIKE or likeness[best] + ODDS * odds < TOGETHER:
            return None
        chosen = exchanges[best]
        return Slip(chosen.place, chosen.text, chosen.new, alike[best])

    def nothing_else(self, sentence: str, wrong: str, right: str, reading: Reading) -> bool:
        """Whether a sentence only says what is right in another one that was wrong: "It's Malmo, I meant, not Lund."."""
        words = [word for word in WORD.findall(sentence) if self._weights.get(word.casefold(), 0.0) < PART_OF_IT]
        said, told, corrected = (_words_in(text, reading) for text in (" ".join(words), wrong, right))
        return said <= told | corrected | stems_listed("saying_nothing", reading, None) and bool(
            said & (corrected - told)
        )

    def _corrects_only(self, line: str, span: slice) -> bool:
        """Whether words of a line are what it denies, or say that something is corrected: "not Linz", "I meant", "I said"."""
        words = WORD.findall(line[span].casefold())
        said = any(self._weights.get(word, 0.0) >= CUE or word[:4] in REPORTING for word in words)
        return said or NEGATED.search(line, 0, span.start) is not None


def words_and_pairs(line: str) -> set[str]:
    """The words and marks of a line, and pairs of neighbours."""
    words = READ.findall(line[:LONGEST].casefold())
    return {*words, *map(" ".join, pairwise(words))}


def _words_in(text: str, reading: Reading) -> set[str]:
    """Words that tell something, whole: people mix up words that begin alike, "Llanelli" and "Llandeilo"."""
    return stems_of(text, reading, letters=None)


def _exchanges(place: int, sentence: str, line: str, news: Sequence[slice], reading: Reading) -> Iterator[_Exchange]:
    """The sentence with words of the line that it does not have in the place of its own."""
    said, corrected = _words_in(sentence, reading), _words_in(line, reading)
    news = [span for span in news if not _words_in(line[span], reading) & said]
    for old in _spans(sentence, reading):
        of_old = _words_in(sentence[old], reading)
        shared = len((said & corrected) - of_old - stems_listed("saying_nothing", reading, None))
        extra = NAMED * bool(of_old & corrected) + SHARED * float(np.log1p(shared))
        for new in news:
            words, others = len(sentence[old].split()), len(line[new].split())
            text = sentence[: old.start] + _in_place(line, new, sentence[old]) + sentence[old.stop :]
            cost = PER_WORD * (words + others - 2 + abs(words - others))
            names = _is_name(sentence, old) and line[new.start].isupper()
            yield _Exchange(place, sentence[old], line[new], text, extra - cost, names)


def _spans(text: str, reading: Reading) -> Iterator[slice]:
    """Neighbouring words, without marks between them, of which the first and the last tell something."""
    words, empty = list(WORD.finditer(text)), stems_listed("saying_nothing", reading, None)
    telling = [bool(_words_in(word.group(), reading) - empty) for word in words]
    for first, begin in enumerate(words):
        for last in range(first, min(first + MOST_WORDS, len(words))):
            if last > first and text[words[last - 1].end() : words[last].start()].strip():
                break
            if telling[first] and telling[last]:
                yield slice(begin.start(), words[last].end())


def _begins(text: str, span: slice) -> bool:
    """Whether words begin a sentence of a text."""
    return text[: span.start].rstrip()[-1:] in ("", *".!?…*")


def _is_name(text: str, span: slice) -> bool:
    return text[span.start].isupper() and not _begins(text, span)


def _in_place(line: str, new: slice, old: str) -> str:
    """Words of a line within a sentence: a capital that only begins the line's sentence goes."""
    text = line[new]
    return text[0].lower() + text[1:] if _begins(line, new) and old[0].islower() else text
