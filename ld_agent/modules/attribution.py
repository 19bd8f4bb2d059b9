"""Whose trait it is: what somebody says of another person, or repeats of what that person said, is not their own.

The paper extracts traits from every utterance and files them under its speaker, so that an agent that says "Your son Jakob
is four!" gets a son. Pure functions over text; knows no model and no bank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.languages.rules import Reading
from ld_agent.modules.wording import stems_listed, stems_of

FIRST_PERSON, SECOND_PERSON = Reading("first_person"), Reading("second_person")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_ASKS = ("?", "？")
SAYING = Reading("saying")
NEGATED = Reading("negated")
REPEATED = 0.6
"""Share of a trait's words, said before by the other person, from which on it is a repetition."""


def belongs(trait: str, said: str, others: Sequence[str] = (), before: str = "") -> bool:
    """Whether a trait that was found in an utterance is its speaker's own.

    What repeats the other is not the speaker's own, even if it agrees ("I live in Oslo too"): a small model agrees with
    whatever it hears. What takes its words from the utterance before is the speaker's own only where that asked for it.

    Args:
        trait: as extracted, in the first person.
        said: the utterance.
        others: traits of the others.
        before: what another said right before.
    """
    statements = [s for s in _SENTENCE.split(before) if not s.rstrip().endswith(_ASKS)]
    known = [*others, *statements]
    sentence = _source(trait, said)
    if not speaks_of_self(sentence):
        return not (SECOND_PERSON.search(sentence) or _repeated(trait, known))
    parroted = _repeated(trait, known) and _repeated(sentence, known)  # a sentence with news in it is its speaker's
    return not (parroted or _taken(trait, said, before, statements))


def own_traits(traits: Sequence[str], said: str, others: Sequence[str] = (), before: str = "") -> tuple[str, ...]:
    """The traits that are the speaker's own; see `belongs`."""
    return tuple(trait for trait in traits if belongs(trait, said, others, before))


def _source(trait: str, said: str) -> str:
    """The sentence of an utterance that shares most with a trait; of several, one that speaks of its speaker, and the first."""
    words = stems_of(trait)
    sentences = [s for s in _SENTENCE.split(said) if s.strip()] or [said]
    return max(sentences, key=lambda sentence: (len(words & stems_of(sentence)), speaks_of_self(sentence)))


def speaks_of_self(sentence: str) -> bool:
    """Whether a sentence says something of its speaker; a question about the other says nothing."""
    rest = SAYING.sub(" ", sentence)
    if sentence.rstrip().endswith(_ASKS) and SECOND_PERSON.search(rest) and not re.match(r"\W*(?:(?:I|My)\b|我)", rest):
        return False
    return FIRST_PERSON.search(rest) is not None


def _repeated(trait: str, others: Sequence[str]) -> bool:
    words = stems_of(trait) - stems_listed("liking")
    denied = NEGATED.search(trait) is not None
    return bool(words) and any(
        len(words & stems_of(other)) >= REPEATED * len(words) and (NEGATED.search(other) is not None) == denied
        for other in others
    )


def _taken(trait: str, said: str, before: str, statements: Sequence[str]) -> bool:
    """Whether the words of a trait that its speaker did not say are the other's, who had not asked for them."""
    foreign = stems_of(trait) - stems_of(said)
    asked = {stem for s in _SENTENCE.split(before) if s.rstrip().endswith(_ASKS) for stem in stems_of(s)}
    return bool(foreign) and foreign <= stems_of(" ".join(statements)) and not foreign & asked
