"""What rows that need memory ask about: relations written by hand, rules over annotated traits, and who is "you".

`data/training/relations.txt` holds the relations; its header describes the format. Knows no prompt and no model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from ld_agent.files import shipped_path

RELATIONS = shipped_path("data/training/relations.txt")
TRAITS = shipped_path("data/training/traits.txt")
KINDS = dict(zip("STCQA", "said traits changes asked answers".split(), strict=True))
ASIDE = frozenset("also just really never always still and but".split())  # do not take a verb of their own
TO_SECOND = dict(
    pair.split("/")
    for pair in (
        "i/you me/you my/your mine/yours myself/yourself am/are i'm/you're i've/you've i'd/you'd i'll/you'll "
        "was/were we/you our/your us/you"
    ).split()
)


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
    """The lists of `RELATIONS` by name."""
    entries = (line[1:].partition(" ") for line in RELATIONS.read_text("utf-8").splitlines() if line.startswith("@"))
    return {name: parted(text) for name, _, text in entries}


@cache
def relations() -> tuple[Relation, ...]:
    """The relations of `RELATIONS`."""
    lines = [line for line in RELATIONS.read_text("utf-8").splitlines() if not line.startswith(("#", "@"))]
    blocks = "\n".join(lines).split("\n\n")
    return tuple(_relation(block.strip().splitlines()) for block in blocks if block.strip())


def _relation(block: Sequence[str]) -> Relation:
    name, _, avoid = block[0].partition(" / ")
    given = {line[0]: line[2:] for line in block[1:]}
    values, roles = (
        lists()[text[1:]] if text.startswith("@") else parted(text) for text in (given["V"], given.get("R", ""))
    )
    texts = {KINDS[key]: tuple(t.strip() for t in text.split(" | ")) for key, text in given.items() if key in KINDS}
    return Relation(name.strip(), avoid.strip(), values, roles=roles, texts=texts)


def parted(text: str) -> tuple[str, ...]:
    """The items of a list."""
    return tuple(one.strip() for one in text.split(";"))


def second_person(text: str) -> str:
    """Turn what somebody says of themselves into what is said to them: "I have my dog" → "You have your dog"."""
    words, turned, subject = text.split(), [], ""
    for word in words:
        bare = re.sub(r"[^\w']+$", "", word)
        tail, low = word[len(bare) :], bare.casefold().replace("’", "'")
        new = TO_SECOND.get(low)
        if low == "was" and subject not in ("i", "you"):
            new = None
        if low == "am" and subject not in ("i", "and", "but", ""):
            new = None
        if low in ("i", "i'm", "i've", "i'd", "i'll"):
            subject = "i"
        elif re.match(r"[A-Za-z]+$", low) and low not in ASIDE:
            subject = low
        turned.append((new or bare) + tail)
    joined = " ".join(turned)
    return joined[:1].upper() + joined[1:] if text[:1].isupper() else joined


def asked_back(question: str) -> str:
    """A question about oneself as one about the other: "Where do I live?" → "Where do you live?"."""
    turned = re.sub(r"\b([Aa])m I\b", r"\1re you", re.sub(r"\b([Ww])as I\b", r"\1ere you", question))
    return second_person(turned)


def led(lead: str, question: str) -> str:
    """A question after the words that lead to it."""
    same = not lead or lead.endswith((". ", "! ")) or question.startswith("I ")
    return lead + (question if same else question[0].lower() + question[1:])


@dataclass(frozen=True, slots=True)
class TraitRule:
    """Questions about a trait that matches; texts contain ``{v}`` and ``{k}``, groups of the pattern."""

    pattern: re.Pattern[str]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    unknown: str


@cache
def trait_rules() -> tuple[TraitRule, ...]:
    """The rules of `TRAITS`, the first that matches first."""
    rules = []
    for line in TRAITS.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, questions, answers, unknown = line.split(" ## ")
            rules.append(
                TraitRule(re.compile(pattern), tuple(questions.split(" | ")), tuple(answers.split(" | ")), unknown)
            )
    return tuple(rules)


def asked_about(trait: str) -> tuple[tuple[str, ...], tuple[str, ...], str, str] | None:
    """Questions, answers, unanswerable questions, and the topic, by the first rule that matches a trait."""
    plain = trait.rstrip(".")
    for rule in trait_rules():
        if match := rule.pattern.fullmatch(plain):
            groups = match.groupdict()
            value, topic = second_person(groups["v"]), groups.get("k", "")
            texts = (*rule.questions, *rule.answers, rule.unknown)
            filled = [text.replace("{v}", value).replace("{k}", topic) for text in texts]
            count = len(rule.questions)
            return tuple(filled[:count]), tuple(filled[count:-1]), filled[-1], topic
    return None
