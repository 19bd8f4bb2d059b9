"""Tunes the reader on passages and questions about them:

python -m training.reader -c configs/training/reader.yaml [key=value ...] [--dry-run] [--overwrite]

Its rows are the scenes and relations of `training.memory_rows`, and annotated traits of MSC. Every question is asked of a
passage that answers it and of passages about the same people that do not.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from training.memory_relations import asked_about, asked_back, lists, relations, second_person
from training.memory_scenes import Scene, every_scene
from training.memory_sources import StatedTrait, people_of
from training.row_building import BuildRequest
from training.train import main

SEED = 7
NOW = datetime(2024, 6, 1, 18, tzinfo=UTC)
AGENTS = ("Sam", "Sam", "Alex", "Robin", "Nova", "Kim", "Speaker 2", "Assistant")
PEOPLE = (
    *"Lena Tunde Maya Carla Igor Joan Mei Paul Rita Hugo Asha Dan Bea Oskar Noor Sofia".split(),
    "User",
    "Speaker 1",
)
LEADS = (*[""] * 9, "Quick question: ", "Hi again! ", "So, ", "By the way, ", "Tell me, ")
MOST_MISSED = 0.3
"""Maximum share of an answer's new words in a passage that does not answer the question."""

Line = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One row being built: the lines of a passage, the question, and its answer ("": the passage does not say).

    Attributes:
        of: its source; all rows of a source are on the same side of a held-out split.
    """

    of: str
    asker: str
    lines: tuple[Line, ...]
    question: str
    answer: str


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Passage and question → the answer, or NOT_SAID. ``limit``: people of each source.

    Raises:
        InputError: no such file, or a corpus without annotated traits.
    """
    from ld_agent.modules.base import Models
    from ld_agent.modules.reader import Reader
    from ld_agent.modules.registry import NOT_SAID
    from ld_agent.types import Utterance
    from training.rows import row_values

    rng = random.Random(SEED)
    reader = Reader(Models(request.config))
    people = people_of(request.sources)[: request.limit]
    drawn = [*_of_scenes(rng, people), *_of_relations(rng, people), *_of_annotations(rng, people)]
    rng.shuffle(drawn)
    for one in drawn:
        heard = Utterance("q", one.asker, _led(rng, one.question), NOW, 2)
        passage = [Utterance(f"u{n}", speaker, text, NOW, 1) for n, (speaker, text) in enumerate(one.lines)]
        yield row_values(
            reader.prompt_for(heard, passage),
            one.answer or NOT_SAID,
            corpus="memory",
            episode="memory",
            session=1,
            turn=1,
        )


def _of_scenes(rng: random.Random, people: Sequence[Sequence[StatedTrait]]) -> Iterator[Drawn]:
    """Each question of each scene, asked of the passage with the answer, of one next to it, and of another scene."""
    scenes = list(every_scene(rng))
    for number, scene in enumerate(scenes):
        of = f"scene {number}"
        other = scenes[rng.randrange(len(scenes))] if rng.random() < 0.5 else scenes[number - 1]
        for question, answer in scene.asked:
            place = _said_at(scene, question, answer)
            if place is None:
                continue
            new = _new_words(question, answer)
            asker, agent = rng.choice(PEOPLE), rng.choice(AGENTS)
            yield Drawn(of, asker, _window(rng, scene.said, place, asker, agent), question, answer)
            if scene.traits and rng.random() < 0.3:
                traits = rng.sample(scene.traits, min(len(scene.traits), 3))
                lines = tuple((asker, trait) for trait in traits)
                yield Drawn(of, asker, lines, question, answer if _share(new, " ".join(traits)) > 0.8 else "")
            elsewhere = [n for n in range(len(scene.said)) if abs(n - place) > 1 or not n]
            rng.shuffle(elsewhere)
            candidates = [_window(rng, scene.said, n, asker, agent, alone=True) for n in elsewhere if n != place]
            candidates += [_window(rng, other.said, rng.randrange(len(other.said)), asker, agent)]
            free = [lines for lines in candidates if _share(new, _text(lines)) <= MOST_MISSED]
            yield from (Drawn(of, asker, lines, question, "") for lines in free[:1])
            if rng.random() < 0.08:  # said by the agent of itself
                lines = _window(rng, scene.said, place, agent, asker)
                if re.search(r"\b(?:my|I)\b", question) and re.search(r"\b(?:I|my|I'm)\b", _text(lines)):
                    yield Drawn(of, asker, lines, question, "")
        for question, _ in scene.missing:
            asker, agent = rng.choice(PEOPLE), rng.choice(AGENTS)
            places = rng.sample(range(len(scene.said)), min(2, len(scene.said)))
            yield from (Drawn(of, asker, _window(rng, scene.said, n, asker, agent), question, "") for n in places)


