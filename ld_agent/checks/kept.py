"""What of a model's answer may be stored: what its lines support, or else the people's own words.

Pure functions over lines, claims and the learned check; knows no store and no model that writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.attribution import speaks_of_self
from ld_agent.checks.learned import ENDED, LASTING, SUPPORTED, Lines, StatementCheck, answering
from ld_agent.languages.reading import Reading
from ld_agent.prompts import as_name
from ld_agent.text import SENTENCE_END, stems_of

TRUE, SAID = 0.7, 0.3
"""Least probability that what a model worded is true, and what has the words of its lines."""
OVER, LASTS = 0.6, 0.2
"""Least probabilities that a line ends a statement, and that one still matters in a month."""
ANSWERS, OPPOSITE = 0.5, 0.6
"""Least probability that a passage supports an answer read in it, and the opposite of a yes or no."""
WINDOW, STRIDE = 6, 3
"""Lines that a sentence of a summary is read against at once, and how far the next ones begin after them."""
ALIKE = 0.3
"""Least cosine of two lines of which one may end what the other says."""
OWN_WORDS = 60
"""Words of an event that quotes, beyond which no further line is quoted."""
FEWEST, MOST = 3, 30
"""Words of a sentence that may be stored as it was said."""
ASKS = ("?", "？")
QUOTED = re.compile(r"[\"“]\S+\s+\S+\s+\S[^\"”]*[\"”]")
YES, NO = re.compile(r"\W*yes\b", re.IGNORECASE), re.compile(r"\W*no\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a text is stored, and how many of its statements are not."""

    text: str
    dropped: int = 0


def true_traits(
    check: StatementCheck, lines: Lines, traits: Sequence[str], reading: Reading, *, ends: bool = False
) -> list[str]:
    """What is kept of the traits found in the last line: those that are true and last; for any other, the sentence that it rests
    on, if that does.

    Args:
        lines: what was said last, after what led up to it.
        ends: the line ends an earlier trait, so that it tells something even if no trait was found.
    """
    speaker, said = lines[-1]
    own = [sentence for sentence in _sentences(said) if speaks_of_self(sentence, reading)]
    rests_on = {trait: _nearest(trait, own, reading) for trait in traits}
    if check.verbatim:
        traits = [
            t if stems_of(t, reading) <= stems_of(sentence, reading) else sentence
            for t, sentence in rests_on.items()
            if sentence
        ]
    if ends and not traits:
        traits = own[:1]
    return _true(check, lines, speaker, list(dict.fromkeys(traits)), LASTS if not ends else 0) or (
        []
        if check.verbatim
        else _true(check, lines, speaker, list(dict.fromkeys(filter(None, rests_on.values()))), LASTS)
    )


def _true(check: StatementCheck, lines: Lines, speaker: str, traits: Sequence[str], lasting: float) -> list[str]:
    """The traits that the lines support and that last."""
    if not traits:
        return []
    pairs = [*((lines, f"{speaker}: {trait}") for trait in traits), *((LASTING, trait) for trait in traits)]
    found = check.probabilities(pairs)[:, SUPPORTED]
    judged = zip(traits, found[: len(traits)], found[len(traits) :], strict=True)
    least = SAID if check.verbatim else TRUE
    return [trait for trait, true, lasts in judged if true >= least and lasts >= lasting]


def _nearest(trait: str, sentences: Sequence[str], reading: Reading) -> str:
    """The sentence that has most of a trait's words; "": none has any."""
    words = stems_of(trait, reading)
    shared = {sentence: len(words & stems_of(sentence, reading)) for sentence in sentences}
    best = max(shared, key=shared.__getitem__, default="")
    return best if shared.get(best) else ""


def _sentences(text: str) -> list[str]:
    """The sentences of a text that state something; what it quotes is nobody's statement."""
    sentences = (" ".join(sentence.split()) for sentence in SENTENCE_END.split(QUOTED.sub("", text)))
    return [s for s in sentences if FEWEST <= len(s.split()) <= MOST and not s.endswith(ASKS)]


