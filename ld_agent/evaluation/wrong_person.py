"""Find the clauses of a summary that stand with the wrong person: "Sam studies the sea" where it was Mira who said so.

A clause is what follows a speaker's name that is its subject. Whose it is shows in the words that only one speaker used of
themselves. Clauses that share too few such words are not judged. Pure; knows no model and no corpus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ld_agent.modules.attribution import FIRST_PERSON, SECOND_PERSON
from ld_agent.modules.summarizer import SENTENCE_END
from ld_agent.modules.wording import stems_of

FEWEST = 1
"""Words that one speaker must have more of than any other in a clause, where it is to be called theirs."""
BEFORE_SUBJECT = r"(?:^|[,;:]\s+|\b(?:and|but|while|whereas|because|although|then|so|that|as)\s+)"
PRONOUN = re.compile(r"^\W*(?:he|she|his|her)\b", re.IGNORECASE)
ANOTHER = re.compile(r"\b(?:him|them|they|their|each other|both)\b", re.IGNORECASE)
"""Words for people besides the subject; a clause with one is not its subject's alone."""
OF_ANOTHER = re.compile(
    r"^\S+ (?:\d+ )?(?:prais|admir|commend|appreciat|encourag|thank|congratulat|suggest|recommend|advis|ask|offer|highlight)",
    re.IGNORECASE,
)
"""What somebody does with what another person said."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A clause whose owner shows.

    Attributes:
        subject: whom the summary names.
        owner: who said it of themselves.
    """

    clause: str
    subject: str
    owner: str

    @property
    def wrong(self) -> bool:
        return self.subject != self.owner


def judged(summary: str, lines: Sequence[tuple[str, str]]) -> list[Judged]:
    """Judge the clauses of a summary whose owner shows.

    Args:
        lines: (speaker, text) of the conversation.
    """
    words = own_words(lines)
    found = []
    for subject, clause in clauses(summary, list(words)):
        owner = owner_of(clause, words)
        if owner is not None:
            found.append(Judged(clause, subject, owner))
    return found


def clauses(summary: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Split a summary into (subject, clause), leaving out what has two subjects or none, or speaks of others too."""
    name = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    start = re.compile(rf"{BEFORE_SUBJECT}(?P<name>{name})(?P<rest>['’]s)?\b(?!\s+and\s+(?:{name})\b)")
    joint = re.compile(rf"(?:{name})(?:['’]s)?\s*(?:,|and|&|or)\s+(?:{name})\b")
    found: list[tuple[str, str]] = []
    last = ""
    for sentence in SENTENCE_END.split(summary.strip()):
        if joint.search(sentence):
            last = ""
            continue
        marks = list(start.finditer(sentence))
        if not marks:
            if last and PRONOUN.match(sentence) and not re.search(name, sentence):
                found.append((last, sentence))
            else:
                last = ""
            continue
        ends = [mark.start("name") for mark in marks[1:]] + [len(sentence)]
        for mark, end in zip(marks, ends, strict=True):
            clause = sentence[mark.start("name") : end].strip(" ,;")
            if set(re.findall(name, clause)) == {mark["name"]}:
                found.append((mark["name"], clause))
        last = marks[0]["name"] if len(set(re.findall(name, sentence))) == 1 else ""
    return [
        (subject, clause) for subject, clause in found if not ANOTHER.search(clause) and not OF_ANOTHER.match(clause)
    ]


def own_words(lines: Sequence[tuple[str, str]]) -> dict[str, set[str]]:
    """By speaker, the stems that only they used; what somebody says or asks of "you" is nobody's alone."""
    used: dict[str, set[str]] = {speaker: set() for speaker, _ in lines}
    anyone: set[str] = set()
    for speaker, text in lines:
        for sentence in SENTENCE_END.split(text):
            of_other = SECOND_PERSON.search(sentence) and not FIRST_PERSON.search(sentence)
            (anyone if of_other else used[speaker]).update(stems_of(sentence))
    names = stems_of(" ".join(used))
    return {
        speaker: stems - names - anyone - set().union(*(others for who, others in used.items() if who != speaker))
        for speaker, stems in used.items()
    }


def owner_of(clause: str, words: Mapping[str, set[str]]) -> str | None:
    """The speaker whose words a clause has; None: it has too few of anyone's."""
    stems = stems_of(clause)
    counts = sorted(((len(stems & own), speaker) for speaker, own in words.items()), reverse=True)
    if not counts:
        return None
    (most, owner), second = counts[0], counts[1][0] if len(counts) > 1 else 0
    return owner if most - second >= FEWEST else None