def _of_relations(rng: random.Random, people: Sequence[Sequence[StatedTrait]]) -> Iterator[Drawn]:
    for relation in relations():
        for _ in range(16):
            role, value = rng.choice(relation.roles), rng.choice(relation.values)
            asker, agent = rng.choice(PEOPLE), rng.choice(AGENTS)
            question = relation.pick("asked", rng, value, role)
            answer = relation.pick("answers", rng, second_person(value), role)
            kinds = ("said", "said", "said", "traits", *(("changes",) if relation.texts.get("changes") else ()))
            said = relation.pick(rng.choice(kinds), rng, value, role)
            around = [other.said for other in rng.sample(list(rng.choice(people)), 2)]
            before = asked_back(relation.pick("asked", rng, value, role)) if rng.random() < 0.2 else ""
            yield Drawn(relation.name, asker, _lines(rng, [around[0], said], asker, agent, before), question, answer)
            avoid = re.compile(relation.avoid.replace("{r}", role), re.IGNORECASE)
            another = rng.choice(relations())
            roles = [r for r in relation.roles if r.split()[-1] != role.split()[-1]] if role else []
            if roles and rng.random() < 0.6:  # somebody else's
                wrong = relation.pick("said", rng, rng.choice(relation.values), rng.choice(roles))
                wrong = "" if re.search(rf"\b{re.escape(role)}\b", wrong) else wrong
            else:
                wrong = another.pick("said", rng, rng.choice(another.values), rng.choice(another.roles))
                wrong = "" if another.name == relation.name or avoid.search(wrong) else wrong
            if wrong and not (avoid.search(around[1]) and not roles):
                yield Drawn(relation.name, asker, _lines(rng, [around[1], wrong], asker, agent), question, "")


def _of_annotations(rng: random.Random, people: Sequence[Sequence[StatedTrait]]) -> Iterator[Drawn]:
    for number, of_person in enumerate(people):
        of = f"person {number}"
        for one in of_person:
            asked = asked_about(one.trait)
            if asked is None or asked[2] == "that" or rng.random() < (0.4 if asked[3] else 0.85):
                continue
            questions, answers, _, topic = asked
            asker, agent = rng.choice(PEOPLE), rng.choice(AGENTS)
            question, answer = rng.choice(questions), rng.choice(answers)
            others = list({o.said: o for o in of_person if o.said != one.said}.values())
            words = set(re.findall(r"\w{4,}", f"{one.trait} {topic} {question}".casefold())) - {
                "have",
                "like",
                "love",
                "what",
            }
            free = [o for o in others if not any(word in f"{o.trait} {o.said}".casefold() for word in words)]
            if _share(_new_words(question, answer), one.said) > 0.7:
                before = [rng.choice(free).said] if free and rng.random() < 0.6 else []
                yield Drawn(of, asker, _lines(rng, [*before, one.said], asker, agent, one.before), question, answer)
            elif rng.random() < 0.5:
                yield Drawn(of, asker, ((asker, one.trait),), question, answer)
            if len(free) >= 2:
                first, second = rng.sample(free, 2)
                yield Drawn(
                    of, asker, _lines(rng, [first.said, second.said], asker, agent, second.before), question, ""
                )


def _said_at(scene: Scene, question: str, answer: str) -> int | None:
    """Where a scene says an answer."""
    new = _new_words(question, answer)
    shares = [_share(new, said) for said in scene.said]
    best = max(range(len(shares)), key=shares.__getitem__)
    return best if shares[best] >= 0.5 else None


def _window(
    rng: random.Random, said: Sequence[str], place: int, asker: str, agent: str, *, alone: bool = False
) -> tuple[Line, ...]:
    """A line and what was said before it."""
    begin = place if alone or rng.random() < 0.25 else max(place - 1, 0)
    return _lines(rng, said[begin : place + 1], asker, agent)


def _lines(rng: random.Random, said: Sequence[str], asker: str, agent: str, before: str = "") -> tuple[Line, ...]:
    """Lines of one person, between those of another."""
    lines: list[Line] = []
    for n, text in enumerate(said):
        if n == len(said) - 1 and before:
            lines.append((agent, before))
        elif n and rng.random() < 0.7:
            lines.append((agent, rng.choice(lists()["nods"])))
        lines.append((asker, text))
    return tuple(lines[-3:])


def _led(rng: random.Random, question: str) -> str:
    lead = rng.choice(LEADS)
    same = not lead or lead.endswith(("! ", ". ")) or question.startswith("I ")
    return lead + (question if same else question[0].lower() + question[1:])


def _text(lines: Sequence[Line]) -> str:
    return " ".join(text for _, text in lines)


def _new_words(question: str, answer: str) -> frozenset[str]:
    """The stems of an answer that its question does not have."""
    return _stems(answer) - _stems(question) - {"you", "your", "he", "she", "it", "they", "his", "her"}


def _share(new: frozenset[str], text: str) -> float:
    return len(new & _stems(text)) / len(new) if new else 0.0


def _stems(text: str) -> frozenset[str]:
    from ld_agent.languages import ENGLISH
    from ld_agent.memory.index.lexical import stems

    return frozenset(stems(text, ENGLISH.reading))


if __name__ == "__main__":
    main("reader")
