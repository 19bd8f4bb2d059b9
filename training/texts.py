"""The project's own texts in `data/training`, of which rows are made: relations and scenes with what may be asked about them,
passages with questions that they answer or do not, and rules that ask about annotated traits.

The header of each file describes its format. Knows no prompt and no model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ld_agent.files import shipped_path
from training.persons import second_person

TEXTS = shipped_path("data/training")
KINDS = dict(zip("STCQA", "said traits changes asked answers".split(), strict=True))


def blocks(file: Path) -> list[list[str]]:
    """The blocks of a file: lines between blank lines, without comments."""
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    return [block.strip().splitlines() for block in re.split(r"\n\s*\n", "\n".join(lines)) if block.strip()]


def lines_and_claims(block: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], list[tuple[str, str]]]:
    """The chat lines of a block with their speakers, and the claims about them with their marks."""
    lines = tuple((who, text) for who, _, text in (line.partition(": ") for line in block if line[1:2] != " "))
    return lines, [(line[0], line[2:]) for line in block if line[1:2] == " "]


def parted(text: str) -> tuple[str, ...]:
    """The items of a list."""
    return tuple(one.strip() for one in text.split(";"))


def led(lead: str, question: str) -> str:
    """A question after the words that lead to it."""
    same = not lead or lead.endswith((". ", "! ")) or question.startswith("I ")
    return lead + (question if same else question[0].lower() + question[1:])


def _lists(file: str) -> dict[str, tuple[str, ...]]:
    """The lists in a file, lines that begin with "@", by name."""
    entries = (line[1:].partition(" ") for block in blocks(TEXTS / file) for line in block if line[0] == "@")
    return {name: parted(text) for name, _, text in entries}


# ---- relations


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact about a person; texts contain ``{v}``, the value, and optionally ``{r}``, the person."""

    name: str
    avoid: str
    values: tuple[str, ...]
    roles: tuple[str, ...] = ("",)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def drawn(self, rng: random.Random) -> Fact:
        """A fact of this kind."""
        role = rng.choice(self.roles)
        return Fact(self, rng.choice(self.values), role)


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation with its value and, where it has one, the person in it."""

    of: Relation
    value: str
    role: str

    @property
    def avoid(self) -> re.Pattern[str]:
        """Matches what a distractor must not touch."""
        return re.compile(self.of.avoid.replace("{r}", self.role), re.IGNORECASE)

    @property
    def other_roles(self) -> list[str]:
        """The other people who might be in its relation: for "my older brother" no brother."""
        return [role for role in self.of.roles if role.split()[-1] != self.role.split()[-1]] if self.role else []

    def text(self, kind: str, rng: random.Random) -> str:
        """One of the relation's texts of a kind, filled in; "" if there is none."""
        value = second_person(self.value) if kind == "answers" else self.value
        choices = self.of.texts.get(kind, ())
        text = rng.choice(choices).replace("{v}", value).replace("{r}", self.role) if choices else ""
        text = re.sub(r"\b([Aa]) (?=[aeioAEIO])", r"\1n ", text)
        return text[:1].upper() + text[1:] if kind in ("said", "answers") else text


@cache
def lists() -> Mapping[str, tuple[str, ...]]:
    """The lists beside the relations, by name."""
    return _lists("relations.txt")


@cache
def relations() -> tuple[Relation, ...]:
    """Every relation."""
    return tuple(_relation(block) for block in blocks(TEXTS / "relations.txt") if block[0][0] != "@")


def _relation(block: Sequence[str]) -> Relation:
    name, _, avoid = block[0].partition(" / ")
    given = {line[0]: line[2:] for line in block[1:]}
    values, roles = (
        lists()[text[1:]] if text.startswith("@") else parted(text) for text in (given["V"], given.get("R", ""))
    )
    texts = {KINDS[key]: tuple(t.strip() for t in text.split(" | ")) for key, text in given.items() if key in KINDS}
    return Relation(name.strip(), avoid.strip(), values, roles=roles, texts=texts)


# ---- traits


