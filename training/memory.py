"""Tunes the memory module, which writes records, memos and memories for the mechanisms other than events:

python -m training.memory -c configs/training/memory.yaml [key=value ...] [--dry-run] [--overwrite]

Its rows are built from annotations: the traits of MSC's utterances, DialogSum's topics and summaries. Everything that the module
learns to write is therefore supported by the dialogue.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.datasets import format_of, load_dialogues
from ld_agent.datasets.dialogsum import named_dialogue
from ld_agent.languages import ENGLISH
from ld_agent.types import Utterance
from training.rows import BuildRequest, row_values
from training.talks import Facts, Talk, talks_of
from training.texts import asked_about, lists
from training.train import main

Exchange = tuple[tuple[Message, ...], str]
"""A prompt and its answer."""
SEED = 5
RECORDS = 3  # of a session
LATEST = 12  # lines before an utterance that its record shows
MOST_FACTS = 12  # of a memory that is rewritten: an answer's tokens are bounded


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Rows of every prompt that the mechanisms send. ``limit``: sessions (dialogues, of DialogSum) of each source.

    Raises:
        InputError: no such file, or a corpus with neither traits nor summaries.
    """
    rng = random.Random(SEED)
    for source in request.sources:
        corpus = format_of(source)
        rows_of = _of_dialogues if corpus == "dialogsum" else _of_talks
        for episode, session, (messages, answer) in rows_of(source, request.limit, rng):
            yield row_values(messages, answer, corpus=corpus, episode=episode, session=session, turn=1)


def _of_talks(source: Path, limit: int | None, rng: random.Random) -> Iterator[tuple[str, int, Exchange]]:
    talks = list(talks_of(source, limit, rng))
    for number, talk in enumerate(talks):
        elsewhere = [fact for other in talks[number - 3 : number] for facts in other.known().values() for fact in facts]
        for row in (*_records(talk, rng), *_rewrites(talk, rng), *_portraits(talk), *_picks(talk, elsewhere, rng)):
            yield talk.episode, talk.session, row


# ---- conditional memory


def _records(talk: Talk, rng: random.Random) -> Iterator[Exchange]:
    """Records of some utterances (ECM, Table 18): the situation, and what was learned."""
    numbers = rng.sample(range(len(talk.lines)), min(RECORDS, len(talk.lines)))
    for number in numbers:
        speaker, text = talk.lines[number]
        other = next((name for name in talk.people if name != speaker), "the agent")
        decide, facts = rng.random() < 0.5, talk.facts[number]
        if not facts and not decide:
            continue
        messages = ENGLISH.prompt("conditional_record").render(
            agent=other,
            decide=decide,
            context=True,
            knowledge=True,
            lines=talk.lines[max(0, number - LATEST) : number + 1],
            speaker=speaker,
            text=text,
        )
        yield messages, _record(talk, number, other, decide)


def _record(talk: Talk, number: int, other: str, decide: bool) -> str:
    speaker, facts = talk.lines[number][0], talk.facts[number]
    if not facts:
        return "Remember: no"
    before = _sentences(talk.lines[number - 1][1]) if number else []
    asked = next((s for s in reversed(before) if s.endswith("?")), "")
    if not before:
        related, situation = "none", f"{speaker} begins the conversation with {other}."
    elif asked:
        related, situation = f"{other}: {asked}", f"{speaker} answers {other}, who asked: {asked}"
    else:
        related, situation = f"{other}: {before[-1]}", f"{speaker} replies to {other}, who said: {before[-1]}"
    parts = [f"Related: {related}", f"Situation: {situation}", f"Note: {' '.join(facts)}"]
    return "\n".join([*(["Remember: yes"] if decide else []), *parts])


