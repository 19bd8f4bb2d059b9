"""Generator rows that need memory: a question, the prompt of an agent that was told (or was not), and the right reply.

    python -m training.memory_rows --from msc_personasummary/session_4/valid.txt --replies generator.train.jsonl --out mixed.jsonl

Human replies seldom need memory, so a generator tuned on them alone learns to ignore it. The questions are the reader's
(`training.reader`): a passage that answers one, or that does not, is quoted or known as traits, beside a passage about
something else. Prompts are rendered by the code that renders them at inference.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ld_agent.datasets import load_annotated_utterances
from ld_agent.languages import ENGLISH
from ld_agent.modules.generator import render
from ld_agent.modules.situation import Situation
from ld_agent.types import Utterance
from training.command import run_command
from training.reader import LEADS, NOW, Drawn, Line, Passage, of_annotations, of_relations, of_scenes
from training.rows import SCENES, row_values, write_rows
from training.talks import AGENTS, StatedTrait, people_of
from training.texts import every_talk, led, lists

Row = dict[str, Any]
BEGINNINGS = (*[""] * 7, "You told me that ", "You said ", "I remember, ", "If I remember right, ", "Yes, ")
NOTED = 0.3
"""Share of passages that are known as traits instead of quoted."""
DAYS_AGO = (3, 7, 14, 21, 35, 60, 120)
KNOWN = 0.5
"""Share of small talks in which something is known of the person."""


def memory_rows(people: Sequence[Sequence[StatedTrait]], seed: int) -> Iterator[Row]:
    """Rows of the reader's questions about scenes, relations and annotated traits, in random order; half have an answer."""
    rng = random.Random(seed)
    drawn = [*of_scenes(rng), *of_relations(rng, people), *of_annotations(rng, people)]
    sides = [[one for one in drawn if bool(one.answer) is answered] for answered in (True, False)]
    count = min(map(len, sides))
    chosen = [one for side in sides for one in rng.sample(side, count)]
    rng.shuffle(chosen)
    for number, one in enumerate(chosen):
        yield _row(one, chosen[number - 1].passage, rng)


def _row(one: Drawn, other: Passage, rng: random.Random) -> Row:
    agent = rng.choice([name for name in AGENTS if name != one.passage.asker])
    quoted, known = list[Line](), list[str]()
    for passage in rng.sample([one.passage, other], 2):
        if passage is one.passage or not one.answer:  # what answers nothing might answer what is known
            told = [text for speaker, text in passage.lines if speaker == passage.asker]
            if rng.random() < NOTED and len(told) == len(passage.lines):
                known += told
                continue
        names = {passage.asker: one.passage.asker}
        quoted += [(names.get(speaker, agent), text) for speaker, text in passage.lines]
    then = NOW - timedelta(days=rng.choice(DAYS_AGO))
    situation = Situation(
        agent,
        heard=Utterance("h", one.passage.asker, led(rng.choice(LEADS), one.question), at=NOW, session=2),
        traits={one.passage.asker: tuple(known)} if known else {},
        people=(one.passage.asker,),
        quotes=tuple(_utterances(quoted, then, session=1)),
    )
    about = {"module": "generator", "corpus": SCENES, "episode": "memory", "session": 2, "turn": 1}
    return row_values(render(situation), _answer(one, rng), **about)


def _answer(one: Drawn, rng: random.Random) -> str:
    if not one.answer:
        return rng.choice(lists()["not_known"]).replace("{u}", "that")
    begin = rng.choice(BEGINNINGS) if one.answer.startswith("You") else ""
    return begin + (one.answer[0].lower() if begin else one.answer[0].upper()) + one.answer[1:]


