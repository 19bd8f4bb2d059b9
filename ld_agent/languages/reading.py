"""How one agent reads texts: the rules of its languages, applied together because people mix languages.

Every `Language` has a `Reading`: its own rules and those of the shipped languages. Nothing here is shared with an agent of
another language. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from ld_agent.languages.dates import Dates
from ld_agent.languages.rules import Rules, patterns_of

LONGEST_REQUEST = 300
"""Characters of a sentence that may ask to forget something."""


class Reading:
    """The rules of some languages as one. Immutable, and equal only to itself, so that results can be cached by it.

    Args:
        rules: of each language; where only one can apply, an earlier one is preferred.
        dates: the time expressions of the same languages.
    """

    def __init__(self, rules: Sequence[Rules], dates: Sequence[Dates]) -> None:
        self._rules, self._dates = tuple(rules), tuple(dates)
        self._patterns: dict[str, re.Pattern[str]] = {}

    def pattern(self, key: str) -> re.Pattern[str]:
        """One pattern for a key of `Rules` that matches what the pattern of any language matches."""
        if key not in self._patterns:
            patterns = [pattern for rules in self._rules for pattern in patterns_of(getattr(rules, key))]
            self._patterns[key] = re.compile("|".join(f"(?:{pattern})" for pattern in patterns if pattern) or "(?!)")
        return self._patterns[key]

    def words(self, key: str) -> list[str]:
        """The words of a list of `Rules`, in every language."""
        return [word for rules in self._rules for word in getattr(rules, key)]

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """`Rules.stop_words` of every language."""
        return frozenset(self.words("stop_words"))

    @cached_property
    def not_searched(self) -> frozenset[str]:
        """The stop words, and `Rules.not_searched`, of every language."""
        return self.stop_words.union(self.words("not_searched"))

    def asked_to_forget(self, sentence: str) -> str | None:
        """What a sentence asks to forget; "": what was said last; None: nothing."""
        matches = (pattern.fullmatch(sentence) for pattern in self._asks_to_forget)
        match = next(filter(None, matches), None) if len(sentence) <= LONGEST_REQUEST else None
        return match and (match["what"] or "").strip()

    @cached_property
    def _asks_to_forget(self) -> Sequence[re.Pattern[str]]:
        return [re.compile(rules.asks_to_forget) for rules in self._rules if rules.asks_to_forget]

    @cached_property
    def _stemmers(self) -> Sequence[tuple[str, frozenset[str]]]:
        return [(rules.stemmer, frozenset(rules.stop_words)) for rules in self._rules if rules.stemmer]

    def stemmer_of(self, words: Sequence[str]) -> str:
        """Return the stemmer of the language whose stop words are most frequent among some words; the first one if
        tied."""
        if len(self._stemmers) == 1:
            return self._stemmers[0][0]
        return max(self._stemmers, key=lambda language: sum(word in language[1] for word in words))[0]

    def dates_in(self, text: str) -> list[Dates]:
        """The time expressions of the languages in which a text may name a time."""
        return [dates for dates in self._dates if dates.hint.search(text)]

    @property
    def dates(self) -> Sequence[Dates]:
        """The time expressions of each language."""
        return self._dates
