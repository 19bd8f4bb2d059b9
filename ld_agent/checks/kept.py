"""What of a model's answer may be stored: what its lines support, or else the people's own words.

Pure functions over lines, claims and the learned check; knows no store and no model that writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ld_agent.checks.learned import ASKED, ENDED, LASTING, SUPPORTED, Lines, Pair, StatementCheck
from ld_agent.checks.statements import ASKS, speaks_of_self
from ld_agent.languages.reading import Reading
from ld_agent.prompts import as_name
from ld_agent.text import LONGEST_READ, SENTENCE_END, shared_stems, stems_listed, stems_of, words_of

TRUE, SAID, TAKEN = 0.7, 0.5, 0.8
"""Least probability that what a model worded is true, what was said so, and what a model made of the words of a sentence."""
LASTS, LASTS_ALONE, LASTS_OF_OTHERS = 0.5, 0.8, 0.9
"""Least probabilities that a statement still matters in a month: what the extractor found, any other sentence, which may need the
lines around it, and one without its speaker in it ("Ottoline has a baby brother!")."""
ENDS, CHANGES = 0.25, 0.05
"""Least probabilities that a line that ends a trait, or is quoted without "I" in it, and one of which a model is asked whether it
changes one, says itself something that lasts: "Bye, talk tomorrow!" ends no job. Of 32 lines that change a trait 30 have the
second, of MSC's half."""
READ, DECIDES = 0.3, 0.7
"""Least probabilities that a passage supports what was read in it, and a yes or no that no model gave."""
ANSWERED = 0.4
"""Least probability that a passage supports what was answered from a whole prompt; 203 of 206 right answers of a larger model
have it."""
ASKS_FOR, ASKS_UNMARKED = 0.6, 0.95
"""Least probabilities that an utterance asks for what was told before: with a question mark, and without."""
BEFORE = 2
"""Lines before each one that a sentence of a summary is read against with it: the check is surest of few lines."""
NEAREST = 8
"""Lines, those with most of a sentence's words, that it is read against."""
OWN_WORDS, ASKED_WORDS = 60, 5
"""Words of an event that quotes, beyond which no further line is quoted, and of a line that only asks, if it is quoted at all."""
MOST_SENTENCES, MOST_TRAITS = 64, 64
"""Sentences and traits of one line that are judged: its first ones."""
FEWEST, MOST = 3, 30
"""Words of a sentence that may be stored as a trait as it was said, fewer if it tells of its speaker ("I'm vegan."); an event
quotes longer ones."""
NO_LEAST: Mapping[str, float] = {}
QUOTE = "\0"
"""Stands for what is quoted."""
QUOTED = re.compile(r"[\"“][^\s\"“”]++\s++[^\s\"“”]++\s++[^\s\"“”][^\"“”]*+[\"”]")

CLAUSE_END = re.compile(r"(?<=[,;])\s+")
PASSED_ON = re.compile(r"^> [^\n]*\n?|\[forwarded[^\]\n]{0,200}\].*+", re.MULTILINE | re.DOTALL)
"""What somebody else wrote: a line after "> ", and all of a forwarded message, as histories mark it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of a text, and how many of its statements were dropped."""

    text: str
    dropped: int = 0


def true_traits(
    check: StatementCheck, lines: Lines, traits: Sequence[str], reading: Reading, *, ends: bool = False
) -> list[str]:
    """What is stored of the last line: traits that are true and last; if none is, the speaker's sentences of which that holds.

    Args:
        lines: what was said last, after what led up to it.
        traits: what the extractor found in it.
        ends: the line ends an earlier trait, so that it tells something even if no trait was found and, with `verbatim`, even
            of somebody else: "Bramble died last night."
    """
    sentences = {s: speaks_of_self(QUOTED.sub("", s), reading) for s in statements_in(lines[-1][1], reading)}
    own = [sentence for sentence, of_self in sentences.items() if of_self]
    rests_on = {trait: _nearest(trait, own, reading) for trait in traits[:MOST_TRAITS]}
    if check.verbatim:
        return _in_own_words(check, lines, sentences, rests_on, reading, ends)
    if ends and not traits:
        traits = own[:1]
    lasts = 0.0 if ends else LASTS
    return _true(check, lines, dict.fromkeys(traits, lasts)) or _true(
        check, lines, dict.fromkeys(own, LASTS_ALONE), dict.fromkeys(own, SAID)
    )


