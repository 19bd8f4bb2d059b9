"""Sources for rows that need memory: what people in a corpus said of themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ld_agent.datasets import load_annotated_utterances
from ld_agent.errors import InputError

FEWEST = 3  # traits of a person


@dataclass(frozen=True, slots=True)
class StatedTrait:
    """A trait and the utterance that it was found in."""

    trait: str
    said: str
    before: str = ""


def people_of(sources: Sequence[Path]) -> list[list[StatedTrait]]:
    """What each person said in each session of annotated files: short traits from utterances of one or two sentences.

    Raises:
        InputError: nobody told three such traits; also as `load_annotated_utterances`.
    """
    by_person: dict[tuple[str, str, str], list[StatedTrait]] = {}
    for source in sources:
        for u in load_annotated_utterances(source):
            for trait in u.traits:
                if 3 <= len(trait.split()) <= 14 and len(u.text.split()) <= 32 and re.match(r"(?:I|My)\b", trait):
                    before = u.before if len(u.before.split()) <= 14 and u.before.rstrip().endswith("?") else ""
                    by_person.setdefault((str(source), u.episode, u.speaker), []).append(
                        StatedTrait(trait, u.text.strip(), before.strip())
                    )
    people = [of_person for of_person in by_person.values() if len(of_person) >= FEWEST]
    if not people:
        raise InputError(
            f"{', '.join(map(str, sources))}: nobody told {FEWEST} short traits in one conversation, each beginning with "
            'I or My ("I keep bees."); give more data'
        )
    return people
