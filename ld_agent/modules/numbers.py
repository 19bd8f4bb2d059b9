"""Numbers in a text, in digits or in English words: "thirty-eight", "38", "a thousand", "1,000", "the fifth". Pure."""

from __future__ import annotations

import re

_UNITS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen".split()
    )
}
_TENS = {word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_ORDINALS = {word: n for n, word in enumerate("third fourth fifth sixth seventh eighth ninth tenth".split(), 3)}
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")


def numbers(text: str) -> list[tuple[str, str]]:
    """The numbers of a text in order: (as it is written, in digits without separators)."""
    found: list[tuple[int, int, float | str]] = []
    total = current = 0
    start = end = -1

    def flush() -> None:
        nonlocal total, current, start
        if start >= 0:
            found.append((start, end, total + current))
        total, current, start = 0, 0, -1

    for token in _TOKEN.finditer(text):
        word = token.group().casefold()
        if word[0].isdigit():
            flush()
            found.append((token.start(), token.end(), word.replace(",", "")))
            continue
        value = _UNITS.get(word, _TENS.get(word, _ORDINALS.get(word)))
        if value is not None:
            if start >= 0 and current % 100 and not (current % 10 == 0 and value < 10):  # "two, three"
                flush()
            current += value
        elif word in _SCALES:
            current = max(current, 1) * _SCALES[word]
            if word != "hundred":
                total, current = total + current, 0
        else:
            if word != "and" or not (total or current >= 100):
                flush()
            continue
        start, end = (token.start() if start < 0 else start), token.end()
    flush()
    return [(text[a:b], f"{value:g}" if isinstance(value, float) else str(value)) for a, b, value in found]