def _picks(talk: Talk, elsewhere: Sequence[str], rng: random.Random) -> Iterator[Exchange]:
    """Reflection on notes (ECM, Table 19) and the choice of topics (MemoChat), for one message."""
    facts = [fact for of_line in talk.facts for fact in of_line]
    traits = [trait for of_line in talk.traits for trait in of_line]
    pairs = zip(traits, facts, strict=True)
    asked = [(rule[0], fact) for trait, fact in pairs if (rule := asked_about(trait)) is not None]
    others = [*facts, *elsewhere]
    if len(others) < 4:
        return
    for _ in range(2):
        kind = rng.choice(("known", "missing", "none")) if asked else "none"
        questions, fact = rng.choice(asked) if asked else ((), "")
        text = rng.choice(lists()["small_talk"]) if kind == "none" else rng.choice(questions)
        words = set(re.findall(r"\w{4,}", f"{fact} {text}".casefold()))
        free = [o for o in others if not words & set(re.findall(r"\w{4,}", o.casefold()))]
        if len(free) < 3:
            continue
        notes = rng.sample(free, min(len(free), rng.randint(2, 5)))
        if kind == "known":
            notes.insert(rng.randrange(len(notes) + 1), fact)
        place = notes.index(fact) + 1 if kind == "known" else 0
        keywords = ", ".join(w for w in re.findall(r"\w{4,}", text.casefold()) if w not in ASKING)
        enough = {"known": f"Enough: {place}", "none": "Enough: none", "missing": f"Missing: {keywords}"}[kind]
        if kind != "missing" or keywords:
            yield ENGLISH.prompt("conditional_reflect").render(candidates=notes, text=text), enough
        yield ENGLISH.prompt("memochat_topics").render(text=text, notes=notes), str(place)


ASKING = frozenset(
    "what which where when whose does have know like best many much call called your with from that".split()
)


# ---- recursive summarization, MemoryBank


def _rewrites(talk: Talk, rng: random.Random) -> Iterator[Exchange]:
    """A memory rewritten after a session (LLM-Rsum, Table 1): the old facts and the session's, one line per person."""
    from ld_agent.memory.views.memory_text import capped, memory_text

    if sum(map(len, talk.known().values())) < 3:
        return
    half = len(talk.lines) // 2
    early, late = (
        replace(talk, lines=talk.lines[cut], facts=talk.facts[cut], traits=talk.traits[cut])
        for cut in (slice(half), slice(half, None))
    )
    old = capped(early.known(), MOST_FACTS - 4)
    whole: list[tuple[Facts, Talk]] = [({}, talk)] if rng.random() < 0.6 else []
    for memory, part in [*whole, *([(old, late)] if old else [])]:
        known = part.known()
        both = {
            person: list(dict.fromkeys([*memory.get(person, []), *known.get(person, [])])) for person in talk.people
        }
        messages = ENGLISH.prompt("recursive_rewrite").render(
            sentences=20, memory=list(memory.items()), lines=part.lines, people=ENGLISH.named(tuple(talk.people))
        )
        yield messages, memory_text(capped(both, MOST_FACTS))


def _portraits(talk: Talk) -> Iterator[Exchange]:
    """A portrait of a person, and a summary of dated notes (MemoryBank), from what they said."""
    for person, facts in talk.known().items():
        if len(facts) >= 4:
            known = " ".join(facts[:2])
            yield (
                ENGLISH.prompt("memorybank_portrait").render(person=person, known=known, lines=talk.lines),
                " ".join([*facts[:1], *facts[-2:]]),
            )
            notes = [
                ("2024-05-01", " ".join(facts[: len(facts) // 2])),
                ("2024-05-09", " ".join(facts[len(facts) // 2 :])),
            ]
            yield ENGLISH.prompt("memorybank_summary").render(notes=notes), " ".join([facts[0], *facts[-2:]])
            return


# ---- MemoChat


def _of_dialogues(source: Path, limit: int | None, rng: random.Random) -> Iterator[tuple[str, int, Exchange]]:
    """Memos of one to four consecutive dialogues: their topics, lines and summaries."""
    from ld_agent.memory.views.memochat import memo_prompt

    dialogues = [d for d in load_dialogues(source, limit=limit) if len({t.speaker for t in d.turns}) == 2 and d.topics]
    rng.shuffle(dialogues)
    while dialogues:
        parts, dialogues = dialogues[: (count := rng.choice((1, 2, 3, 4)))], dialogues[count:]
        run: list[Utterance] = []
        memos: list[str] = []
        for part in parts:
            session, summaries = named_dialogue(replace(part, id=parts[0].id))
            first = len(run) + 1
            run += session.utterances
            memos.append(f"{first}-{len(run)} | {part.topics[0]} | {_sentences(' '.join(summaries[0].split()))[0]}")
        yield parts[0].id, 1, (memo_prompt(ENGLISH, run), "\n".join(memos))


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


if __name__ == "__main__":
    main("memory")
