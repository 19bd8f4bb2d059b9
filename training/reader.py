"""Tunes the reader on passages and questions about them:

python -m training.reader -c configs/training/reader.yaml [key=value ...] [--dry-run] [--overwrite]

Its rows are passages written with their questions, scenes, relations and labelled answers, all of `data/training`, and
annotated traits of MSC. Every question is asked of a passage that answers it and of passages about the same people
that do not; what one of two people did is asked of the other.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ld_agent.checks import statements
from ld_agent.datasets import format_of
from ld_agent.languages import ENGLISH
from ld_agent.modules.base import Models
from ld_agent.modules.reader import Reader
from ld_agent.modules.registry import NOT_SAID
from ld_agent.text import stems
from ld_agent.types import Utterance
from training.persons import asked_back
from training.rows import SCENES, BuildRequest, row_values
from training.talks import AGENTS, PEOPLE, StatedTrait, people_of
from training.texts import (
    TEXTS,
    Fact,
    Scene,
    asked_about,
    blocks,
    every_passage,
    every_scene,
    led,
    lines_and_claims,
    lists,
    relations,
)
from training.train import main

SEED = 7
NOW = datetime(2024, 6, 1, 18, tzinfo=UTC)
LEADS = (*[""] * 9, "Quick question: ", "Hi again! ", "So, ", "By the way, ", "Tell me, ")
MOST_MISSED = 0.3
"""Maximum share of an answer's new words in a passage that does not answer the question."""

FOUND = 0.5
"""Minimum share of an answer's new words in lines that are said to answer it."""
LINES = 3
"""Lines of a passage, as the agent reads them."""

CLAIMS = TEXTS / "claims"
ASKS = re.compile(r"([-+]) (.+?) asks: (.+?) Answer: (.+)")
"""A claim that is an answer to a question, supported by the lines before it or not."""

Line = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Passage:
    """What the reader sees: lines, and who asks about them."""

    asker: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two people of a conversation, of whom the first tells about themselves and asks later."""

    rng: random.Random
    asker: str
    agent: str

    def window(self, said: Sequence[str], place: int, *, alone: bool = False) -> Passage:
        """A line and what was said before it."""
        begin = place if alone or self.rng.random() < 0.25 else max(place - 1, 0)
        return self.passage(said[begin : place + 1])

    def passage(self, said: Sequence[str], before: str = "") -> Passage:
        """Lines of the asker, between those of the agent; ``before``: said by the agent before the last one."""
        lines: list[Line] = []
        for n, text in enumerate(said):
            if n == len(said) - 1 and before:
                lines.append((self.agent, before))
            elif n and self.rng.random() < 0.7:
                lines.append((self.agent, self.rng.choice(lists()["nods"])))
            lines.append((self.asker, text))
        return Passage(self.asker, tuple(lines[-3:]))


@dataclass(frozen=True, slots=True)
class Drawn:
    """One row being built: a passage, a question, and its answer ("": the passage does not say).

    Attributes:
        of: its source; all rows of a source are on the same side of a held-out split.
        tempting: what the passage says of another person, where it does not answer.
    """

    of: str
    passage: Passage
    question: str
    answer: str
    tempting: str = ""


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Passage and question → the answer, or NOT_SAID. ``limit``: people of each source.

    Raises:
        InputError: no such file, a corpus without annotated traits, or one in which nobody told enough.
    """
    rng = random.Random(SEED)
    reader = Reader(Models(request.config))
    people = people_of(request.sources)[: request.limit]
    theirs = "+".join(dict.fromkeys(map(format_of, request.sources)))
    drawn = [(SCENES, one) for one in (*of_scenes(rng), *of_passages(rng), *of_claims())]
    drawn += [(theirs, one) for one in (*of_relations(rng, people), *of_annotations(rng, people))]
    rng.shuffle(drawn)
    for corpus, one in drawn:
        heard = Utterance("q", one.passage.asker, led(rng.choice(LEADS), one.question), at=NOW, session=2)
        lines = enumerate(one.passage.lines)
        passage = [Utterance(f"u{n}", speaker, text, at=NOW, session=1) for n, (speaker, text) in lines]
        prompt = reader.prompt_for(heard, passage)
        yield row_values(prompt, one.answer or NOT_SAID, corpus=corpus, episode=one.of, session=1, turn=1)


