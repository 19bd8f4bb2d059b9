"""Whom a trait is about: "My sister is a nurse." keeps the name that "My sister Kate is a nurse" gave her.

An extractor loses names, begins with a pronoun whose noun stayed behind, and takes for its speaker's what somebody of theirs
does. The utterance says what is meant. Pure functions over English text; others come out as they are.
"""

from __future__ import annotations

import re

from ld_agent.modules.wording import SENTENCE_END, stems_of

PEOPLE = (
    "husband wife spouse partner fiance fiancee fiancé fiancée boyfriend girlfriend son daughter stepson stepdaughter baby kid "
    "child toddler twin brother sister sibling mum mom mother mama dad father papa stepmother stepfather grandma grandmother "
    "granny nan grandpa grandfather granddad grandson granddaughter aunt uncle cousin nephew niece friend mate buddy neighbour "
    "neighbor boss manager colleague coworker teacher coach roommate flatmate landlord landlady doctor dentist therapist ex "
    "dog puppy cat kitten horse pony rabbit bunny parrot hamster"
).split()
_RELATION = rf"(?:\w+ )?(?:{'|'.join(PEOPLE)}|\w+-in-law)"
_TITLE = r"(?:Mr|Mrs|Ms|Dr|Prof)\.? "
_NAME = rf"(?:{_TITLE})?[A-Z][a-z]+(?:-[A-Z][a-z]+)?"
_SOMEONE = re.compile(
    rf"\b[Mm]y (?P<relation>{_RELATION})\b(?:(?:,? |['’]s name is | is (?:called|named) )(?P<name>{_NAME})\b)?"
)
_PRONOUN = re.compile(r"^(?P<pronoun>He|She|They|His|Her|Their)\b(?P<is>['’]s)?")
_SPEAKER = re.compile(r"\b(?:i|i['’]\w+|we|we['’]\w+|me|us|our|ours|mine)\b", re.IGNORECASE)
_DOES = re.compile(r"^I (?!have|own|got|had)\w")
_NO_NAMES = frozenset("I I'm The A An And But Yes No God English French Spanish German Italian Christmas".split())


def referring(trait: str, utterance: str) -> str | None:
    """A trait that says whom it is about; None: what it states of its speaker was said of someone else.

    Args:
        trait: as extracted, in the first person.
        utterance: what it was extracted from.
    """
    someone = {match["relation"].casefold(): match["name"] or "" for match in _SOMEONE.finditer(utterance)}
    someone = {relation: name if name not in _NO_NAMES else "" for relation, name in someone.items()}
    if not someone:
        return trait
    if _of_someone_else(trait, utterance):
        return None
    return _named(_unpronounced(trait, someone), someone)


def _unpronounced(trait: str, someone: dict[str, str]) -> str:
    """ "He teaches." becomes "My husband Tom teaches." where the utterance spoke of nobody else."""
    found = _PRONOUN.match(trait)
    if found is None or len(someone) != 1:
        return trait
    [(relation, name)] = someone.items()
    subject = f"My {relation} {name}".rstrip()
    owned = "'s" if found["pronoun"] in ("His", "Her", "Their") or found["is"] else ""
    return f"{subject}{owned}{trait[found.end() :]}"


def _named(trait: str, someone: dict[str, str]) -> str:
    """A trait with the names that the utterance gives those it speaks of."""
    for relation, name in someone.items():
        if not name or re.search(rf"\b{re.escape(name)}\b", trait):
            continue
        noun = re.escape(relation.split()[-1])
        place = re.search(rf"\b(?P<whose>[Mm]y|an?) (?:\w+ )?{noun}\b(?!['’]s|\s+(?:named|called|and)\b)", trait)
        if place is not None:
            link = " " if place["whose"].casefold() == "my" else " named "
            trait = f"{trait[: place.end()]}{link}{name}{trait[place.end() :]}"
    return trait


def _of_someone_else(trait: str, utterance: str) -> bool:
    """Whether a trait says of "I" what the utterance says of "my wife"."""
    if not _DOES.match(trait) or re.search(rf"\b{_RELATION}\b", trait):
        return False
    words = stems_of(trait)
    source = max(SENTENCE_END.split(utterance), key=lambda sentence: len(words & stems_of(sentence)))
    if not words & stems_of(source) or _SPEAKER.search(source):
        return False
    return re.match(rf"\W*[Mm]y {_RELATION}(?: {_NAME})? (?!and\b)\w", source) is not None