def over(check: StatementCheck, lines: Lines, speaker: str, statements: Sequence[str]) -> list[int]:
    """The places of the statements about a speaker that the lines end or deny."""
    if not statements:
        return []
    found = check.probabilities([(lines, f"{speaker}: {statement}") for statement in statements])
    return np.flatnonzero(found[:, ENDED] >= OVER).tolist()


def true_answer(check: StatementCheck, lines: Lines, asker: str, question: str, answer: str) -> str:
    """An answer that the lines support, or the opposite of a yes or no if they support that; "": neither."""
    opposite = "No." if YES.match(answer) else "Yes." if NO.match(answer) else ""
    texts = [answer, *([opposite] if opposite else [])]
    found = check.probabilities([(lines, answering(asker, question, text)) for text in texts])[:, SUPPORTED]
    if opposite and found[1] > max(found[0], OPPOSITE):
        return opposite
    return answer if found[0] >= ANSWERS else ""


def is_true_answer(check: StatementCheck, passages: Sequence[Lines], asker: str, question: str, answer: str) -> bool:
    """Whether some of the passages support an answer."""
    claim = answering(asker, question, answer)
    return bool(check.probabilities([(lines, claim) for lines in passages])[:, SUPPORTED].max() >= ANSWERS)


def outdated(check: StatementCheck, told: Sequence[tuple[str, str]], alike: NDArray[np.float32]) -> set[int]:
    """The places of lines, oldest first, that a later line of the same speaker ends or corrects.

    Args:
        alike: (n, n) cosines of the lines; of those less alike than `ALIKE`, none is about the other.
    """
    pairs = [
        (old, new)
        for new, (speaker, _) in enumerate(told)
        for old in range(new)
        if told[old][0] == speaker and alike[old, new] >= ALIKE
    ]
    if not pairs:
        return set()
    found = check.probabilities([([told[new]], f"{told[old][0]}: {told[old][1]}") for old, new in pairs])
    return {old for (old, _), over in zip(pairs, found[:, ENDED], strict=True) if over >= OVER}


def true_event(check: StatementCheck, lines: Lines, summary: str, agent: str) -> Kept:
    """The sentences of a summary that the lines of its session support; if some are not, also what people said.

    Args:
        agent: its lines are quoted only if nobody else said anything.
    """
    sentences = [sentence for sentence in SENTENCE_END.split(summary) if sentence.strip()]
    parts = _windows(lines)
    found = check.probabilities([(part, sentence) for sentence in sentences for part in parts])
    best = found[:, SUPPORTED].reshape(len(sentences), len(parts)).max(axis=1, initial=0.0)
    kept = [s for s, true in zip(sentences, best, strict=True) if true >= TRUE]
    if len(kept) == len(sentences) and kept:
        return Kept(summary)
    return Kept(" ".join([*kept, *own_words(check, lines, agent)]), len(sentences) - len(kept))


def _windows(lines: Lines) -> list[Lines]:
    return [lines[start : start + WINDOW] for start in range(0, max(len(lines) - WINDOW, 0) + STRIDE, STRIDE)]


def own_words(check: StatementCheck, lines: Lines, agent: str) -> list[str]:
    """The sentences that most likely still matter later, in order, each with its speaker: `OWN_WORDS` words, but one at least."""
    said = [(n, speaker, s) for n, (speaker, text) in enumerate(lines) for s in _sentences(text)]
    said = [one for one in said if one[1] != agent] or said
    if not said:
        return [f"{as_name(speaker)}: {text}" for speaker, text in lines[:1]]
    worth = check.probabilities([(LASTING, sentence) for _, _, sentence in said])[:, SUPPORTED]
    chosen: list[int] = []
    room = OWN_WORDS
    for place in np.argsort(-worth, kind="stable").tolist():
        words = len(said[place][2].split())
        if words <= room or not chosen:
            chosen.append(place)
            room -= words
    return [f"{as_name(said[place][1])}: {said[place][2]}" for place in sorted(chosen)]
