"""Whose the clauses of a summary are: "Sam studies the sea" is given to Mira where it was she who said so of herself.

A clause is what follows a speaker's name that is its subject. It is given to the person whose statements come nearest to it,
by meaning and by words, where they are clearly nearer than those of the person named. Pure; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.modules.attribution import SECOND_PERSON, speaks_of_self
from ld_agent.modules.wording import SENTENCE_END, stems_of

WORDS, MARGIN = 0.5, 0.03
"""nearness = cos + WORDS · (share of the clause's stems said); how much nearer another person must be than the one named."""
MOST_STATEMENTS = 600
BEFORE_SUBJECT = r"(?:^|[,;:]\s+|\b(?:and|but|while|whereas|because|although|then|so|that|as)\s+)"
PRONOUN = re.compile(r"^\W*(?P<pronoun>he|she|his|her)\b", re.IGNORECASE)
ANOTHER = re.compile(r"\b(?:him|them|they|their|each other|both)\b", re.IGNORECASE)
"""Words for people besides the subject; a clause with one is not its subject's alone."""
OF_ANOTHER = re.compile(
    r"^\S+ (?:\d+ )?(?:prais|admir|commend|appreciat|encourag|thank|congratulat|suggest|recommend|advis|ask|offer|highlight)",
    re.IGNORECASE,
)
"""What somebody does with what another person said."""
_PART = re.compile(r"[,;:]\s+|\s+(?:and|but|so|or)\s+")
Encode = Callable[[Sequence[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause with one person as its subject.

    Attributes:
        start, end: where in the summary its subject stands, a name or a pronoun.
        named: the subject is a name.
        possessive: it is "his" or "her", or a name with "'s".
    """

    subject: str
    text: str
    start: int
    end: int
    named: bool = True
    possessive: bool = False


def corrected(summary: str, lines: Sequence[tuple[str, str]], encode: Encode) -> str:
    """A summary whose clauses stand with whoever said them of themselves, as far as that shows.

    Args:
        lines: (speaker, text) of the conversation.
        encode: texts → (n, dimension) unit vectors.
    """
    told = statements(lines)
    found = clauses(summary, list(dict.fromkeys(speaker for speaker, _ in lines)))
    if not found or len({speaker for speaker, _ in told}) < 2:
        return summary
    told = list(_likeliest(told, found))
    near = _nearness(found, told, encode)
    for clause, nearness in reversed(list(zip(found, near, strict=True))):
        by_person: dict[str, float] = {}
        for (speaker, _), value in zip(told, nearness.tolist(), strict=True):
            by_person[speaker] = max(by_person.get(speaker, -1.0), value)
        owner = max(by_person, key=by_person.__getitem__)
        if by_person[owner] - by_person.get(clause.subject, -1.0) > MARGIN:
            name = f"{owner}'s" if clause.possessive and not clause.named else owner
            summary = f"{summary[: clause.start]}{name}{summary[clause.end :]}"
    return summary


def statements(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(speaker, sentence) of what people state, without what they ask and what they say of "you" alone.

    Of a question, the clauses count in which its speaker speaks of themselves: "I'm new to this, could you help?".
    """
    sentences = [(speaker, sentence) for speaker, text in lines for sentence in SENTENCE_END.split(text)]
    told: list[tuple[str, str]] = []
    for speaker, sentence in sentences:
        if sentence.rstrip().endswith("?"):
            parts = [part for part in _PART.split(sentence) if speaks_of_self(part) and not SECOND_PERSON.search(part)]
            told += [(speaker, part) for part in parts]
        elif speaks_of_self(sentence) or not SECOND_PERSON.search(sentence):
            told.append((speaker, sentence))
    return told


def _likeliest(told: Sequence[tuple[str, str]], found: Sequence[Clause]) -> Sequence[tuple[str, str]]:
    """The `MOST_STATEMENTS` that share most words with a clause, in order: a day of talk is too much to encode."""
    if len(told) <= MOST_STATEMENTS:
        return told
    words = [stems_of(clause.text) for clause in found]
    shared = [max(len(own & stems_of(sentence)) for own in words) for _, sentence in told]
    return [told[n] for n in sorted(sorted(range(len(told)), key=lambda n: -shared[n])[:MOST_STATEMENTS])]


def _nearness(found: Sequence[Clause], told: Sequence[tuple[str, str]], encode: Encode) -> NDArray[np.float64]:
    """(clauses, statements) how near each statement comes to each clause, which is read as if its subject said it."""
    names = stems_of(" ".join(clause.subject for clause in found))
    vectors = encode([*(_first_person(clause) for clause in found), *(sentence for _, sentence in told)])
    cosines = vectors[: len(found)] @ vectors[len(found) :].T
    said = [stems_of(sentence) for _, sentence in told]
    words = [stems_of(clause.text) - names for clause in found]
    shares = np.array([[len(own & stems) / max(len(own), 1) for stems in said] for own in words])
    nearness: NDArray[np.float64] = cosines + WORDS * shares
    return nearness


def _first_person(clause: Clause) -> str:
    subject = clause.subject if clause.named else r"\w+"
    return re.sub(rf"^\W*(?:{subject})(?:['’]s)?", "My" if clause.possessive else "I", clause.text)


def clauses(summary: str, names: Sequence[str]) -> list[Clause]:
    """Split a summary into clauses, leaving out what has two subjects or none, or speaks of others too."""
    name = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    start = re.compile(rf"{BEFORE_SUBJECT}(?P<name>{name})(?P<rest>['’]s)?\b(?!\s+and\s+(?:{name})\b)")
    joint = re.compile(rf"(?:{name})(?:['’]s)?\s*(?:,|and|&|or)\s+(?:{name})\b")
    found: list[Clause] = []
    last = ""
    for offset, sentence in _sentences(summary):
        if joint.search(sentence):
            last = ""
            continue
        marks = list(start.finditer(sentence))
        if not marks:
            pronoun = PRONOUN.match(sentence)
            if last and pronoun and not re.search(name, sentence):
                place = (offset + pronoun.start("pronoun"), offset + pronoun.end())
                owned = pronoun["pronoun"].casefold() in ("his", "her")
                found.append(Clause(last, sentence, *place, named=False, possessive=owned))
            else:
                last = ""
            continue
        ends = [mark.start("name") for mark in marks[1:]] + [len(sentence)]
        for mark, end in zip(marks, ends, strict=True):
            clause = sentence[mark.start("name") : end].strip(" ,;")
            if set(re.findall(name, clause)) == {mark["name"]}:
                place = (offset + mark.start("name"), offset + mark.end("name"))
                found.append(Clause(mark["name"], clause, *place, possessive=mark["rest"] is not None))
        last = marks[0]["name"] if len(set(re.findall(name, sentence))) == 1 else ""
    return [clause for clause in found if not ANOTHER.search(clause.text) and not OF_ANOTHER.match(clause.text)]


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in SENTENCE_END.finditer(text):
        yield start, text[start : end.start()]
        start = end.end()
    yield start, text[start:]
