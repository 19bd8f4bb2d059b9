"""What people in annotated corpora said of themselves: sessions with the facts of each line, and the traits of each person."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from ld_agent.datasets import load_annotated_utterances
from ld_agent.errors import InputError
from ld_agent.types import Session, Utterance
from training.persons import third_person

Lines = list[tuple[str, str]]
Facts = dict[str, list[str]]
FEWEST = 3  # traits of a person
START = datetime(2024, 5, 1, tzinfo=UTC)
AGENTS = (*["Sam"] * 3, *"Alex Robin Nova Kim Assistant".split(), "Speaker 2")
PEOPLE = (
    *"Lena Tunde Maya Carla Igor Joan Mei Paul Rita Hugo Asha Dan Bea Oskar Noor Sofia Nell Ravi Ines User".split(),
    "Speaker 1",
)


@dataclass(frozen=True, slots=True)
class Talk:
    """A session between two named people.

    Attributes:
        facts: of each line, in the third person.
        traits: the same as they were annotated, in the first.
    """

    episode: str
    session: int
    lines: Lines
    facts: list[list[str]]
    traits: list[list[str]]

    @property
    def people(self) -> list[str]:
        return list(dict.fromkeys(speaker for speaker, _ in self.lines))

    @property
    def as_session(self) -> Session:
        """The lines as utterances of one session."""
        said = (
            Utterance(f"u{n}", speaker, text, at=START, session=1) for n, (speaker, text) in enumerate(self.lines, 1)
        )
        return Session(1, tuple(said))

    def exchanged(self) -> Talk:
        """The same session with the two people's names in each other's places."""
        names = dict(zip(self.people, reversed(self.people), strict=True))

        def renamed(text: str) -> str:
            return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text) if names else text

        lines = [(names[speaker], text) for speaker, text in self.lines]
        return replace(self, lines=lines, facts=[[renamed(fact) for fact in of_line] for of_line in self.facts])

    def known(self) -> Facts:
        """All facts by speaker, in order."""
        known: Facts = {person: [] for person in self.people}
        for (speaker, _), facts in zip(self.lines, self.facts, strict=True):
            known[speaker] += [fact for fact in facts if fact not in known[speaker]]
        return known


def talks_of(source: Path, limit: int | None, rng: random.Random) -> Iterator[Talk]:
    """The sessions of a corpus with annotated traits, its speakers under random names.

    Raises:
        InputError: no such file, or a corpus without traits.
    """
    utterances = load_annotated_utterances(source, limit=limit)
    for (episode, session), group in groupby(utterances, lambda one: (one.episode, one.session)):
        said = list(group)
        agent = rng.choice(AGENTS)
        person = rng.choice([name for name in PEOPLE if name != agent])
        names = dict(zip(dict.fromkeys(u.speaker for u in said), rng.sample([person, agent], 2), strict=False))
        traits = [[trait for trait in u.traits if "name is" not in trait] for u in said]
        facts = [[third_person(t, names[u.speaker]) for t in of] for u, of in zip(said, traits, strict=True)]
        yield Talk(episode, session, [(names[u.speaker], u.text.strip()) for u in said], facts, traits)


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
