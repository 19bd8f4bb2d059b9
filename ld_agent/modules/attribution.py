"""Decides whose trait it is: what people say about someone else, or repeat from them, is not their own trait.

The paper extracts traits from every utterance and files them under its speaker, so that an agent saying "Your son Jakob
is four!" acquires a son. Pure functions over text; knows no model and no persona bank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache

from ld_agent.languages.rules import KNOWN, Reading
from ld_agent.modules.wording import EAST_ASIAN, stems_listed, stems_of

FIRST_PERSON, SECOND_PERSON = Reading("first_person"), Reading("second_person")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_ASKS = ("?", "？")
SAYING = Reading("saying")
NEGATED = Reading("negated")
REPEATED = 0.6
"""Share of a trait's words, said earlier by the other person, at which it counts as a repetition."""


def belongs(trait: str, said: str, others: Sequence[str] = (), before: str = "") -> bool:
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
    sentence = _source(trait, said)
    if not speaks_of_self(sentence):
        asks = EAST_ASIAN.search(sentence) and sentence.rstrip().endswith(
            _ASKS
        )  # "you" is left out: "요즘 어떻게 지내세요?"
        return not (asks or SECOND_PERSON.search(sentence) or _repeated(trait, known))
    asked = {stem for s in _SENTENCE.split(before) if s.rstrip().endswith(_ASKS) for stem in stems_of(s)}
    answers = not asked.isdisjoint(stems_of(trait) - stems_listed("liking"))
    return not ((_repeated(trait, known) and not answers) or _taken(trait, said, asked, statements))


def own_traits(traits: Sequence[str], said: str, others: Sequence[str] = (), before: str = "") -> tuple[str, ...]:
    """The traits that are the speaker's own; see `belongs`."""
    return tuple(trait for trait in traits if belongs(trait, said, others, before))


def _source(trait: str, said: str) -> str:
    """The sentence of an utterance that shares most words with a trait; ties go to one about its speaker, then to the
    first."""
    words = stems_of(trait)
    sentences = [s for s in _SENTENCE.split(said) if s.strip()] or [said]
    return max(sentences, key=lambda sentence: (len(words & stems_of(sentence)), speaks_of_self(sentence)))


def speaks_of_self(sentence: str) -> bool:
    """Whether a sentence says something about its speaker; a question about the other person does not."""
    rest = SAYING.sub(" ", sentence)
    if sentence.rstrip().endswith(_ASKS) and SECOND_PERSON.search(rest) and not _begins_with_self(rest):
        return False
    return FIRST_PERSON.search(rest) is not None


def only_asks(text: str) -> bool:
    """Whether a text consists of questions that say nothing about whoever asks them."""
    sentences = [s for s in _SENTENCE.split(text) if s.strip()]
    return bool(sentences) and all(s.rstrip().endswith(_ASKS) and not speaks_of_self(s) for s in sentences)


def _begins_with_self(sentence: str) -> bool:
    """Whether a sentence begins with "I" or "My", in any known language."""
    return _selves(tuple(KNOWN)).match(sentence) is not None


@cache
def _selves(known: tuple[str, ...]) -> re.Pattern[str]:
    words = sorted({word for name in known for word in KNOWN[name].clauses.first_person})
    return re.compile(rf"\W*(?:{'|'.join(map(re.escape, words))})(?![a-zA-Z\d_])")


def _repeated(trait: str, others: Sequence[str]) -> bool:
    words = stems_of(trait) - stems_listed("liking")
    denied = NEGATED.search(trait) is not None
    return bool(words) and any(
        len(words & stems_of(other)) >= REPEATED * len(words) and (NEGATED.search(other) is not None) == denied
        for other in others
    )


def _taken(trait: str, said: str, asked: Set[str], statements: Sequence[str]) -> bool:
    """Whether the words of a trait that its speaker did not say come from the other person's statements, and nobody
    asked for them."""
    foreign = stems_of(trait) - stems_of(said)
    return bool(foreign) and foreign <= stems_of(" ".join(statements)) and not foreign & asked