def _in_own_words(
    check: StatementCheck,
    lines: Lines,
    sentences: Mapping[str, bool],
    rests_on: Mapping[str, str],
    reading: Reading,
    ends: bool,
) -> list[str]:
    """What is stored of the speaker's sentences: one that lasts, or else the traits in it that last and have no other words.

    Args:
        sentences: whether each says something of its speaker; others do so of the speaker's people and things.
    """
    within, lasting, least = dict[str, list[str]](), dict[str, float](), dict[str, float]()
    for sentence, of_self in sentences.items():
        if not of_self and reading.patterns["second_person"].search(sentence):
            continue
        found = [trait for trait, source in rests_on.items() if source == sentence]
        told = of_self and ends and (bool(found) or not any(rests_on.values()))
        told_in = stems_of(sentence, reading) | stems_listed("saying_nothing", reading)
        within[sentence] = [trait for trait in found if stems_of(trait, reading) <= told_in]
        lasting |= dict.fromkeys(within[sentence], 0.0 if told else LASTS)
        alone = LASTS_ALONE if of_self else LASTS if ends else LASTS_OF_OTHERS
        lasting[sentence] = 0.0 if told else LASTS if found else alone
        least |= dict.fromkeys(within[sentence], TAKEN) | {sentence: SAID}
    true = _true(check, lines, lasting, least)
    kept = [[sentence] if sentence in true else [t for t in traits if t in true] for sentence, traits in within.items()]
    return list(dict.fromkeys(text for texts in kept for text in texts))


def _true(
    check: StatementCheck, lines: Lines, lasting: Mapping[str, float], least: Mapping[str, float] = NO_LEAST
) -> list[str]:
    """The statements about the last speaker that the lines support and that last, each with its least probability; `TRUE`."""
    if not lasting:
        return []
    pairs = [*((lines, f"{lines[-1][0]}: {text}") for text in lasting), *((LASTING, text) for text in lasting)]
    found = check.probabilities(pairs)[:, SUPPORTED]
    judged = zip(lasting.items(), found[: len(lasting)], found[len(lasting) :], strict=True)
    return [text for (text, lasts), true, long in judged if true >= least.get(text, TRUE) and long >= lasts]


def _nearest(trait: str, sentences: Sequence[str], reading: Reading) -> str:
    """The sentence that has most of a trait's words; "": none has any."""
    shared = shared_stems(trait, sentences, reading)
    return sentences[shared.index(max(shared))] if any(shared) else ""


def statements_in(text: str, reading: Reading, most: int = MOST) -> list[str]:
    """The sentences of a text that state something themselves, long ones clause by clause; what only quotes is nobody's
    statement."""
    text = without_passed_on(text[:LONGEST_READ])
    quoted = iter(QUOTED.findall(text))
    found = []
    for sentence in (" ".join(part.split()) for part in SENTENCE_END.split(QUOTED.sub(QUOTE, text))):
        stated = _stated(sentence, reading)
        for clause in _clauses(stated, reading, most):
            whole = "".join(next(quoted, char) if char == QUOTE else char for char in clause)
            words = len(clause.split())
            if 0 < words <= most and (words >= FEWEST or speaks_of_self(clause, reading)):
                found.append(whole)
        for _ in range(sentence.count(QUOTE) - stated.count(QUOTE)):
            next(quoted, None)
    return found[:MOST_SENTENCES]


def _stated(sentence: str, reading: Reading) -> str:
    """A sentence, or what the speaker states in one before its last clause asks: "I'm vegan, any restaurant tips?"."""
    if not sentence.endswith(ASKS):
        return sentence
    *before, asked = CLAUSE_END.split(sentence)
    stated, patterns = " ".join(before).rstrip(",;"), reading.patterns
    own = patterns["own_clause"].match(stated) and not patterns["conditional"].search(sentence)
    tag = not stems_of(asked, reading) - stems_listed("saying_nothing", reading)  # "don't I?"
    return f"{stated}." if own and not tag else ""


def _clauses(sentence: str, reading: Reading, most: int) -> list[str]:
    """A sentence, or the clauses of one of more than ``most`` words that have their own subject, unless they need each other."""
    if len(sentence.split()) <= most or reading.patterns["conditional"].search(sentence):
        return [sentence]
    clauses = [""]
    for part in CLAUSE_END.split(sentence):
        if reading.patterns["own_clause"].match(part):
            clauses.append(part)
        else:
            clauses[-1] += f" {part}"
    return [clause.strip(" ,;:") for clause in clauses]


def may_last(check: StatementCheck, text: str, least: float) -> bool:
    """Whether a line says, with at least that probability, something that still matters in a month."""
    return bool(check.probabilities([(LASTING, text)])[0, SUPPORTED] >= least)


def asks_for_memory(check: StatementCheck, text: str) -> bool:
    """Whether an utterance can only be answered from what was told before."""
    least = ASKS_FOR if any(mark in text for mark in ASKS) else ASKS_UNMARKED
    return bool(check.probabilities([(ASKED, text)])[0, SUPPORTED] >= least)


def answering(asker: str, question: str, answer: str) -> str:
    """An answer as a claim."""
    return f"{asker} asks: {question} Answer: {answer}"


