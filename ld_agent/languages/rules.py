"""How to read texts in one language: the patterns and words of ``rules.yaml``.

An agent reads by the rules of several languages at once, see `ld_agent.languages.reading`. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, field_validator


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


class Clauses(Patterns):
    """How summaries state who does what, for `ld_agent.checks.subjects`.

    Attributes:
        start: what may stand before the subject of a clause.
        part: separates two statements within a sentence.
        joins: joins two subjects: "Ann and Ben".
        possessive: follows an owner's name: "'s".
        pronoun: a pronoun that begins a sentence, in the group ``pronoun``, or in ``owner`` if possessive: "his".
        others: words for people besides the subject; a clause that contains one is not about its subject alone.
        of_another: matches a clause in which the subject reacts to another's words: "Ann praises".
        first_person: replaces the subject when a clause is put into their own words: "I", "My".
        verb: follows the name in a sentence that lists what one person does; "": such sentences are not taken apart.
        lists: separates two items of such a list, before ``verb``.
        nested: words of subordinate clauses; a sentence that contains one is not taken apart.
        listed: joins the items of a list, and the last two.
        particles: follow a Korean name that ends in a consonant, and their counterparts after a vowel: "은": "는".
    """

    start: str
    part: str
    joins: str
    possessive: str
    pronoun: str
    others: str
    of_another: str
    first_person: tuple[str, str]
    verb: str = ""
    lists: str = ""
    nested: str = ""
    listed: tuple[str, str] = (", ", " and ")
    particles: Mapping[str, str] = Field(default_factory=dict)

    @field_validator("pronoun")
    @classmethod
    def _pronouns_have_groups(cls, pattern: str) -> str:
        return _with_groups(pattern, ("pronoun", "owner"))

    def pattern(self, key: str) -> re.Pattern[str]:
        """The pattern of a key; "" matches nothing."""
        return re.compile(getattr(self, key) or "(?!)")


class Referents(Patterns):
    """How to find whom a trait is about, for `ld_agent.checks.referents`.

    Attributes:
        people: relations to the speaker: "sister", "dog".
        relation: one of ``{people}``; the other patterns refer to it as ``{relation}``.
        someone: somebody related to the speaker, in the groups ``relation`` and, if named, ``name``.
        not_names: matches of ``name`` that are not names.
        pronoun: a pronoun that begins a trait; the group ``owner`` if possessive.
        possessive: follows a possessive pronoun.
        place: where in a trait a name is inserted, with ``{noun}``.
        link: joins noun and name, by how ``place`` begins; the first one also makes "My husband Tom" of a pronoun.
        does: begins a trait that says what its speaker does.
        speaker: words for the speaker alone, or with others.
        they_do: begins a sentence or clause about somebody related to the speaker.
        clause_end: separates the clauses of a sentence; "": clauses are not distinguished.
    """

    people: tuple[str, ...]
    relation: str
    someone: str
    not_names: tuple[str, ...]
    pronoun: str
    possessive: str
    place: str
    link: tuple[tuple[str, str], ...]
    does: str
    speaker: str
    they_do: str
    clause_end: str = ""

    @field_validator("someone")
    @classmethod
    def _someone_has_groups(cls, pattern: str) -> str:
        return _with_groups(pattern, ("relation", "name"))

    @field_validator("pronoun")
    @classmethod
    def _pronouns_have_groups(cls, pattern: str) -> str:
        return _with_groups(pattern, ("owner",))

    def pattern(self, key: str, noun: str = "") -> re.Pattern[str]:
        """The whole pattern of a key."""
        return _referents(getattr(self, key), self.relation, self.people, noun)


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
        clauses: see `Clauses`.
        referents: see `Referents`.
        first_person, second_person: words for the speaker and for the person addressed.
        saying: first-person phrases that state nothing about the speaker: "I hope your son is well".
        negated: words of denial.
        liking: words that do not distinguish two traits: "I prefer coffee" repeats "I like coffee".
        not_knowing: states that something is not known: "you never told me".
        question_word: begins a question about a fact: "what", "how many".
        remembers: precedes such a question: "do you remember".
        requests: begins a sentence that asks to be told what was said before, with or without a question mark, up to
            what is asked for: "tell me [my dog's name]", "do you remember [where I parked]".
        aside: first-person phrases that do not make a question about the speaker: "tell me".
        advice: words of questions that ask for advice or news.
        asks_name, asks_number: match questions answered by a name or a number.
        some_number: answers to such a question without a number: "a few", "every day".
        asks_past: words of a question about the past: "did", "was".
        asks_whether: a question that yes or no answers.
        asks_former: words of a question about what has changed since: "before", "used to".
        asks_to_forget: a sentence that asks to forget something told, and, in the group ``what``, what; none: what was
            said last.
        someone: its groups are names in a question.
        as_asker: begins an answer given in the asker's person: "I keep".
        turned: words in the asker's person and their counterparts: "my": "your".
        saying_nothing: nouns that an honest answer may add.
        counted: follows a number that counts something: "三天". Needed only if number words have other meanings too.
        slots: attributes with one value at a time, as a name and a pattern with the group ``value``, which ignores case;
            ``{of}`` in the name refers to the group of that name; the group ``none`` marks the absence of a value.
            Names shared by all languages: home, work as, work at, name, age, marriage, favorite {of}, name of my {of},
            number of {of}.
        denial: words by which a trait denies, ends or dislikes its subject; two cancel each other.
        wish: words by which a trait is not yet true.
        circumstance: begins what follows the full name of a place or an employer.
        empty: words that do not tell what a trait is about: pronouns, particles, denials.
        tastes: words for liking and disliking, which count as one topic.
        numerals: small numbers, in digits.
        filling: characters without meaning of their own, in languages without spaces.
    """

    stop_words: tuple[str, ...]
    not_searched: tuple[str, ...]
    stemmer: str
    no_trait: str
    nothing: str
    of_the_task: str
    lead_in: str
    clauses: Clauses
    referents: Referents
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
    requests: str = ""
    some_number: str = ""
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


@cache
def _referents(pattern: str, relation: str, people: tuple[str, ...], noun: str) -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(people, key=len, reverse=True))) or "(?!)"
    whole = pattern.replace("{relation}", relation).replace("{people}", words).replace("{noun}", re.escape(noun))
    return re.compile(whole or "(?!)")


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
