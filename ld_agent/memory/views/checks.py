"""What a model wrote into a memory, checked against what was said: a statement that the dialogue does not support is dropped.

A statement about one person stays if that person said most of its words about themselves, within two utterances and the
questions that these answer, and did not say the opposite; a statement about several people stays if neighbouring lines
contain most of its words. Clauses that name the wrong person are corrected first. Pure; knows no model, no prompt and no store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.enumerations import folded, unfolded, with_subject
from ld_agent.checks.kept import supports
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.named import occurs
from ld_agent.checks.referents import referring
from ld_agent.checks.subjects import Encode, corrected, statements
from ld_agent.languages import Language
from ld_agent.memory.views.memory_text import FEWEST_WORDS, Facts, meaning, supported
from ld_agent.text import HANGUL, REPORTING, SENTENCE_END, questions, words_of

NOTED, NOTED_IN_HANGUL = 2 / 3, 0.5
"""Share of a statement's words that must have been said; in Korean, of its syllables, whose endings depend on the style."""
OWN, CLOSE = 2, 4
"""Number of one person's utterances, or of neighbouring lines, that may support a statement together."""
IDLE = "owns his her hers him himself herself themselves"
"""Further words without content; "owns" says no more than "has"."""
Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Checked:
    """What is left of a text, and how many of its statements were dropped."""

    text: str
    dropped: int = 0


def checked(
    text: str,
    lines: Lines,
    language: Language,
    encode: Encode | None = None,
    about: str = "",
    check: StatementCheck | None = None,
    *,
    alone: bool = False,
    when: str = "",
) -> Checked:
    """Drop the statements of a text that a dialogue does not support; items of a list are separate statements.

    Args:
        lines: (speaker, text) of the dialogue.
        language: the text's.
        encode: corrects clauses that name the wrong person, see `corrected`; None: they stay as they are.
        about: the person whom sentences without a name are about; "": whoever the sentence before is about.
        check: judges the statements; None: those stay whose words were said.
        alone: drop statements that name only others.
        when: years and months of the dialogue, which may be named.
    """
    names, rules = list(dict.fromkeys(speaker for speaker, _ in lines if speaker)), language.rules.clauses
    said = corrected(text, lines, encode, language) if encode is not None and text.strip() else text
    kept, dropped, last = list[str](), 0, about
    for sentence, items in zip(SENTENCE_END.split(said), unfolded(said, names, rules), strict=True):
        good = []
        for item in filter(str.strip, items):
            named = _named(item, names)
            last = about or last if not named else named[0] if len(named) == 1 else ""
            of_others = alone and named and about not in named
            if check is None:
                true = _is_supported(item, last, lines, names, language, when)
            else:
                [true] = supports(check, lines, [item if named else with_subject(item, last, names, rules)])
            if true and not of_others:
                good.append(item)
        dropped += len([item for item in items if item.strip()]) - len(good)
        if good:
            kept.append(sentence if len(good) == len(items) else folded(good, names, rules))
    return Checked(" ".join(kept), dropped)


def checked_facts(
    facts: Facts, lines: Lines, language: Language, encode: Encode, check: StatementCheck | None = None
) -> tuple[Facts, int]:
    """Drop the facts that a dialogue does not support, and move those about somebody else to whoever said them.

    Of a sentence about one person that is not supported as a whole, the items that are supported stay.

    Returns:
        the facts that are left, and how many statements were dropped.
    """
    names = list(dict.fromkeys([*(speaker for speaker, _ in lines if speaker), *filter(None, facts)]))
    once, kept, dropped, rules = _remembering(encode), Facts(), 0, language.rules.clauses
    comma = re.compile(rf"[,;]\s+(?:{re.escape(rules.listed[-1].strip())} )?|[，；]")

    def left(sentence: str, speaker: str) -> list[Checked]:
        whole = checked(with_subject(sentence, speaker, names, rules), lines, language, once, speaker, check)
        if whole.text or not speaker:
            return [whole]
        items = [item for item in comma.split(sentence) if len(words_of(item)) >= FEWEST_WORDS and item != sentence]
        parts = [part for item in items for part in left(item, speaker)]
        return parts if any(part.text for part in parts) else [whole]

    for speaker, sentences in facts.items():
        for fact in (fact for sentence in sentences for fact in left(sentence, speaker)):
            dropped += fact.dropped
            if fact.text:
                owner = next((name for name in names if fact.text.startswith(f"{name} ")), speaker)
                of_owner = kept.setdefault(owner, [])
                of_owner += [fact.text] if fact.text not in of_owner else []
    return kept, dropped