def talk_rows(people: Sequence[Sequence[StatedTrait]], rng: random.Random) -> Iterator[Row]:
    """One row for each small talk of ``replies.txt``, all of the agent's replies its targets.

    Of whom a block tells no facts, some annotated traits may be known, which the talk does not need.
    """
    for number, talk in enumerate(every_talk()):
        facts, lines, person, agent = [*talk.facts], talk.lines, talk.person, talk.lines[1][0]
        *told, reply = lines if lines[-1][0] == agent else lines[:-1]
        said = _utterances(told, NOW, session=2)
        if not facts and rng.random() < KNOWN:
            known = rng.choice(people)
            facts = [one.trait for one in rng.sample(known, min(len(known), rng.randint(1, 5)))]
        quoted = facts.pop() if facts and rng.random() < NOTED else ""
        then = NOW - timedelta(days=rng.choice(DAYS_AGO))
        situation = Situation(
            agent,
            said[-1],
            tuple(said[:-1]),
            traits={person: tuple(facts)} if facts else {},
            people=(person,),
            quotes=tuple(_utterances([(person, quoted)], then, session=1)) if quoted else (),
        )
        about = {"module": "generator", "corpus": SCENES, "episode": f"talk {number}", "session": 2, "turn": 1}
        yield from folded([row_values(render(situation), reply[1], **about)])


def _utterances(lines: Sequence[Line], begun: datetime, session: int) -> list[Utterance]:
    """Lines as utterances, one a minute."""
    return [
        Utterance(f"u{n}", speaker, text, at=begun + timedelta(minutes=n), session=session)
        for n, (speaker, text) in enumerate(lines)
    ]


def folded(rows: Iterable[Row]) -> list[Row]:
    """One row a session: its last prompt, with the earlier replies in it as further targets.

    Read once, it teaches as much as the rows of all its replies, since these share all but what is recalled.
    """
    last: dict[tuple[str, int], Row] = {}
    for row in rows:
        key = (row["episode"], row["session"])
        if key not in last or row["turn"] > last[key]["turn"]:
            last[key] = row
    return [row | {"further": sum(m["role"] == "assistant" for m in row["messages"][:-1])} for row in last.values()]


def deciding(rows: Sequence[Row], telling: Mapping[str, bool], count: int, rng: random.Random) -> list[Row]:
    """Replies that also say whether what they answer is worth remembering, half of them "yes" where there are enough.

    Args:
        telling: by utterance, whether it reveals something lasting about its speaker.
    """
    steps = ENGLISH.prompt("conditional_reply").render()[0].content
    sides: dict[bool, list[Row]] = {True: [], False: []}
    for row in rows:
        heard = telling.get(row["messages"][-2]["content"])
        if heard is not None:
            sides[heard].append(row)
    chosen = []
    for worth, side in sides.items():
        for row in rng.sample(side, min(len(side), count // 2)):
            system, *others, reply = row["messages"]
            target = f"Reply: {reply['content']}\nRemember: {'yes' if worth else 'no'}"
            messages = [system | {"content": f"{system['content']}\n\n{steps}"}, *others, reply | {"content": target}]
            chosen.append(row | {"messages": messages, "further": 0})
    return chosen


def write_mixed_rows(
    sources: Annotated[list[Path], typer.Option("--from", help="Annotated MSC files.")],
    out: Annotated[Path, typer.Option("--out", help="The training file.")],
    replies: Annotated[list[Path], typer.Option("--replies", help="Ordinary rows to mix in.")],
    count: Annotated[int, typer.Option("--count", min=0, help="Rows that need memory.")] = 4000,
    talks: Annotated[int, typer.Option("--talks", min=0, help="Small talks between friends.")] = 0,
    decisions: Annotated[int, typer.Option("--decisions", min=0, help="Replies with a decision.")] = 100,
    seed: Annotated[int, typer.Option("--seed")] = 0,
) -> None:
    """Write rows that need memory, mixed with a row of ordinary replies for each session."""
    rows = [json.loads(line) for file in replies for line in file.read_text("utf-8").splitlines()]
    rng = random.Random(seed)
    people = people_of(sources)
    mixed = [*islice(memory_rows(people, seed), count), *islice(talk_rows(people, rng), talks)]
    telling = {u.text: bool(u.traits) for source in sources for u in load_annotated_utterances(source)}
    mixed += [*folded(rows), *deciding(rows, telling, decisions, rng)]
    rng.shuffle(mixed)
    typer.echo(f"{write_rows(out, mixed)} rows in {out}")


def main() -> None:
    """The command."""
    run_command(write_mixed_rows, "training.memory_rows")


if __name__ == "__main__":
    main()
