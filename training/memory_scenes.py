"""Scenes: a few sentences by one person, and questions about them. `data/training/scenes.txt` holds them; its header describes
the format. Knows no prompt and no model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from ld_agent.files import shipped_path
from training.memory_relations import lists, parted

SCENES = shipped_path("data/training/scenes.txt")
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
    return (_filled(block, rng) for block in _blocks()[0])


def _filled(block: str, rng: random.Random) -> Scene:
    values = _blocks()[1]
    places = sorted(set(re.findall(r"{([a-z])(\d)}", block)))
    filled = {f"{{{kind}{n}}}": rng.choice(values[DRAWN[kind]]) for kind, n in places}
    text = re.sub(r"{[a-z]\d}", lambda place: filled[place.group()], block)
    text = re.sub(r"\b([Aa]) (?=[aeioAEIO])", r"\1n ", text)
    by_kind: dict[str, list[str]] = {kind: [] for kind in "STQN"}
    for line in text.splitlines():
        by_kind[line[0]].append(line[2:])
    traits = tuple(trait for line in by_kind["T"] for trait in line.split(" | "))
    return Scene(tuple(by_kind["S"]), traits, _pairs(by_kind["Q"]), _pairs(by_kind["N"]))


@cache
def _blocks() -> tuple[tuple[str, ...], Mapping[str, Sequence[str]]]:
    lines = [line for line in SCENES.read_text("utf-8").splitlines() if not line.startswith("#")]
    kinds = {line[1:].split()[0]: parted(line.partition(" ")[2]) for line in lines if line.startswith("@")}
    blocks = "\n".join(line for line in lines if not line.startswith("@")).split("\n\n")
    return tuple(block.strip() for block in blocks if block.strip()), {**lists(), **kinds}


def _pairs(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((question, answer) for question, _, answer in (line.partition(" = ") for line in lines))
