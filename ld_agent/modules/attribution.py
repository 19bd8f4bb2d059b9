"""Whose trait it is: what somebody says of another person, or repeats of what that person said, is not their own.

The paper extracts traits from every utterance and files them under its speaker, so that an agent that says "Your son Jakob
is four!" gets a son. Pure functions over text; knows no model and no bank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.modules.wording import stems_of

FIRST_PERSON = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|my|mine|me|myself|we|we['’]\w+|our|ours|us)\b"
    r"|[我咱]|(?<![가-힣])(?:저|제|나|내|우리|저희)(?=[가는를도의 ])",
    re.IGNORECASE,
)
SECOND_PERSON = re.compile(
    r"\b(?:you|you['’]\w+|your|yours|yourself)\b|[你您妳]|(?<![가-힣])(?:너|네|당신|어르신)(?=[가는를도의 ])",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_ASKS = ("?", "？")
_SAYING = re.compile(
    r"\b(?:i|i['’]\w+)\s+(?:\w+\s+){0,2}(?:sure|glad|happy|sorry|see|hear|heard|know|remember|think|hope|guess|believe|bet|understand|say|said|wonder)\b"
    r"|\b(?:tell|told|let|remind|excuse|trust)\s+me\b|\blet\s+us\b"
    r"|我(?:很|也|真|还|就)?(?:想|觉得|覺得|希望|记得|記得|知道|听|聽|猜|相信|明白|理解)|(?:告诉|告訴|跟|对|對|让|讓|提醒)我",
    re.IGNORECASE,
)
"""First persons that say nothing of the speaker: "I hope your son is well", "you told me that …"."""
NEGATED = re.compile(r"\b(?:not|no|never|none|nor)\b|n['’]t\b|[不没沒]|않|없|아니", re.IGNORECASE)
REPEATED = 0.6
"""Share of a trait's words, said before by the other person, from which on it is a repetition."""
LIKING = stems_of("like likes liked love loves enjoy enjoys prefer prefers favorite favourite")
"""Words that make no difference between two traits: "I prefer coffee" repeats "I like coffee"."""


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
    rest = _SAYING.sub(" ", sentence)
    if sentence.rstrip().endswith(_ASKS) and SECOND_PERSON.search(rest) and not re.match(r"\W*(?:(?:I|My)\b|我)", rest):
        return False
    return FIRST_PERSON.search(rest) is not None


def _repeated(trait: str, others: Sequence[str]) -> bool:
    words = stems_of(trait) - LIKING
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
