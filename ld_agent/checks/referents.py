"""Resolves whom a trait is about: "My sister is a nurse." gets the name from "My sister Kate is a nurse".

An extractor drops names, begins with a pronoun whose noun it left out, and attributes to the speaker what a relative of theirs
does. The utterance says who is meant. Pure functions over text, by the rules of each language; texts without rules are returned
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ld_agent.languages.reading import Reading
from ld_agent.languages.rules import Referents
from ld_agent.text import SENTENCE_END, stems_of


@dataclass(frozen=True, slots=True)
class _Someone:
    """A person related to the speaker: the relation, the name or "", and the subject with and without the name."""

    relation: str
    name: str
    subject: str


def referring(trait: str, utterance: str, reading: Reading) -> str | None:
    """Return a trait that says whom it is about; None: it attributes to the speaker what was said about someone else.

    Args:
        trait: as extracted, in the first person.
        utterance: what it was extracted from.
    """
    for rules in reading.referents:
        if someone := _someone(utterance, rules):
            return (
                None
                if _of_someone_else(trait, utterance, rules, reading)
                else _named(_spelt(trait, someone, rules), someone, rules)
            )
    return trait


def _someone(utterance: str, rules: Referents) -> list[_Someone]:
    """The people related to the speaker whom an utterance mentions, each once."""
    people: dict[str, _Someone] = {}
    for match in rules.pattern("someone").finditer(utterance):
        name = match["name"] or ""
        whose, relation = utterance[match.start() : match.start("relation")], match["relation"].casefold()
        subject = f"{whose[:1].upper()}{whose[1:]}{relation}"
        people[relation] = _Someone(relation, "" if name in rules.not_names else name, subject)
    return list(people.values())


def _spelt(trait: str, someone: list[_Someone], rules: Referents) -> str:
    """ "He teaches." becomes "My husband Tom teaches." if the utterance mentions nobody else."""
    match = rules.pattern("pronoun").match(trait)
    if match is None or len(someone) != 1:
        return trait
    [one] = someone
    link = rules.link[0][1] if rules.link else " "
    subject = f"{one.subject}{link}{one.name}" if one.name else one.subject
    return f"{subject}{rules.possessive if match['owner'] else ''}{trait[match.end() :]}"


def _named(trait: str, someone: list[_Someone], rules: Referents) -> str:
    """A trait with the names that the utterance gives."""
    for one in someone:
        if not one.name or one.name in trait:
            continue
        place = rules.pattern("place", one.relation.split()[-1]).search(trait)
        if place is not None:
            link = next((text for pattern, text in rules.link if re.match(pattern, place.group())), " ")
            trait = f"{trait[: place.end()]}{link}{one.name}{trait[place.end() :]}"
    return trait


def _of_someone_else(trait: str, utterance: str, rules: Referents, reading: Reading) -> bool:
    """Whether a trait says about "I" what the utterance says about "my wife"."""
    if not rules.pattern("does").match(trait) or rules.pattern("relation").search(trait):
        return False
    words = stems_of(trait, reading)
    source = max(SENTENCE_END.split(utterance), key=lambda sentence: len(words & stems_of(sentence, reading)))
    clauses = re.split(rules.clause_end, source) if rules.clause_end else [source]
    shared = [len(words & stems_of(clause, reading)) for clause in clauses]
    if not any(shared):
        return False
    best = [number for number, share in enumerate(shared) if share == max(shared)]
    return all(_subject_is_someone(clauses[: number + 1], rules) for number in best)


def _subject_is_someone(clauses: Sequence[str], rules: Referents) -> bool:
    """Whether the last clause with a subject is about a person related to the speaker."""
    for clause in reversed(clauses):
        if rules.pattern("speaker").search(clause):
            return False
        if rules.pattern("they_do").match(clause):
            return True
    return False