def _pair(rng: random.Random) -> Pair:
    return Pair(rng, rng.choice(PEOPLE), rng.choice(AGENTS))


def of_scenes(rng: random.Random) -> Iterator[Drawn]:
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
            pair = _pair(rng)
            yield Drawn(of, pair.window(scene.said, place), question, answer)
            if scene.traits and rng.random() < 0.3:
                traits = rng.sample(scene.traits, min(len(scene.traits), 3))
                noted = Passage(pair.asker, tuple((pair.asker, trait) for trait in traits))
                yield Drawn(of, noted, question, answer if _share(new, " ".join(traits)) > 0.8 else "")
            elsewhere = [n for n in range(len(scene.said)) if abs(n - place) > 1 or not n]
            rng.shuffle(elsewhere)
            candidates = [pair.window(scene.said, n, alone=True) for n in elsewhere if n != place]
            candidates.append(pair.window(other.said, rng.randrange(len(other.said))))
            free = [passage for passage in candidates if _share(new, _text(passage.lines)) <= MOST_MISSED]
            yield from (Drawn(of, passage, question, "") for passage in free[:1])
            if rng.random() < 0.08:  # said by the agent of itself
                agents = Pair(rng, pair.agent, pair.asker).window(scene.said, place)
                if re.search(r"\b(?:my|I)\b", question) and re.search(r"\b(?:I|my|I'm)\b", _text(agents.lines)):
                    yield Drawn(of, replace(agents, asker=pair.asker), question, "")
        for question, _ in scene.missing:
            pair = _pair(rng)
            places = rng.sample(range(len(scene.said)), min(2, len(scene.said)))
            yield from (Drawn(of, pair.window(scene.said, n), question, "") for n in places)


def of_passages(rng: random.Random) -> Iterator[Drawn]:
    """Each question of each passage, asked of lines as the agent reads them, of all, and of some that do not answer."""
    for number, told in enumerate(every_passage()):
        of, lines = f"passage {number}", told.lines
        for asker, question, answer in told.asked:
            new = _new_words(question, answer)
            shares = [_share(new, text) for _, text in lines]
            place = max(range(len(lines)), key=lambda n: (shares[n], n)) if answer else rng.randrange(len(lines))
            read = lines[max(place - LINES + 1, 0) : place + 1]
            if not answer or _share(new, _text(read)) >= FOUND:
                yield from _drawn(of, asker, read, question, answer)
                if answer and (other := _of_other(question, answer, read)):
                    yield from _drawn(of, asker, read, other[0], tempting=other[1])
            if len(lines) > len(read) or not answer:
                yield from _drawn(of, asker, lines, question, answer)
            apart = lines[: max(place - LINES + 1, 0)] if answer else ()
            if apart and _share(new, _text(apart)) <= MOST_MISSED:
                yield from _drawn(of, asker, apart, question)


def _drawn(
    of: str, asker: str, lines: Sequence[Line], question: str, answer: str = "", tempting: str = ""
) -> Iterator[Drawn]:
    """A row of the lines that are read for a question, if there are any."""
    if read := as_read(lines, question):
        yield Drawn(of, Passage(asker, read), question, answer, tempting)


def of_claims() -> Iterator[Drawn]:
    """The questions of labelled claims, asked of their lines: "+ Maya asks: Where is my dentist? Answer: In Mill Street."."""
    for file in sorted(CLAIMS.glob("*.txt")):
        for number, block in enumerate(blocks(file)):
            lines, _ = lines_and_claims(block)
            answers: dict[tuple[str, str], str] = {}
            for mark, asker, question, answer in (found.groups() for line in block if (found := ASKS.fullmatch(line))):
                if mark == "+" or (asker, question) not in answers:
                    answers[asker, question] = answer if mark == "+" else ""
            for (asker, question), answer in answers.items():
                new, read = _new_words(question, answer), as_read(lines, question)
                if _share(new, _text(read)) >= _share(new, _text(lines)):  # nothing of it is in what is not read
                    yield from _drawn(f"{file.stem} {number}", asker, lines, question, answer)


def _of_other(question: str, answer: str, lines: Sequence[Line]) -> tuple[str, str] | None:
    """An answered question about one of two speakers, and its answer, as of the other; None: it is about both or neither."""
    people = {speaker for speaker, _ in lines}
    who = statements.asked_about(question, people, ENGLISH.reading)
    if len(people) != 2 or not who:
        return None
    [other] = people - {who}
    return question.replace(who, other), answer.replace(who, other)


