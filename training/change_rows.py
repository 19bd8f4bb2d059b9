"""Rows for the check on what changes: where somebody lives, what they do, how old they are, what their animals are called.

A newer statement ends the older value of what has one value at a time, and not that of what may stand beside it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ld_agent.checks.learned import LABELS, Pair
from training.texts import Fact, blocks, lines_and_claims, lists, parted, relations

SUPPORTED, ENDED, UNSAID = LABELS
MORE = {
    "home": parted(
        "I just moved to {v}.; We moved to {v} last week.; i live in {v} now; moved to {v}, boxes everywhere"
    ),
    "job": parted("I'm a {v} now.; I started as a {v} on Monday.; I work as a {v} these days."),
}
"""Further ways to say that something has changed."""
BESIDE = {
    "home": parted(
        "My sister moved to {v}.; I visited {v} last week.; I grew up in {v}.; My brother lives in {v} now.; "
        "I used to live in {v}.; I live in the country.; I live near the river.; I live with my parents.; "
        "I moved in with my boyfriend.; We moved into a bigger flat.; I live alone.; I'd love to live in {v}."
    ),
    "job": parted(
        "My wife is a {v} now.; My brother works as a {v}.; I wanted to be a {v} as a child.; I work at a hospital.; "
        "I also work as a {v} on weekends.; I work at night.; I work from home.; I was a {v} before that.; "
        "I work a lot.; I met a {v} today.; I volunteer as a {v} on Sundays.; I work for the city."
    ),
    "workplace": parted(
        "I work as a nurse.; I am a teacher.; I work at night.; I work three days a week.; I used to work at {v}."
    ),
}
"""What is no change."""
ANIMALS = ("dog", "cat", "rabbit", "parrot", "hamster")
LATER = 3
"""Lines, at most, of those after a statement that it is read against."""
OFTEN, AGES = 2, 160
"""How many times as often as other relations those of `MORE` are drawn, and the number of ages and of animals."""


def change_rows(names: Sequence[str], rng: random.Random, each: int = 110) -> Iterator[tuple[Pair, str]]:
    """Newer statements with claims about what held before, holds now, and has nothing to do with them.

    Args:
        names: of speakers.
        each: draws of a relation that can change.
    """
    stable = [one for one in relations() if "changes" not in one.texts and one.texts.get("traits")]
    for one in (one for one in relations() if "changes" in one.texts):
        for _ in range(each * (OFTEN if one.name in MORE else 1)):
            was, now = (Fact(one, value, rng.choice(one.roles)) for value in rng.sample(one.values, 2))
            who = rng.choice(names)
            more = rng.choice(MORE.get(one.name, ("",))).replace("{v}", now.value)
            said = rng.choice([text for text in (more, now.text("changes", rng), now.text("said", rng)) if text])
            yield from _claimed(who, said, (was.text("traits", rng), ENDED), (now.text("traits", rng), SUPPORTED))
            yield from _claimed(who, said, (rng.choice(stable).drawn(rng).text("traits", rng), UNSAID))
            for beside in rng.sample(BESIDE.get(one.name, ()), 2 if one.name in BESIDE else 0):
                yield from _claimed(who, beside.replace("{v}", now.value), (was.text("traits", rng), UNSAID))
    for _ in range(AGES):
        yield from _ages(rng.choice(names), rng)
        yield from _animals(rng.choice(names), rng)


def later_rows(path: Path, marks: Mapping[str, str]) -> Iterator[tuple[Pair, str]]:
    """What somebody said, word for word, beside only what follows it in its block, as an agent reads it weeks later: the end of
    it if it is marked so, and otherwise nothing about it.

    Args:
        path: blocks of labelled claims.
        marks: of claims, with their labels.
    """
    for block in blocks(path):
        lines, claims = lines_and_claims(block)
        for mark, claim in claims:
            who, _, text = claim.partition(": ")
            said = [n for n, (speaker, _) in enumerate(lines) if speaker == who]
            told = next((n for n in said if text in lines[n][1]), said[-1] if said else 0)
            if marks[mark] != UNSAID and said and told < said[-1]:
                since = [*lines[told + 1 : said[-1] + 1]][-LATER:]
                yield (since, claim), ENDED if marks[mark] == ENDED else UNSAID


def _claimed(who: str, said: str, *claims: tuple[str, str]) -> Iterator[tuple[Pair, str]]:
    return ((([(who, said)], f"{who}: {claim}"), label) for claim, label in claims)


def _ages(who: str, rng: random.Random) -> Iterator[tuple[Pair, str]]:
    young, old = sorted(rng.sample(range(17, 91), 2))
    said = rng.choice((f"I'm {old} now.", f"I turned {old} yesterday!", f"just turned {old}"))
    claims = ((f"I am {young} years old.", ENDED), (f"I am {old} years old.", SUPPORTED))
    yield from _claimed(who, said, *claims, (f"My sister is {young} years old.", UNSAID))


def _animals(who: str, rng: random.Random) -> Iterator[tuple[Pair, str]]:
    (first, second), (kind, other) = rng.sample(lists()["petname"], 2), rng.sample(ANIMALS, 2)
    for said in (f"I have a {other}.", f"We adopted a {other} called {second}."):
        yield from _claimed(who, said, (f"I have a {kind}.", UNSAID), (f"I have a {kind} named {first}.", UNSAID))
    yield from _claimed(who, f"We got a second {kind}, {second}.", (f"My {kind} is called {first}.", UNSAID))
    yield from _claimed(who, f"{first} died in spring.", (f"I have a {kind} named {first}.", ENDED))
    yield from _claimed(who, f"My {kind}'s name is {second}.", (f"My {kind} is called {second}.", SUPPORTED))
