"""Check to whom a summary attributes its clauses: "Sam studies the sea" names the wrong person if Mira said so.

A clause belongs to the person who alone used its words about themselves, in the conversation or its annotations.
Clauses without such words are not judged. Pure; knows no model and no corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ld_agent.checks.enumerations import unfolded
from ld_agent.checks.subjects import clauses
from ld_agent.languages import ENGLISH
from ld_agent.text import REPORTING, SENTENCE_END, stems_of

FEWEST = 1
"""How many more words of a clause than anyone else's a speaker must have used for it to be theirs."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A clause whose owner is known.

    Attributes:
        subject: the person named by the summary.
        owner: the person who said it about themselves.
    """

    clause: str
    subject: str
    owner: str

    @property
    def wrong(self) -> bool:
        return self.subject != self.owner


def judged(summary: str, lines: Sequence[tuple[str, str]]) -> list[Judged]:
    """Judge the clauses of a summary whose owner is known; items of a list are separate clauses.

    Args:
        lines: (speaker, text) of the conversation, or (speaker, trait) as annotated.
    """
    words = own_words(lines)
    misplaced = []
    sentences = " ".join(item for items in unfolded(summary, list(words), ENGLISH.rules.clauses) for item in items)
    for clause in clauses(sentences, list(words), ENGLISH.rules.clauses):
        owner = owner_of(clause.text, words)
        if owner is not None:
            misplaced.append(Judged(clause.text, clause.subject, owner))
    return misplaced


def own_words(lines: Sequence[tuple[str, str]]) -> dict[str, set[str]]:
    """For each speaker, the stems that only they used; statements and questions about "you" are ignored."""
    used: dict[str, set[str]] = {speaker: set() for speaker, _ in lines}
    anyone: set[str] = set()
    you, me = ENGLISH.reading.pattern("second_person"), ENGLISH.reading.pattern("first_person")
    for speaker, text in lines:
        for sentence in SENTENCE_END.split(text):
            of_other = you.search(sentence) and not me.search(sentence)
            (anyone if of_other else used[speaker]).update(stems_of(sentence, ENGLISH.reading))
    names = stems_of(" ".join(used), ENGLISH.reading)
    return {
        speaker: stems - names - anyone - set().union(*(others for who, others in used.items() if who != speaker))
        for speaker, stems in used.items()
    }


def owner_of(clause: str, words: Mapping[str, set[str]]) -> str | None:
    """The speaker whose words a clause contains; None: it contains too few of anyone's."""
    stems = stems_of(clause, ENGLISH.reading) - REPORTING
    counts = sorted(((len(stems & spoken), speaker) for speaker, spoken in words.items()), reverse=True)
    if not counts:
        return None
    (most, owner), second = counts[0], counts[1][0] if len(counts) > 1 else 0
    return owner if most - second >= FEWEST else None
