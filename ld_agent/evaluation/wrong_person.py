"""Judge whose the clauses of a summary are: "Sam studies the sea" stands with the wrong person where it was Mira who said so.

Whose a clause is shows in the words that only one person used of themselves, in what was said or in what was annotated.
Clauses that share no such word are not judged. Pure; knows no model and no corpus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ld_agent.modules.attribution import FIRST_PERSON, SECOND_PERSON
from ld_agent.modules.enumerations import unfolded
from ld_agent.modules.subjects import clauses
from ld_agent.modules.wording import REPORTING, SENTENCE_END, stems_of

FEWEST = 1
"""Words that one speaker must have more of than any other in a clause, where it is to be called theirs."""


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
    """Judge the clauses of a summary whose owner shows, of a sentence that lists things each by itself.

    Args:
        lines: (speaker, text) of the conversation, or (speaker, trait) as annotated.
    """
    words = own_words(lines)
    misplaced = []
    sentences = " ".join(item for items in unfolded(summary, list(words)) for item in items)
    for clause in clauses(sentences, list(words)):
        owner = owner_of(clause.text, words)
        if owner is not None:
            misplaced.append(Judged(clause.text, clause.subject, owner))
    return misplaced


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
    stems = stems_of(clause) - REPORTING
    counts = sorted(((len(stems & spoken), speaker) for speaker, spoken in words.items()), reverse=True)
    if not counts:
        return None
    (most, owner), second = counts[0], counts[1][0] if len(counts) > 1 else 0
    return owner if most - second >= FEWEST else None
