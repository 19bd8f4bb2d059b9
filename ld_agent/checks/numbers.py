"""Numbers in a text, in digits or in English, Chinese or Korean words: "thirty-eight", "1,000", "the fifth", "三十八". Pure."""

from __future__ import annotations

import re

from ld_agent.checks.east_asian_numbers import chinese_number, chinese_numbers, korean_numbers
from ld_agent.languages.reading import Reading

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
    """The numbers of a text in order, as (text, digits without separators)."""
    spans: list[tuple[int, int, float | str]] = []
    total = current = 0
    start = end = -1

    def flush() -> None:
        nonlocal total, current, start
        if start >= 0:
            spans.append((start, end, total + current))
        total, current, start = 0, 0, -1

    for token in _TOKEN.finditer(text):
        word = token.group().casefold()
        if word[0].isdigit():
            flush()
            spans.append((token.start(), token.end(), word.replace(",", "")))
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
    english = [(text[a:b], f"{value:g}" if isinstance(value, float) else str(value)) for a, b, value in spans]
    chinese = ((match.group(), str(chinese_number(match.group()))) for match in chinese_numbers(text))
    return [*english, *chinese, *((word, str(value)) for word, value in korean_numbers(text))]


def counted(text: str, reading: Reading) -> list[tuple[str, str]]:
    """The numbers of a text, without Chinese numerals inside words ("一" of "一起", "十" of "十分") and Korean ones ("한 분")."""
    left_out = [
        match.group()
        for match in chinese_numbers(text)
        if chinese_number(match.group()) < 2 or not reading.pattern("counted").match(text[match.end() :])
    ]
    left_out += [word for word, value in korean_numbers(text) if value < 2]
    return [number for number in numbers(text) if number[0] not in left_out]
