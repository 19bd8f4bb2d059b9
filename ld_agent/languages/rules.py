"""How texts in a language are read: the patterns of ``rules.yaml``, looked for in every known language at once.

People mix languages, so a text is read by the rules of all that ship, and of folders that were loaded. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel, ConfigDict, field_validator


class Rules(BaseModel):
    """The rules of one language, ``rules.yaml``. Patterns are regular expressions; "" matches nothing.

    Attributes:
        first_person, second_person: words for the speaker, and for whom they speak to.
        saying: first persons that say nothing of the speaker: "I hope your son is well".
        negated: words of denial.
        liking: words that make no difference between two traits: "I prefer coffee" repeats "I like coffee".
        not_knowing: what says that something is not known: "you never told me".
        question_word: of a question for a fact: "what", "how many".
        remembers: what comes before such a question: "do you remember".
        aside: first persons that do not make a question one about the speaker: "tell me".
        advice: words of questions for advice or news.
        asks_name, asks_number: of questions that a name, or a number, answers.
        someone: groups are names in a question.
        as_asker: the beginning of an answer in the asker's person: "I keep".
        turned: words in the asker's person, and what they become: "my": "your".
        saying_nothing: nouns that a truthful answer may add.
        counted: what stands behind a number that counts: "三天". Only where numbers are words of other meanings too.
        slots: what has one value at a time, as a name and a pattern with the group ``value``, of a trait in lower case;
            ``{of}`` in the name is the group of that name, and the group ``none`` says that there is none. Names that all
            languages share: home, work as, work at, name, age, marriage, favorite {of}, name of my {of}, number of {of}.
        denial: words by which a trait denies, ends or dislikes what it is about; two undo each other.
        wish: words by which a trait is not true yet.
        circumstance: where a place or an employer is named in full and something else begins.
        empty: what does not say what a trait is about: pronouns, particles, denials.
        tastes: words for liking and its opposite, which are one topic.
        numerals: small numbers, in digits.
        filling: characters that say nothing by themselves, of languages without spaces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    first_person: str
    second_person: str
    saying: str
    negated: str
    liking: tuple[str, ...]
    not_knowing: tuple[str, ...]
    question_word: str
    remembers: str
    aside: str
    advice: str
    asks_name: str
    asks_number: str
    someone: str
    as_asker: str
    turned: Mapping[str, str]
    saying_nothing: tuple[str, ...]
    counted: str
    slots: tuple[tuple[str, str], ...]
    denial: str
    wish: str
    circumstance: str
    empty: str
    tastes: tuple[str, ...]
    numerals: Mapping[str, str]
    filling: str

    @field_validator("*")
    @classmethod
    def _compiles(cls, value: object) -> object:
        for pattern in _patterns(value):
            try:
                re.compile(pattern)
            except re.error as exc:
                raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc
        return value


KNOWN: dict[str, Rules] = {}
"""The rules of every language that ships or was loaded, by its folder."""


class Reading:
    """One pattern in every known language, with the methods of a compiled one.

    Args:
        key: the attribute of `Rules`.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    @property
    def pattern(self) -> re.Pattern[str]:
        return _union(self._key, tuple(KNOWN))

    def search(self, text: str) -> re.Match[str] | None:
        return self.pattern.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        return self.pattern.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self.pattern.fullmatch(text)

    def sub(self, by: str, text: str) -> str:
        return self.pattern.sub(by, text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.pattern.finditer(text)


def _patterns(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()
    return tuple(one if isinstance(one, str) else one[-1] for one in listed)


@cache
def _union(key: str, known: tuple[str, ...]) -> re.Pattern[str]:
    patterns = [pattern for name in known for pattern in _patterns(getattr(KNOWN[name], key))]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns if pattern) or "(?!)")


def turned() -> dict[str, str]:
    """`Rules.turned` of every known language."""
    return {word: to for rules in KNOWN.values() for word, to in rules.turned.items()}


def slots() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """`Rules.slots` of every known language."""
    return _slots(tuple(KNOWN))


@cache
def _slots(known: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((of, re.compile(pattern)) for name in known for of, pattern in KNOWN[name].slots)


def numerals() -> Mapping[str, str]:
    """`Rules.numerals` of every known language."""
    return _numerals(tuple(KNOWN))


@cache
def _numerals(known: tuple[str, ...]) -> Mapping[str, str]:
    return {word: digits for name in known for word, digits in KNOWN[name].numerals.items()}


def tastes() -> frozenset[str]:
    """`Rules.tastes` of every known language."""
    return frozenset(word for rules in KNOWN.values() for word in rules.tastes)
