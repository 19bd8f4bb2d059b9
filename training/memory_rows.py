"""Generator rows that need memory: a question, the prompt of an agent that was told (or was not), and the right reply.

    python -m training.memory_rows --from msc_personasummary/session_4/valid.txt --replies generator.train.jsonl --out mixed.jsonl

Human replies seldom need memory, so a generator tuned on them alone learns to ignore it. Here the
answer stands in a trait, a summary or a quote among others that do not matter, or nowhere. Prompts are rendered by the
code that renders them at inference.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from ld_agent.backbones.base import Message
from ld_agent.checks.not_knowing import says_unknown
from ld_agent.config import Config
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import Vectors, configured
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.quotes import quotes
from ld_agent.modules.generator import Situation, render
from ld_agent.types import Recalled, Record, Utterance
from training.command import run_command
from training.memory_relations import Fact, asked_about, asked_back, led, lists, relations
from training.memory_scenes import drawn_scene
from training.memory_sources import StatedTrait, people_of, summaries_of, talks_of
from training.reply_rows import deciding, folded, telling_utterances
from training.rows import SCENES, row_values, write_rows

ROOM = 80  # tokens of quotes, as configured by memory.quotes
NOW = datetime(2024, 6, 1, 18, tzinfo=UTC)
AGENTS = ("Sam", "Sam", "Sam", "Alex", "Robin", "Nova", "Speaker 2", "Kim", "Assistant")
PEOPLE = (*"Lena Tunde Maya Carla Igor Joan Mei Paul Rita User Hugo Asha Dan".split(), "Speaker 1")
BEGINNINGS = (*[""] * 7, "You told me that ", "You said ", "I remember, ", "If I remember right, ", "Yes, ")
ENDS = (*[""] * 18, " Am I right?", " How could I forget!")
LEADS = (*[""] * 8, "Quick question: ", "Hi Sam. ", "Hey! ", "So, ", "Just testing you: ", "By the way, ", "Tell me, ")

COMMON = frozenset("what does where which have with from this that there many much long".split())

Encode = Callable[[Sequence[str]], Vectors]

Turn = tuple[str, str]
"""A question and its answer."""


@dataclass
class Setting:
    """What an agent knows about one person, being built."""

    rng: random.Random
    agent: str
    person: str
    traits: list[str] = field(default_factory=list)
    agent_traits: list[str] = field(default_factory=list)
    said: list[tuple[str, str, str]] = field(default_factory=list)  # speaker, what, the question before it
    summed: list[str] = field(default_factory=list)
    context: tuple[str, ...] = ()
    avoid: list[re.Pattern[str]] = field(default_factory=list)  # subjects that only the facts themselves may mention
    questions: list[str] = field(default_factory=list)
    asked: tuple[str, ...] = ()

    def answers(self, text: str) -> bool:
        """Whether a text may already give the answer."""
        return any(avoid.search(text) for avoid in self.avoid)

    def clashes(self, avoid: re.Pattern[str], fact: str) -> bool:
        """Whether a fact conflicts with those already included."""
        there = (*self.traits, *(what for _, what, _ in self.said), *self.summed)
        return self.answers(fact) or any(avoid.search(text) for text in there)

    def know(self, trait: str, said: str, summed: str, where: str, before: str = "") -> None:
        """Include a fact; ``where``: the letters of traits, quotes and summary."""
        if "t" in where and trait:
            self.traits.append(trait)
        if "q" in where and said:
            self.said.append((self.person, said, before))
        if "s" in where and summed:
            self.summed.append(summed)

    def situation(self, heard: str, summaries: Sequence[str], encode: Encode) -> Situation:
        """The situation that inference would render, in random order."""
        rng = self.rng
        then = NOW - timedelta(days=rng.choice((3, 7, 14, 20, 21, 24, 35, 60, 120)), hours=rng.randrange(12))
        rng.shuffle(self.traits)
        rng.shuffle(self.agent_traits)
        said = self._said(then)
        quoted: dict[str, Utterance] = {}
        for question in (*self.asked[1:], heard):  # the first question's last, as where it is asked alone
            spoken = Utterance("h", self.person, question, at=NOW, session=2)
            for quote in quotes(
                spoken, self.agent, said, encode=encode, reading=ENGLISH.reading, length=tokens_of, room=ROOM
            ):
                quoted.pop(quote.id, None)
                quoted[quote.id] = quote
        texts = [" ".join(self.summed)] if self.summed else []
        texts += rng.sample(list(summaries), min(len(summaries), rng.choice((0, 0, 1) if texts else (0, 1, 1, 2))))
        recalled = tuple(
            Recalled(
                Record(f"e{n}", "events", self._named(text), at=then - timedelta(days=9 * n), session=1),
                s_sem=0.5,
                s_top=0.0,
                decay=1.0,
                score=1.0,
            )
            for n, text in enumerate(texts)
        )
        traits = {name: tuple(t[:8]) for name, t in ((self.agent, self.agent_traits), (self.person, self.traits)) if t}
        names = (self.person, self.agent)
        context = tuple(
            Utterance(f"c{n}", names[n % 2], text, at=NOW - timedelta(minutes=9 - n), session=2)
            for n, text in enumerate(self.context)
        )
        return Situation(
            self.agent,
            heard=Utterance("h", self.person, heard, at=NOW, session=2),
            context=context,
            recalled=recalled,
            traits=traits,
            people=(self.person,),
            quotes=tuple(quoted.values()),
        )

    def _said(self, then: datetime) -> list[Utterance]:
        """The utterances, a minute apart; some contain two facts."""
        lines: list[tuple[str, str]] = []
        for speaker, what, before in self.said:
            if lines and not before and lines[-1][0] == speaker and self.rng.random() < 0.4:
                lines[-1] = (speaker, f"{lines[-1][1]} {what}")
            else:
                lines += self._lines(speaker, what, before)
        return [
            Utterance(f"u{n}", speaker, what, at=then + timedelta(minutes=n), session=1)
            for n, (speaker, what) in enumerate(lines)
        ]

    def _lines(self, speaker: str, what: str, before: str) -> list[tuple[str, str]]:
        other = self.agent if speaker == self.person else self.person
        return [*([(other, before)] if before else []), (speaker, what)]

    def _named(self, text: str) -> str:
        return text.replace("Speaker 1", self.person).replace("Speaker 2", self.agent)


class Maker:
    """Draws rows.

    Args:
        people: for each person of a corpus what they told.
        talks: beginnings of sessions, as context before a question.
        summaries: of real sessions, between ``Speaker 1`` and ``Speaker 2``.
        encode: as `quotes` wants it.
    """

    def __init__(
        self,
        people: Sequence[Sequence[StatedTrait]],
        talks: Sequence[Sequence[str]],
        summaries: Sequence[str],
        encode: Encode,
        seed: int,
    ) -> None:
        self._people, self._talks, self._summaries, self._encode = people, talks, summaries, encode
        self._rng = random.Random(seed)

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """At most ``count`` rows of one to four questions each; rows whose prompt does not contain the answers are skipped."""
        for _ in range(count):
            setting = self._setting()
            if self._rng.random() < 0.06:
                row = self._row(setting, [self.follow_up(setting)])
                if row is not None:
                    yield row
                continue
            asked = self.scene(setting) if self._rng.random() < 0.7 else []
            wanted = self._rng.choice((0, 0, 1) if asked else (1, 1, 1, 2, 3))
            kinds = self._rng.choices((self.relation, self.annotated, self.of_agent), (60, 28, 12), k=wanted)
            asked += [turn for ask in kinds if (turn := ask(setting)) is not None]
            if not asked:
                continue
            self._fill(setting)
            self._rng.shuffle(asked)
            row = self._row(setting, asked)
            if row is not None:
                yield row

    def scene(self, setting: Setting) -> list[Turn]:
        """Questions about what was told in a few sentences."""
        rng = self._rng
        scene = drawn_scene(rng)
        setting.said += [(setting.person, said, "") for said in scene.said]
        setting.traits += [trait for trait in scene.traits if rng.random() < 0.6]
        known = rng.sample(scene.asked, min(len(scene.asked), rng.choice((1, 2, 2, 3, 4))))
        missing = rng.sample(scene.missing, rng.choice((0, 0, 1, 1)))
        words = {word for question, _ in missing for word in re.findall(r"\w{4,}", question.casefold())} - COMMON
        if words:
            setting.avoid.append(re.compile("|".join(sorted(words)), re.IGNORECASE))
        return [*((q, self._answer(a)) for q, a in known), *((q, self._missing(u)) for q, u in missing)]

    def relation(self, setting: Setting) -> Turn | None:
        """A question about a relation that is known, unknown or has changed."""
        rng = self._rng
        relation = rng.choice(relations())
        fact = relation.drawn(rng)
        known = rng.random() < 0.68
        if setting.clashes(fact.avoid, " ".join(relation.texts["traits"]).replace("{r}", fact.role)):
            return None
        if fact.other_roles and rng.random() < 0.6:
            other = rng.choice(fact.other_roles)
            self._know(setting, Fact(relation, rng.choice(relation.values), other), self._where())
        if rng.random() < 0.4:  # the agent's own is not the answer
            agents = Fact(relation, rng.choice(relation.values), rng.choice(relation.roles))
            setting.agent_traits.append(agents.text("traits", rng))
        if known and relation.texts.get("changes") and rng.random() < 0.3:
            former = replace(fact, value=rng.choice(relation.values))
            self._know(setting, former, rng.choice(("q", "qs", "s")))
            trait = fact.text("traits", rng) if rng.random() < 0.6 else ""
            setting.know(trait, fact.text("changes", rng), "", "tq")
        elif known:
            self._know(setting, fact, self._where())
        setting.avoid.append(fact.avoid)
        question, answer, unknown = (fact.text(kind, rng) for kind in ("asked", "answers", "unknown"))
        return question, self._answer(answer) if known else self._missing(unknown)

    def annotated(self, setting: Setting) -> Turn | None:
        """A question about what a person of the corpus told."""
        rng = self._rng
        one = rng.choice(rng.choice(self._people))
        asked = asked_about(one.trait)
        if asked is None:
            return None
        questions, answers, unknown, topic = asked
        known = rng.random() < 0.68 or unknown == "that"
        words = {
            w
            for w in re.findall(r"\w{4,}", f"{one.trait} {topic}".casefold())
            if w not in ("have", "like", "love", "with")
        }
        avoid = re.compile("|".join(sorted(words)) or "$^", re.IGNORECASE)
        same = re.compile("|".join(re.escape(q) for q in questions))
        if setting.clashes(avoid, f"{one.trait} {one.said}") or any(same.search(q) for q in setting.questions):
            return None
        if known:
            summed = f"{setting.person} says: {one.trait}"
            setting.know(one.trait, one.said, summed, rng.choice(("t", "tq", "tq", "tqs")), before=one.before)
        setting.avoid.append(avoid)
        setting.questions += questions
        return rng.choice(questions), self._answer(rng.choice(answers)) if known else self._missing(unknown)

    def follow_up(self, setting: Setting) -> Turn:
        """A greeting, and a friend's question about what was said last time."""
        rng = self._rng
        fact = rng.choice([r for r in relations() if "later" in r.texts]).drawn(rng)
        self._know(setting, fact, rng.choice(("tq", "q", "tqs")))
        setting.context = ()
        later = fact.text("later", rng)
        return rng.choice(lists()["greetings"]), f"{rng.choice(('', 'Hi! ', 'Good to hear from you! '))}{later}"

    def of_agent(self, setting: Setting) -> Turn | None:
        """A question about the agent itself."""
        rng = self._rng
        fact = rng.choice([r for r in relations() if "{v}" not in "".join(r.texts["asked"])]).drawn(rng)
        trait = fact.text("traits", rng)
        if any(fact.avoid.search(t) for t in setting.agent_traits):
            return None
        setting.agent_traits.append(trait)
        return asked_back(fact.text("asked", rng)), trait

    # ---- the parts

    def _setting(self) -> Setting:
        rng = self._rng
        setting = Setting(rng, rng.choice(AGENTS), rng.choice(PEOPLE))
        if self._talks and rng.random() < 0.35:
            talk = rng.choice(self._talks)
            setting.context = tuple(talk[: rng.choice((2, 2, 4))])
        return setting

    def _where(self) -> str:
        return self._rng.choice(("tq", "tq", "tq", "tqs", "q", "q", "t", "t", "s"))

    def _know(self, setting: Setting, fact: Fact, where: str) -> None:
        rng = self._rng
        trait, said, third = (fact.text(kind, rng) for kind in ("traits", "said", "third"))
        lead = rng.choice(
            ("{p} {t}.", "{p} tells {a} that {p} {t}.", "{p} says that {p} {t}.", "{a} learns that {p} {t}.")
        )
        summed = lead.replace("{p}", setting.person).replace("{a}", setting.agent).replace("{t}", third)
        before = "" if rng.random() < 0.85 else asked_back(fact.text("asked", rng))
        setting.know(trait, said, summed, where, before=before)
        if "q" in where and rng.random() < 0.15:
            setting.said.append((setting.agent, rng.choice(lists()["nods"]), ""))

    def _fill(self, setting: Setting) -> None:
        """Other facts: relations, statements of a person in the corpus, and facts about the agent."""
        rng = self._rng
        for relation in rng.sample(relations(), rng.randrange(0, 4)):
            fact = relation.drawn(rng)
            if not setting.answers(" ".join((relation.avoid, fact.role, fact.value, *relation.texts["traits"]))):
                self._know(setting, fact, self._where())
        theirs, mine = rng.choice(self._people), rng.choice(self._people)
        for one in rng.sample(list(theirs), min(len(theirs), rng.randrange(0, 4))):
            if not setting.answers(f"{one.trait} {one.said} {one.before}"):
                before = one.before if rng.random() < 0.2 else ""
                setting.know(one.trait, one.said, "", rng.choice(("t", "tq", "q")), before=before)
        room = max(0, 5 - len(setting.agent_traits))
        setting.agent_traits += [
            one.trait for one in rng.sample(list(mine), min(len(mine), rng.randrange(0, room + 1)))
        ]
        rng.shuffle(setting.said)

    def _answer(self, text: str) -> str:
        rng = self._rng
        begin = rng.choice(BEGINNINGS)
        if begin and not text.startswith("You"):
            begin = ""
        body = text[0].lower() + text[1:] if begin else text[0].upper() + text[1:]
        return f"{begin}{body}{rng.choice(ENDS)}"

    def _missing(self, unknown: str) -> str:
        return self._rng.choice(lists()["not_known"]).replace("{u}", unknown)

    def _row(self, setting: Setting, asked: Sequence[Turn]) -> dict[str, Any] | None:
        rng = self._rng
        drawn = rng.sample(list(self._summaries), min(2, len(self._summaries)))
        summaries = [text for text in drawn if not setting.answers(text)]
        turns = [(self._led(setting, question), answer) for question, answer in asked]
        setting.asked = tuple(question for question, _ in turns)
        situation = setting.situation(turns[0][0], summaries, self._encode)
        messages = list(render(situation))
        if not all(in_prompt(messages[0].content, *turn) for turn in turns):
            return None
        for (_, answer), (question, _) in pairwise(turns):
            messages += [Message("assistant", answer), Message("user", question)]
        values = row_values(
            messages, turns[-1][1], module="generator", corpus=SCENES, episode="memory", session=2, turn=1
        )
        return values | {"further": len(turns) - 1}

    def _led(self, setting: Setting, question: str) -> str:
        lead = self._rng.choice(LEADS).replace("Sam", setting.agent)
        return question if question in lists()["greetings"] else led(lead, question)


