"""How texts are read: the patterns and words of one language, ``rules.yaml``, and those of all languages of an agent, applied
together because people mix languages.

Every `Language` has a `Reading`: its own rules and those of the shipped languages. Nothing here is shared with an agent of
another language. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from pydantic import BaseModel, ConfigDict, field_validator

from ld_agent.languages.dates import Dates, regular

LONGEST_REQUEST = 300
"""Characters of a sentence that may ask to forget something."""


class Rules(BaseModel):
    """The rules of one language, ``rules.yaml``. Patterns are regular expressions; "" matches nothing.

    Attributes:
        stop_words: words without meaning of their own. An agent's texts are read by its own language and the shipped
            ones: leave out words that mean something in English.
        not_searched: further words that word search ignores, such as the parts of contractions.
        stemmer: the name of the language's Snowball stemmer: "french"; "": none is needed.
        no_trait: a sentence by which an extractor reports that there is no trait.
        nothing: a whole answer that reports no trait or no note.
        of_the_task: a sentence about the task or "the speaker" instead of a trait.
        lead_in: an introduction to a summary: "Here is a summary:".
        relation: somebody related to the speaker: "sister", "dog".
        pronoun: begins a sentence about somebody just mentioned.
        first_person, second_person: words for the speaker and for the person addressed.
        saying: first-person phrases that state nothing about the speaker: "I hope your son is well".
        negated: words of denial.
        not_knowing: states that something is not known: "you never told me".
        asks_past: words of a question about the past: "did", "was".
        asks_whether: a question that yes or no answers.
        asks_former: words of a question about what has changed since: "before", "used to".
        asks_to_forget: a sentence that asks to forget something told, and, in the group ``what``, what; none: what was
            said last.
        own_clause: how a clause begins that says by itself something of its speaker: "and I".
        conditional: words after which clauses need each other: "if".
        saying_nothing: nouns that tell nothing by themselves.
        filling: characters without meaning of their own, in languages without spaces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    stop_words: tuple[str, ...]
    not_searched: tuple[str, ...]
    stemmer: str
    no_trait: str
    nothing: str
    of_the_task: str
    lead_in: str
    relation: str
    pronoun: str
    first_person: str
    second_person: str
    saying: str
    negated: str
    not_knowing: tuple[str, ...]
    saying_nothing: tuple[str, ...]
    filling: str
    asks_past: str = ""
    asks_whether: str = ""
    asks_former: str = ""
    asks_to_forget: str = ""
    own_clause: str = ""
    conditional: str = ""

    @field_validator("*")
    @classmethod
    def _compiles(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for pattern in _listed(value):
            regular(pattern)
        return value

    @field_validator("asks_to_forget")
    @classmethod
    def _forgetting_has_its_group(cls, pattern: str) -> str:
        if pattern and "what" not in re.compile(pattern).groupindex:
            raise ValueError(f"{pattern!r} lacks the group 'what'")
        return pattern

    @field_validator("stemmer")
    @classmethod
    def _snowball_knows_it(cls, name: str) -> str:
        import Stemmer

        if name and name not in Stemmer.algorithms():
            raise ValueError(f"{name!r} is not one of Snowball's stemmers: {', '.join(Stemmer.algorithms())}")
        return name


def _listed(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The patterns of a key."""
    return (value,) if isinstance(value, str) else value


class _Patterns(dict[str, re.Pattern[str]]):
    """See `Reading`; a pattern is compiled when first used."""

    def __init__(self, rules: Sequence[Rules]) -> None:
        self._rules = rules

    def __missing__(self, key: str) -> re.Pattern[str]:
        patterns = [pattern for rules in self._rules for pattern in _listed(getattr(rules, key))]
        self[key] = re.compile("|".join(f"(?:{pattern})" for pattern in patterns if pattern) or "(?!)")
        return self[key]


class Reading:
    """The rules of some languages as one. Immutable, and equal only to itself, so that results can be cached by it.

    Args:
        rules: of each language; where only one can apply, an earlier one is preferred.
        dates: the time expressions of the same languages.

    Attributes:
        dates: as given.
        patterns: by key of `Rules`, a pattern that matches what the pattern of any language matches.
    """

    def __init__(self, rules: Sequence[Rules], dates: Sequence[Dates]) -> None:
        self._rules, self.dates = tuple(rules), tuple(dates)
        self.patterns = _Patterns(self._rules)

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
    def stemmers(self) -> Sequence[tuple[str, frozenset[str]]]:
        """The stemmer and the stop words of each language."""
        return [(rules.stemmer, frozenset(rules.stop_words)) for rules in self._rules if rules.stemmer]

    def dates_in(self, text: str) -> list[Dates]:
        """The time expressions of the languages in which a text may name a time."""
        return [dates for dates in self.dates if dates.hint.search(text)]