def dropped_in(count: int) -> dict[str, int]:
    """The number of dropped statements as a detail of a record."""
    return {"dropped": count} if count else {}


def _remembering(encode: Encode) -> Encode:
    """An encoder that encodes each text once."""
    known: dict[str, NDArray[np.float32]] = {}

    def encoded(texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, encode(new) if new else (), strict=True))
        return np.stack([known[text] for text in texts])

    return encoded


def _is_supported(
    statement: str, person: str, lines: Lines, names: Sequence[str], language: Language, when: str
) -> bool:
    """Whether a dialogue supports one statement about a person; "": about several or none."""
    people, reading = " ".join([*names, IDLE, when]), language.reading
    if not meaning(statement, reading) - meaning(people, reading) - REPORTING:
        return False
    if set(re.findall(r"\d+", statement)) - set(re.findall(r"\d+", " ".join([people, *(text for _, text in lines)]))):
        return False
    if person and _denied(statement, person, lines, language):
        return False
    sources = _told(lines, person, language) if person else _windows(lines)
    share = _share(statement)
    return any(supported(statement, f"{people} {source}", reading, people, share) for source in sources)


def _share(statement: str) -> float:
    return NOTED_IN_HANGUL if HANGUL.search(statement) else NOTED


def _of_author(sentence: str, names: Sequence[str]) -> str:
    named = _named(sentence, names)
    return sentence.replace(named[0], names[0]) if len(named) == 1 else sentence


def _named(text: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if occurs(name, text)]


def _denied(statement: str, person: str, lines: Lines, language: Language) -> bool:
    """Whether a person said the opposite: the clauses that share most words with a statement deny it, or it denies them."""
    reading, part_end = language.reading, language.rules.clauses.pattern("part")
    words, denial = meaning(statement, reading) - REPORTING, reading.pattern("negated")
    said = statements([line for line in lines if line[0] == person], language)
    clauses = [clause for _, sentence in said for clause in part_end.split(sentence)]
    shared = [len(words & meaning(clause, reading)) for clause in clauses]
    most = max(shared, default=0)
    nearest = [clause for clause, count in zip(clauses, shared, strict=True) if count == most > 0]
    negated = denial.search(statement) is not None
    return bool(nearest) and all((denial.search(clause) is not None) != negated for clause in nearest)


def _told(lines: Lines, person: str, language: Language) -> Iterator[str]:
    """What a person states in utterances that follow each other, with the questions that these answer."""
    told = [
        " ".join([questions(lines[n - 1][1]) if n else "", *(text for _, text in statements([line], language))])
        for n, line in enumerate(lines)
        if line[0] == person
    ]
    for start in range(max(1, len(told) - OWN + 1)):
        yield " ".join(told[start : start + OWN])


def _windows(lines: Lines) -> Iterator[str]:
    for start in range(max(1, len(lines) - CLOSE + 1)):
        yield " ".join(text for _, text in lines[start : start + CLOSE])


def supported_situation(situation: str, lines: Lines, language: Language) -> bool:
    """Whether the last lines of a dialogue contain most of the words of a situation."""
    people = " ".join([*dict.fromkeys(speaker for speaker, _ in lines), IDLE])
    latest = " ".join(text for _, text in lines[-CLOSE:])
    return supported(situation, f"{people} {latest}", language.reading, people, _share(situation))


def supported_note(
    note: str,
    stated: Sequence[str],
    asked: str,
    names: Sequence[str],
    language: Language,
    check: StatementCheck | None = None,
) -> str:
    """The sentences of a note that rest on what its speaker stated, each once: an utterance tells no more than it says. One
    that names only somebody else is taken to be about the author, who said it.

    Args:
        asked: the questions that the utterance may answer; a sentence rests on them only together with it.
        names: of who speaks, the author of the utterance first.
    """
    said, people, reading = " ".join(stated), " ".join([*names, IDLE]), language.reading
    sentences = dict.fromkeys(_of_author(sentence, names) for sentence in SENTENCE_END.split(note) if sentence)
    if check is not None:
        lines = [(names[1], asked), (names[0], said)] if asked else [(names[0], said)]
        true = supports(check, lines, list(sentences)) if sentences else ()
        return " ".join(sentence for sentence, kept in zip(sentences, true, strict=True) if kept)
    return " ".join(
        sentence
        for sentence in sentences
        if (meaning(sentence, reading) - meaning(people, reading)) & meaning(said, reading)
        and supported(sentence, f"{people} {said} {asked}", reading, people, _share(sentence))
        and referring(sentence.replace(names[0], "I", 1), said, reading) is not None
        and not _denied(sentence, names[0], [(names[0], said)], language)
    )
