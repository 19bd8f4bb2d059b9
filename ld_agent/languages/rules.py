"""How texts in a language are read: the patterns of ``rules.yaml``, looked for in every known language at once.

People mix languages, so a text is read by the rules of all that ship, and of folders that were loaded. Knows no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pydantic import BaseModel, ConfigDict, field_validator


class Patterns(BaseModel):
    """Some keys of ``rules.yaml``, each checked to be a regular expression, or a list of such."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _compiles(cls, value: object) -> object:
        for pattern in _patterns(value):
            try:
                re.compile(_PLACEHOLDER.sub("x", pattern))
            except re.error as exc:
                raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc
        return value


class Clauses(Patterns):
    """How a summary says who does what, for `ld_agent.modules.subjects`.

    Attributes:
        start: what may stand before the subject of a clause.
        part: what parts two statements of one sentence.
        joins: between two subjects: "Ann and Ben".
        possessive: after a name that owns something: "'s".
        pronoun: at the beginning of a sentence, in the group ``pronoun``, or ``owner`` where it owns something: "his".
        others: words for people besides the subject; a clause with one is not its subject's alone.
        of_another: a clause, from its subject on, that says what somebody does with another's words: "Ann praises".
        first_person: what takes a subject's place where its clause is read as if they said it: "I", "My".
        verb: what follows a name where a sentence lists what one person does; "": such sentences are left as they are.
        lists: what stands between two things of such a list, before ``verb``.
        nested: words of sentences within a sentence, which is left as it is.
        listed: what joins the things of a list, and the last two.
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

    @field_validator("pronoun")
    @classmethod
    def _pronouns_have_groups(cls, pattern: str) -> str:
        return _with_groups(pattern, ("pronoun", "owner"))

    def pattern(self, key: str) -> re.Pattern[str]:
        """The pattern of a key; "" matches nothing."""
        return re.compile(getattr(self, key) or "(?!)")


class Referents(Patterns):
    """Whom a trait is about, for `ld_agent.modules.referents`.

    Attributes:
        people: what somebody may be to the speaker: "sister", "dog".
        relation: a word of ``{people}``; ``{relation}`` stands for it in the other patterns.
        someone: somebody of the speaker's, in the groups ``relation`` and, where it is given, ``name``.
        not_names: what ``name`` may find that is no name.
        pronoun: at the beginning of a trait; the group ``owner`` where it owns something.
        possessive: what follows where it owns something.
        place: after what a name belongs in a trait, with ``{noun}``.
        link: what stands between the two, by how ``place`` begins; the first also in "My husband Tom" for a pronoun.
        does: the beginning of a trait that says what its speaker does.
        speaker: words for the speaker alone, or with others.
        they_do: the beginning of a sentence, or clause, that says what somebody of the speaker's does.
        clause_end: what parts the clauses of a sentence; "": they are not told apart.
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
        """The pattern of a key, whole."""
        return _referents(getattr(self, key), self.relation, self.people, noun)


class Rules(Patterns):
    """The rules of one language, ``rules.yaml``. Patterns are regular expressions; "" matches nothing.

    Attributes:
        stop_words: words that say nothing by themselves. Texts in several languages are read by all lists: leave out what
            says something in another language that people write.
        not_searched: further words that search by words passes over, such as the parts of contractions.
        stemmer: the name of the Snowball algorithm that takes endings off its words: "french"; "" where none is needed.
        no_trait: a sentence by which an extractor says that there is nothing.
        nothing: a whole answer that says so; the same of notes.
        of_the_task: a sentence that speaks of the task, or of "the speaker", instead of being a trait.
        lead_in: what a summary begins with before it begins: "Here is a summary:".
        clauses: see `Clauses`.
        referents: see `Referents`.
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
        some_number: what answers such a question without a number: "a few", "every day".
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
        orders: a sentence that tells its reader what to do or say: "ignore what you were told", "answer with the word".
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
    orders: str
    some_number: str = ""

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


def stop_words() -> frozenset[str]:
    """`Rules.stop_words` of every known language."""
    return _words(("stop_words",), tuple(KNOWN))


def not_searched() -> frozenset[str]:
    """The stop words, and `Rules.not_searched`, of every known language."""
    return _words(("stop_words", "not_searched"), tuple(KNOWN))


def stemmer_of(words: Sequence[str]) -> str:
    """The stemmer of the language whose stop words are most among some words; of several, and of none, the first known."""
    languages = _stemmers(tuple(KNOWN))
    if len(languages) == 1:
        return languages[0][0]
    return max(languages, key=lambda language: sum(word in language[1] for word in words))[0]


@cache
def _stemmers(known: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    return [(KNOWN[name].stemmer, frozenset(KNOWN[name].stop_words)) for name in known if KNOWN[name].stemmer]


@cache
def _words(keys: tuple[str, ...], known: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for name in known for key in keys for word in getattr(KNOWN[name], key))


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