def as_read(lines: Sequence[Line], question: str) -> tuple[Line, ...]:
    """Lines as the agent reads them: those of the only speaker whom a question names, and what asks or names that speaker."""
    about = statements.asked_about(question, {speaker for speaker, _ in lines}, ENGLISH.reading)
    said = (Utterance("", speaker, text, at=NOW, session=1) for speaker, text in lines)
    shown = (statements.part_about(about, one) if about else one for one in said)
    return tuple((one.speaker, one.text) for one in shown if one is not None)


def of_relations(rng: random.Random, people: Sequence[Sequence[StatedTrait]]) -> Iterator[Drawn]:
    for relation in relations():
        for _ in range(16):
            fact, pair = relation.drawn(rng), _pair(rng)
            question, answer = fact.text("asked", rng), fact.text("answers", rng)
            kinds = ("said", "said", "said", "traits", *(("changes",) if relation.texts.get("changes") else ()))
            said = fact.text(rng.choice(kinds), rng)
            around = [other.said for other in rng.sample(list(rng.choice(people)), 2)]
            before = asked_back(fact.text("asked", rng)) if rng.random() < 0.2 else ""
            yield Drawn(relation.name, pair.passage([around[0], said], before), question, answer)
            wrong = _unlike(fact, rng)
            if wrong and not (fact.avoid.search(around[1]) and not fact.other_roles):
                yield Drawn(relation.name, pair.passage([around[1], wrong]), question, "")


def _unlike(fact: Fact, rng: random.Random) -> str:
    """What somebody says that does not answer: of somebody else's relation, or another relation; "": nothing such was drawn."""
    another = rng.choice(relations())
    if fact.other_roles and rng.random() < 0.6:
        value = rng.choice(fact.of.values)
        wrong = Fact(fact.of, value, rng.choice(fact.other_roles)).text("said", rng)
        return "" if re.search(rf"\b{re.escape(fact.role)}\b", wrong) else wrong
    wrong = Fact(another, rng.choice(another.values), rng.choice(another.roles)).text("said", rng)
    return "" if another == fact.of or fact.avoid.search(wrong) else wrong


def of_annotations(rng: random.Random, people: Sequence[Sequence[StatedTrait]]) -> Iterator[Drawn]:
    for number, of_person in enumerate(people):
        of = f"person {number}"
        for one in of_person:
            asked = asked_about(one.trait)
            if asked is None or asked[2] == "that" or rng.random() < (0.4 if asked[3] else 0.85):
                continue
            questions, answers, _, topic = asked
            pair = _pair(rng)
            question, answer = rng.choice(questions), rng.choice(answers)
            others = list({o.said: o for o in of_person if o.said != one.said}.values())
            words = set(re.findall(r"\w{4,}", f"{one.trait} {topic} {question}".casefold()))
            words -= {"have", "like", "love", "what"}
            free = [o for o in others if not any(word in f"{o.trait} {o.said}".casefold() for word in words)]
            if _share(_new_words(question, answer), one.said) > 0.7:
                before = [rng.choice(free).said] if free and rng.random() < 0.6 else []
                yield Drawn(of, pair.passage([*before, one.said], one.before), question, answer)
            elif rng.random() < 0.5:
                yield Drawn(of, Passage(pair.asker, ((pair.asker, one.trait),)), question, answer)
            if len(free) >= 2:
                first, second = rng.sample(free, 2)
                yield Drawn(of, pair.passage([first.said, second.said], second.before), question, "")


def _said_at(scene: Scene, question: str, answer: str) -> int | None:
    """Where a scene says an answer."""
    new = _new_words(question, answer)
    shares = [_share(new, said) for said in scene.said]
    best = max(range(len(shares)), key=shares.__getitem__)
    return best if shares[best] >= 0.5 else None


def _new_words(question: str, answer: str) -> frozenset[str]:
    """The stems of an answer that its question does not have."""
    return _stems(answer) - _stems(question) - {"you", "your", "he", "she", "it", "they", "his", "her"}


def _text(lines: Sequence[Line]) -> str:
    return " ".join(text for _, text in lines)


def _share(new: frozenset[str], text: str) -> float:
    return len(new & _stems(text)) / len(new) if new else 0.0


def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(text, ENGLISH.reading))


if __name__ == "__main__":
    main("reader")
