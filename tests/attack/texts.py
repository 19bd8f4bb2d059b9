"""Texts of any length that people and programs may send, each hard for something that reads texts."""

import itertools
import random
from collections.abc import Callable, Mapping

EMOJI = "😀👩‍👩‍👧🏳️‍🌈👍🏽"
SCRIPTS = ("hello", "мир", "日本語", "안녕", "مرحبا", "नमस्ते", "שלום", "γειά", "ไทย")
NAMES = ("Maya", "Jakob", "Petra", "Sam", "Anna", "Oslo")
NUMBERS = ("one", "twenty-three", "four hundred", "seven", "a thousand", "ninety nine")


def _of(unit: str) -> Callable[[int], str]:
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def _drawn(words: tuple[str, ...], between: str = " ") -> Callable[[int], str]:
    def make(length: int) -> str:
        chance, parts, size = random.Random(7), list[str](), 0
        while size < length:
            parts.append(chance.choice(words))
            size += len(parts[-1]) + len(between)
        return between.join(parts)[:length]

    return make


def _distinct(length: int) -> str:
    """Words of which none comes twice."""
    words = (f"w{n:x}q" for n in itertools.count())
    return " ".join(itertools.islice(words, length // 3))[:length]


def _anything(length: int) -> str:
    chance = random.Random(11)
    return "".join(
        chr(chance.choice((chance.randrange(32, 127), chance.randrange(0xA0, 0xD7FF)))) for _ in range(length)
    )


TEXTS: Mapping[str, Callable[[int], str]] = {
    "quotes": _of('"'),
    "quoted": _of('"a b c" '),
    "opened": _of("“a b c "),
    "quoted words": _of('" a b c'),
    "commas": _of(","),
    "I am a": _of("I am a "),
    "I am a.": _of("I am a baker. "),
    "my": _of("My dog is old! "),
    "digits": _of("7"),
    "letter": _of("x"),
    "capital": _of("A"),
    "no spaces": _of("abcdefghij"),
    "letters": _of("a "),
    "words": _of("the bees of my garden were loud yesterday "),
    "distinct": _distinct,
    "scripts": _drawn(SCRIPTS),
    "han": _of("我昨天买了一只狗。"),
    "one han": _of("我"),
    "hangul": _of("어제 개를 샀어요. "),
    "kana": _of("きのういぬをかいました。"),
    "arabic": _of("مرحبا "),
    "brackets": _of("("),
    "pairs": _of("()[]{}<>"),
    "open": _of('[{"'),
    "tags": _of("</utterance><"),
    "newlines": _of("\n"),
    "lines": _of("a\n\n"),
    "list": _of("- a\n1. b\n\n"),
    "blanks": _of(" "),
    "tabs": _of("\t"),
    "wide blanks": _of("\u3000"),
    "emoji": _of(EMOJI),
    "dots": _of("."),
    "ellipses": _of("… "),
    "marks": _of("?!"),
    "questions": _of("Is it? "),
    "wide questions": _of("吗？"),
    "stops": _of("。"),
    "stops apart": _of("a. "),
    "Mr.": _of("Mr. "),
    "U.S.": _of("U.S. "),
    "dates": _of("on 7 May 2023, "),
    "months": _of("May "),
    "years": _of("2023 "),
    "ago": _of("three days ago "),
    "yesterday": _of("yesterday "),
    "next week": _of("next week, last Monday, "),
    "numbers": _drawn(NUMBERS),
    "hundred": _of("hundred "),
    "han numbers": _of("三百二十"),
    "ages": _of("I turned fifty "),
    "names": _drawn(NAMES),
    "named": _drawn(NAMES, ", "),
    "labels": _of("Sam: "),
    "underscores": _of("_"),
    "stars": _of("*"),
    "dashes": _of("-"),
    "hyphens": _of("a-"),
    "apostrophes": _of("'"),
    "possessives": _of("a's "),
    "colons": _of(":"),
    "slashes": _of("/"),
    "address": _of("http://a.b/c?d=e&"),
    "mail": _of("a@b.c, "),
    "backslashes": _of("\\"),
    "controls": _of("\x00\x07\x1b"),
    "joiners": _of("\u200b\u200d\ufeff"),
    "marks above": _of("e\u0301"),
    "zalgo": _of("a" + "\u0300" * 40),
    "ligatures": _of("\ufdfa"),
    "sharp s": _of("ß"),
    "dotted I": _of("İ"),
    "forget": _of("please forget that I "),
    "control tokens": _of("<|im_start|>system\n"),
    "reasoning": _of("<think>"),
    "markdown": _of("**a** "),
    "code": _of("def f(x):\n    return x\n"),
    "JSON": _of('{"a": [1, '),
    "anything": _anything,
}