def deciding(check: StatementCheck, passages: Sequence[Lines], asker: str, question: str) -> list[int]:
    """The places of the passages that decide a question to be answered with yes or no."""
    pairs = [(telling(lines, asker), answering(asker, question, yes)) for lines in passages for yes in ("Yes.", "No.")]
    if not pairs:
        return []
    found = check.probabilities(pairs).reshape(len(passages), 2, -1)
    sure = ((found[:, :, SUPPORTED] + found[:, ::-1, ENDED]) / 2).max(axis=1)  # a yes is supported, and its no denied
    return np.flatnonzero(sure >= DECIDES).tolist()


def unquoted(lines: Lines) -> Lines:
    """Lines without what they quote, which is nobody's statement."""
    return [(speaker, QUOTED.sub("", without_passed_on(text))) for speaker, text in lines]


def without_passed_on(text: str) -> str:
    """A text without what was passed on in it."""
    return PASSED_ON.sub("", text)


def telling(lines: Lines, asker: str) -> Lines:
    """Lines without what they quote and without what the asker only asked."""
    said = (
        (who, [s for s in SENTENCE_END.split(text) if who != asker or not s.endswith(ASKS)])
        for who, text in unquoted(lines)
    )
    return [(who, " ".join(sentences)) for who, sentences in said if sentences]


def truth_of_answers(
    check: StatementCheck, answers: Sequence[tuple[Lines, str]], asker: str, question: str
) -> list[float]:
    """The probability that the passage beside each answer to a question supports it."""
    pairs = [(unquoted(lines), answering(asker, question, answer)) for lines, answer in answers]
    return [float(true) for true in check.probabilities(pairs)[:, SUPPORTED]]


def true_event(check: StatementCheck, lines: Lines, summary: str, agent: str, reading: Reading) -> Checked:
    """The sentences of a summary that the lines of its session support; if some are not, also what people said.

    Args:
        agent: its lines are quoted only if nobody else stated anything.
    """
    sentences = [sentence for sentence in SENTENCE_END.split(summary) if sentence.strip()]
    supported = supports(check, lines, sentences)
    kept = [sentence for sentence, true in zip(sentences, supported, strict=True) if true]
    if len(kept) == len(sentences) and kept:
        return Checked(summary)
    return Checked(" ".join([*kept, *own_words(check, lines, agent, reading)]), len(sentences) - len(kept))


def supports(check: StatementCheck, lines: Lines, statements: Sequence[str]) -> list[bool]:
    """Whether one of the lines, with those before it, supports or literally says each statement, which names its person."""
    words, said = [set(words_of(f"{who} {text[:LONGEST_READ]}")) for who, text in lines], {text for _, text in lines}
    pairs: list[tuple[int, Pair]] = []
    for place, statement in enumerate(statements):
        of_statement = set(words_of(statement))
        nearest = sorted(range(len(lines)), key=lambda n: -len(of_statement & words[n]))[:NEAREST]
        pairs += [(place, (lines[max(n - BEFORE, 0) : n + 1], statement)) for n in nearest]
    best = np.zeros(len(statements))
    np.maximum.at(best, [n for n, _ in pairs], check.probabilities([pair for _, pair in pairs])[:, SUPPORTED])
    return [statement in said or bool(true >= TRUE) for statement, true in zip(statements, best, strict=True)]


def own_words(check: StatementCheck, lines: Lines, agent: str, reading: Reading) -> list[str]:
    """The sentences that most likely still matter later, in order, each with its speaker: `OWN_WORDS` words, but one at least.
    "That's great, Mel!" matters to nobody and is none of them, however much room is left. Whoever only asked is quoted, too."""
    said = [(n, speaker, s) for n, (speaker, text) in enumerate(lines) for s in statements_in(text, reading, OWN_WORDS)]
    stated = [one for one in said if one[1] != agent]
    asked = [] if stated else _most_asked(lines, agent)
    said = stated or said
    if not said:
        return [f"{as_name(speaker)}: {text}" for speaker, text in asked or lines[:1]]
    worth = check.probabilities([(LASTING, sentence) for _, _, sentence in said])[:, SUPPORTED]
    chosen: list[int] = []
    room = OWN_WORDS
    for place in np.argsort(-worth, kind="stable").tolist():
        words = len(said[place][2].split())
        tells = worth[place] >= ENDS or speaks_of_self(said[place][2], reading)
        if not chosen or (tells and words <= room):
            chosen.append(place)
            room -= words
    told = [*asked, *(said[place][1:] for place in sorted(chosen))]
    return [f"{as_name(speaker)}: {text}" for speaker, text in told]


def _most_asked(lines: Lines, agent: str) -> Lines:
    """The longest line of those who stated nothing, if it has a few words."""
    asked = [(speaker, without_passed_on(text).strip()) for speaker, text in lines if speaker != agent]
    longest = max(asked, key=lambda one: len(one[1].split()), default=("", ""))
    return [longest] if ASKED_WORDS <= len(longest[1].split()) <= OWN_WORDS else []
