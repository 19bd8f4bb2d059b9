"""Decides whose trait it is: what people say about someone else, or repeat from them, is not their own trait.

The paper extracts traits from every utterance and files them under its speaker, so that an agent saying "Your son Jakob
is four!" acquires a son. Pure functions over text; knows no model and no persona bank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache

from ld_agent.languages.reading import Reading
from ld_agent.text import EAST_ASIAN, stems_listed, stems_of

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_ASKS = ("?", "？")
REPEATED = 0.6
"""Share of a trait's words, said earlier by the other person, at which it counts as a repetition."""


def belongs(trait: str, said: str, reading: Reading, others: Sequence[str] = (), before: str = "") -> bool:
    """Whether a trait found in an utterance is the speaker's own.

    A repetition of the other person is not, even if it agrees ("I live in Oslo too") or adds something ("I'm shopping
    for my dogs" to someone who has dogs): a small model agrees with whatever it hears. A trait that repeats the other
    person, or takes its words from the previous utterance, is the speaker's own only if that utterance asked for it.

    Args:
        trait: as extracted, in the first person.
        said: the utterance.
        others: traits of the others.
        before: what another speaker said right before.
    """
    statements = [s for s in _SENTENCE.split(before) if not s.rstrip().endswith(_ASKS)]
    known = [*others, *statements]
    sentence = _source(trait, said, reading)
    if not speaks_of_self(sentence, reading):
        asks = EAST_ASIAN.search(sentence) and sentence.rstrip().endswith(
            _ASKS
        )  # "you" is left out: "요즘 어떻게 지내세요?"
        return not (asks or reading.pattern("second_person").search(sentence) or _repeated(trait, known, reading))
    asked = {stem for s in _SENTENCE.split(before) if s.rstrip().endswith(_ASKS) for stem in stems_of(s, reading)}
    answers = not asked.isdisjoint(_content(trait, reading))
    repeats = _repeated(trait, known, reading) and not answers
    return not (repeats or _taken(trait, said, asked, statements, reading))


def own_traits(
    traits: Sequence[str], said: str, reading: Reading, others: Sequence[str] = (), before: str = ""
) -> tuple[str, ...]:
    """The traits that are the speaker's own; see `belongs`."""
    return tuple(trait for trait in traits if belongs(trait, said, reading, others, before))


def _source(trait: str, said: str, reading: Reading) -> str:
    """The sentence of an utterance that shares most words with a trait; ties go to one about its speaker, then to the
    first."""
    words = stems_of(trait, reading)
    sentences = [s for s in _SENTENCE.split(said) if s.strip()] or [said]
    return max(sentences, key=lambda one: (len(words & stems_of(one, reading)), speaks_of_self(one, reading)))


def speaks_of_self(sentence: str, reading: Reading) -> bool:
    """Whether a sentence says something about its speaker; a question about the other person does not."""
    rest = reading.pattern("saying").sub(" ", sentence)
    asks_you = sentence.rstrip().endswith(_ASKS) and reading.pattern("second_person").search(rest)
    if asks_you and not _selves(reading).match(rest):
        return False
    return reading.pattern("first_person").search(rest) is not None


def only_asks(text: str, reading: Reading) -> bool:
    """Whether a text consists of questions that say nothing about whoever asks them."""
    sentences = [s for s in _SENTENCE.split(text) if s.strip()]
    return bool(sentences) and all(s.rstrip().endswith(_ASKS) and not speaks_of_self(s, reading) for s in sentences)


@cache
def _selves(reading: Reading) -> re.Pattern[str]:
    """Matches the beginning of a sentence that begins with "I" or "My"."""
    words = sorted({word for clauses in reading.clauses for word in clauses.first_person})
    return re.compile(rf"\W*(?:{'|'.join(map(re.escape, words))})(?![a-zA-Z\d_])")


def _content(trait: str, reading: Reading) -> set[str]:
    return stems_of(trait, reading) - stems_listed("liking", reading)


def _repeated(trait: str, others: Sequence[str], reading: Reading) -> bool:
    words, negated = _content(trait, reading), reading.pattern("negated")
    denied = negated.search(trait) is not None
    return bool(words) and any(
        len(words & stems_of(other, reading)) >= REPEATED * len(words) and (negated.search(other) is not None) == denied
        for other in others
    )


def _taken(trait: str, said: str, asked: Set[str], statements: Sequence[str], reading: Reading) -> bool:
    """Whether the words of a trait that its speaker did not say come from the other person's statements, and nobody
    asked for them."""
    foreign = stems_of(trait, reading) - stems_of(said, reading)
    return bool(foreign) and foreign <= stems_of(" ".join(statements), reading) and not foreign & asked
