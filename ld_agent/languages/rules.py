"""How to read texts in one language: the patterns and words of ``rules.yaml``.

An agent reads by the rules of several languages at once, see `ld_agent.languages.reading`. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, field_validator


class Patterns(BaseModel):
    """Some keys of ``rules.yaml``, each checked to be a regular expression, or a list of such."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _compiles(cls, value: object) -> object:
        for pattern in patterns_of(value):
            try:
                re.compile(_PLACEHOLDER.sub("x", pattern))
            except re.error as exc:
                raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc
        return value


class Rules(Patterns):
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
        saying_nothing: nouns that tell nothing by themselves.
        filling: characters without meaning of their own, in languages without spaces.
    """

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

    @field_validator("asks_to_forget")
    @classmethod
    def _forgetting_has_groups(cls, pattern: str) -> str:
        return _with_groups(pattern, ("what",))

    @field_validator("stemmer")
    @classmethod
    def _snowball_knows_it(cls, name: str) -> str:
        import Stemmer

        if name and name not in Stemmer.algorithms():
            raise ValueError(f"{name!r} is not one of Snowball's stemmers: {', '.join(Stemmer.algorithms())}")
        return name


def _with_groups(pattern: str, groups: Sequence[str]) -> str:
    present = re.compile(_PLACEHOLDER.sub("x", pattern)).groupindex
    if missing := [group for group in groups if pattern and group not in present]:
        raise ValueError(f"{pattern!r} lacks the group {missing[0]!r}")
    return pattern


_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")


def patterns_of(value: object) -> tuple[str, ...]:
    """The regular expressions in a value of `Rules`: itself, or those of a list."""
    listed = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()
    return tuple(one if isinstance(one, str) else one[-1] for one in listed)
