"""Whether the dialogue supports a memory: its words were said close together, or those of each thing that it lists, its
names and numbers were said at all, and by the person it names.

Stricter than the check that mechanisms apply to their own answers, which requires half of the words anywhere in the
dialogue. Pure; knows no model and no store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.checks.enumerations import unfolded
from ld_agent.evaluation.tasks.wrong_person import judged
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.memory_text import meaning, supported
from ld_agent.text import REPORTING, SENTENCE_END, words_of
from ld_agent.types import Record

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
    windows = [_joined(lines[start : start + CLOSE]) for start in range(max(1, len(lines) - CLOSE + 1))]

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


def _joined(lines: Lines) -> str:
    return " ".join(text for _, text in lines)


def _about(person: str, fact: str) -> str:
    return fact if not person or person in SENTENCE_END.split(fact)[0] else f"{person}: {fact}"