def in_prompt(shown: str, question: str, answer: str) -> bool:
    """Whether a prompt supports an answer, or the answer says that it is not known."""
    reading = ENGLISH.reading
    if says_unknown(answer, reading):
        return True
    new = set(stems(answer, reading)) - set(stems(question, reading)) - set(stems(" ".join(BEGINNINGS), reading))
    return not new or len(new & set(stems(shown, reading))) >= 0.6 * len(new)


def tokens_of(text: str) -> int:
    """Approximate number of tokens in a text."""
    return len(text) // 4 + 1


def write_mixed_rows(
    sources: Annotated[list[Path], typer.Option("--from", help="Annotated MSC files; talks are from the last one.")],
    out: Annotated[Path, typer.Option("--out", help="The training file.")],
    replies: Annotated[list[Path], typer.Option("--replies", help="Ordinary rows to mix in, with their summaries.")],
    count: Annotated[int, typer.Option("--count", min=1, help="Rows that need memory.")] = 4000,
    decisions: Annotated[int, typer.Option("--decisions", min=0, help="Replies with a decision.")] = 100,
    seed: Annotated[int, typer.Option("--seed")] = 0,
) -> None:
    """Write rows that need memory, mixed with a row of ordinary replies for each session."""
    rows = [json.loads(line) for file in replies for line in file.read_text("utf-8").splitlines()]
    settings = Config().encoder
    encoder = configured(settings, cache_size=50_000)
    maker = Maker(
        people_of(sources), talks_of(sources[-1]), summaries=summaries_of(rows), encode=encoder.encode, seed=seed
    )
    rng = random.Random(seed)
    mixed = [*maker.rows(count), *folded(rows), *deciding(rows, telling_utterances(sources), decisions, rng)]
    rng.shuffle(mixed)
    typer.echo(f"{write_rows(out, mixed)} rows in {out}")


def main() -> None:
    """The command."""
    run_command(write_mixed_rows, "training.memory_rows")


if __name__ == "__main__":
    main()
