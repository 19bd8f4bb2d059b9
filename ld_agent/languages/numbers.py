"""Numbers in a text, in digits or in English or Chinese words: "thirty-eight", "1,000", "the fifth", "三十八". Pure."""

from __future__ import annotations

import re

from ld_agent.text import HAN

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
_CHINESE = re.compile("[零〇一二两兩三四五六七八九十百千万萬]+")
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_TIMES = {"十": 10, "百": 100, "千": 1000}
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
    chinese = _CHINESE.findall(text) if HAN.search(text) else []
    return [*english, *((word, str(chinese_number(word))) for word in chinese)]


def chinese_number(word: str) -> int:
    """The value of a Chinese number: "九十一" is 91, "一九三一" 1931, "四千五百" 4500.

    >>> [chinese_number(word) for word in ("十", "二十一", "两百", "三万", "一九三一")]
    [10, 21, 200, 30000, 1931]
    """
    if not set(word) & {*_TIMES, "万", "萬"}:
        return int("".join(str(_DIGITS[character]) for character in word))
    total = part = digit = 0
    for character in word:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif character in _TIMES:
            part, digit = part + (digit or 1) * _TIMES[character], 0
        else:
            total, part, digit = (total + (part + digit or 1)) * 10_000, 0, 0
    return total + part + digit