@cache
def trait_rules() -> list[tuple[re.Pattern[str], list[list[str]]]]:
    """The rules about traits, the first that matches first: its pattern, and questions, answers and an unanswerable question.

    These contain ``{v}`` and ``{k}``, groups of the pattern.
    """
    lines = [line.split(" ## ") for block in blocks(TEXTS / "traits.txt") for line in block]
    return [(re.compile(pattern), [text.split(" | ") for text in texts]) for pattern, *texts in lines]


def asked_about(trait: str) -> tuple[tuple[str, ...], tuple[str, ...], str, str] | None:
    """Questions, answers, unanswerable questions, and the topic, by the first rule that matches a trait."""
    plain = trait.rstrip(".")
    for pattern, kinds in trait_rules():
        if match := pattern.fullmatch(plain):
            value, topic = second_person(match["v"]), match.groupdict().get("k", "")
            filled = (tuple(text.replace("{v}", value).replace("{k}", topic) for text in texts) for texts in kinds)
            questions, answers, (unknown,) = filled
            return questions, answers, unknown, topic
    return None


# ---- scenes

DRAWN = {"p": "person", "c": "city", "j": "job", "n": "numbers", "t": "petname", "f": "dishes", "m": "months"}
DRAWN |= {"k": "colours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One block, its values filled in.

    Attributes:
        asked: (question, answer); the answer is in what was said.
        missing: (question, what is not known).
    """

    said: tuple[str, ...]
    traits: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]


def every_scene(rng: random.Random) -> Iterator[Scene]:
    """Every scene once, with values drawn for its places."""
    values = {**lists(), **_lists("scenes.txt")}
    return (_filled("\n".join(b), values, rng) for b in blocks(TEXTS / "scenes.txt") if b[0][0] != "@")


def _filled(block: str, values: Mapping[str, Sequence[str]], rng: random.Random) -> Scene:
    places = sorted(set(re.findall(r"{([a-z])(\d)}", block)))
    filled = {f"{{{kind}{n}}}": rng.choice(values[DRAWN[kind]]) for kind, n in places}
    text = re.sub(r"{[a-z]\d}", lambda place: filled[place.group()], block)
    text = re.sub(r"\b([Aa]) (?=[aeioAEIO])", r"\1n ", text)
    by_kind: dict[str, list[str]] = {kind: [] for kind in "STQN"}
    for line in text.splitlines():
        by_kind[line[0]].append(line[2:])
    traits = tuple(trait for line in by_kind["T"] for trait in line.split(" | "))
    return Scene(tuple(by_kind["S"]), traits, _pairs(by_kind["Q"]), _pairs(by_kind["N"]))


def _pairs(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((question, answer) for question, _, answer in (line.partition(" = ") for line in lines))


# ---- passages


@dataclass(frozen=True, slots=True)
class Told:
    """One block.

    Attributes:
        lines: (speaker, text).
        asked: (asker, question, answer); "": the lines do not say.
    """

    lines: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str, str], ...]


def every_passage() -> Iterator[Told]:
    """Every passage."""
    for block in blocks(TEXTS / "passages.txt"):
        parted = [(line[0], *line[2:].partition(": ")[::2]) for line in block]
        yield Told(
            tuple((speaker, text) for kind, speaker, text in parted if kind == "P"),
            tuple((asker, *_pairs([text])[0]) for kind, asker, text in parted if kind != "P"),
        )


# ---- small talk


@dataclass(frozen=True, slots=True)
class Talk:
    """One block.

    Attributes:
        facts: what is known of the person.
        lines: (speaker, text); the person begins, the agent answers.
    """

    facts: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]

    @property
    def person(self) -> str:
        return self.lines[0][0]

    @property
    def heard(self) -> list[str]:
        """What the person says."""
        return [text for speaker, text in self.lines if speaker == self.person]


def every_talk(file: Path = TEXTS / "replies.txt") -> Iterator[Talk]:
    """Every small talk of a file."""
    for block in blocks(file):
        facts = [line[2:] for line in block if line.startswith("* ")]
        lines = [line.partition(": ")[::2] for line in block[len(facts) :]]
        yield Talk(tuple(facts), tuple(lines))
