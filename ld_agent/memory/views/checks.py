"""What a model wrote into a memory, checked against what was said: a statement that the dialogue does not support is dropped.

The learned check judges each sentence; where there is none, most of its words must be in neighbouring lines, and all of its
numbers in the dialogue. Pure; knows no prompt and no store.
"""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.checks.kept import Checked, supports
from ld_agent.checks.learned import Lines, StatementCheck
from ld_agent.checks.statements import occurs
from ld_agent.languages.reading import Reading
from ld_agent.memory.views.memory_text import Facts, meaning, supported
from ld_agent.text import REPORTING, SENTENCE_END, words_of

NOTED = 2 / 3
"""Share of a statement's words that must have been said, where no check judges it."""
IDLE = "owns his her hers him himself herself themselves"
"""Further words without content; "owns" says no more than "has"."""
CLOSE = 4
"""Number of neighbouring lines that may support a statement together."""


def checked(
    text: str,
    lines: Lines,
    reading: Reading,
    check: StatementCheck | None = None,
    about: str = "",
    *,
    alone: bool = False,
    when: str = "",
) -> Checked:
    """Drop the sentences of a text that a dialogue does not support.

    Args:
        lines: (speaker, text) of the dialogue.
        check: judges the sentences; None: those stay whose words were said.
        about: the person whom sentences without a name are about; "": whoever the sentence before is about.
        alone: drop sentences that name only others.
        when: years and months of the dialogue, which may be named.
    """
    names = list(dict.fromkeys(speaker for speaker, _ in lines if speaker))
    stated = _statements(text, names, about, alone=alone)
    true = _supported([statement for _, statement in stated], lines, names, reading, check, when)
    kept = [sentence for (sentence, _), good in zip(stated, true, strict=True) if good]
    return Checked(" ".join(kept), len(stated) - len(kept))


def _statements(text: str, names: Sequence[str], about: str, *, alone: bool = False) -> list[tuple[str, str]]:
    """The sentences of a text, each with the statement in it, which names its person; "": it is not wanted."""
    stated, last = list[tuple[str, str]](), about
    for sentence in filter(str.strip, SENTENCE_END.split(text)):
        named = [name for name in names if occurs(name, sentence)]
        last = about or last if not named else named[0] if len(named) == 1 else ""
        of_others = alone and named and about not in named
        stated.append((sentence, "" if of_others else sentence if named or not last else f"{last}: {sentence}"))
    return stated


def checked_facts(
    facts: Facts, lines: Lines, reading: Reading, check: StatementCheck | None = None
) -> tuple[Facts, int]:
    """Drop the facts that a dialogue does not support.

    Returns:
        the facts that are left, by speaker, and how many were dropped.
    """
    names = list(dict.fromkeys(speaker for speaker, _ in lines if speaker))
    stated = [(who, *one) for who, of_one in facts.items() for fact in of_one for one in _statements(fact, names, who)]
    true = _supported([statement for _, _, statement in stated], lines, names, reading, check)
    left: Facts = {}
    for (speaker, sentence, _), good in zip(stated, true, strict=True):
        if good:
            left.setdefault(speaker, []).append(sentence)
    return left, true.count(False)


def dropped_in(count: int) -> dict[str, int]:
    """The number of dropped statements as a detail of a record."""
    return {"dropped": count} if count else {}


def _supported(
    statements: Sequence[str],
    lines: Lines,
    names: Sequence[str],
    reading: Reading,
    check: StatementCheck | None,
    when: str = "",
) -> list[bool]:
    """Whether a dialogue supports each statement; "": no."""
    if check is not None:
        judged = iter(supports(check, lines, [statement for statement in statements if statement]))
        return [bool(statement) and next(judged) for statement in statements]
    people = " ".join([*names, IDLE, when])
    numbers = _numbers(" ".join([people, *(text for _, text in lines)]))
    windows = [" ".join(text for _, text in lines[n : n + CLOSE]) for n in range(max(1, len(lines) - CLOSE + 1))]
    return [
        bool(meaning(statement, reading) - meaning(people, reading) - REPORTING)
        and _numbers(statement) <= numbers
        and any(supported(statement, f"{people} {said}", reading, people, NOTED) for said in windows)
        for statement in statements
    ]


def _numbers(text: str) -> set[str]:
    return {word for word in words_of(text) if word.isdecimal()}


def supported_situation(situation: str, lines: Lines, reading: Reading) -> bool:
    """Whether the last lines of a dialogue contain most of the words of a situation."""
    people = " ".join([*dict.fromkeys(speaker for speaker, _ in lines), IDLE])
    latest = " ".join(text for _, text in lines[-CLOSE:])
    return supported(situation, f"{people} {latest}", reading, people, NOTED)


def supported_note(
    note: str, lines: Lines, names: Sequence[str], reading: Reading, check: StatementCheck | None = None
) -> str:
    """The sentences of a note that rest on what its author said, each once.

    A sentence that names only somebody else is taken to be about the author, who said it.

    Args:
        lines: what the author stated, after the question that it may answer.
        names: of who speaks, the author first.
    """
    sentences = list(dict.fromkeys(_of_author(sentence, names) for sentence in SENTENCE_END.split(note) if sentence))
    if check is None:  # what only the question says is not the author's
        own = meaning(" ".join(text for who, text in lines if who == names[0]), reading)
        own -= meaning(" ".join(names), reading)
        sentences = [sentence for sentence in sentences if meaning(sentence, reading) & own]
    true = _supported(sentences, lines, names, reading, check)
    return " ".join(sentence for sentence, kept in zip(sentences, true, strict=True) if kept)


def _of_author(sentence: str, names: Sequence[str]) -> str:
    named = [name for name in names if occurs(name, sentence)]
    return sentence.replace(named[0], names[0]) if len(named) == 1 else sentence
