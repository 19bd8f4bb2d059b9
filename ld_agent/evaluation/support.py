"""Whether a dialogue supports a memory of it: its words were said close together, or those of each thing that it lists, its names
and numbers were said at all, and by the person it names.

A clause belongs to the person who alone used its words about themselves, in the conversation or its annotations; clauses
without such words are not judged. Stricter than the check that mechanisms apply to their own answers, which requires half of
the words anywhere in the dialogue. Pure; knows no model and no store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ld_agent.checks.enumerations import unfolded
from ld_agent.checks.subjects import clauses
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.memory_text import meaning, supported
from ld_agent.text import REPORTING, SENTENCE_END, stems_of, words_of
from ld_agent.types import Record

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
    """Judge the clauses of a summary whose owner is known from what speakers said, or from their annotated traits; items of a
    list are separate clauses."""
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


CLOSE = 4
"""Number of neighbouring lines that may support a statement."""
SAID = 2 / 3
"""Share of a statement's words that those lines must contain."""
PARTS = ("situation", "note", "summary")
"""The model-written parts of a record's details; the rest of its text was said."""

Lines = Sequence[tuple[str, str]]


def statements(record: Record, names: Sequence[str]) -> list[str]:
    """Return the statements that a model wrote into a record, without fallbacks; each item of a list separately."""
    if record.fallback:
        return []
    facts = record.details.get("facts")
    if isinstance(facts, dict):
        texts = [_about(str(person), str(fact)) for person, known in facts.items() for fact in known]
    else:
        texts = [str(record.details[part]) for part in PARTS if record.details.get(part)] or [record.text]
    rules = ENGLISH.rules.clauses
    sentences = [item for text in texts for items in unfolded(" ".join(text.split()), names, rules) for item in items]
    return list(dict.fromkeys(sentence for sentence in sentences if len(words_of(sentence)) > 1))


def rests_on(statement: str, lines: Lines, when: str = "") -> bool:
    """Whether a dialogue supports a statement.

    Args:
        lines: (speaker, text) of the dialogue up to the record.
        when: years and months of these lines, which may be named.
    """
    people = " ".join([*dict.fromkeys(speaker for speaker, _ in lines), when])
    whole = " ".join(text for _, text in lines)
    if set(re.findall(r"\d+", statement)) - set(re.findall(r"\d+", f"{people} {whole}")):
        return False
    if any(clause.wrong for clause in judged(statement, lines)):
        return False
    starts = range(max(1, len(lines) - CLOSE + 1))
    windows = [" ".join(text for _, text in lines[start : start + CLOSE]) for start in starts]

    def close(text: str) -> bool:
        return any(supported(text, f"{people} {window}", ENGLISH.reading, people, SAID) for window in windows)

    return close(statement) or all(map(close, _things(statement, people)))


def _things(statement: str, people: str) -> list[str]:
    """The things that a statement lists, "their car", "their hobbies", which may come from different parts of a dialogue; if
    it lists none, the statement."""
    reading, listed = ENGLISH.reading, ENGLISH.rules.clauses.pattern("lists")
    names = meaning(people, reading) | REPORTING
    things = [thing for thing in listed.split(statement) if meaning(thing, reading) - names]
    return things if len(things) > 1 else [statement]


def _about(person: str, fact: str) -> str:
    return fact if not person or person in SENTENCE_END.split(fact)[0] else f"{person}: {fact}"
