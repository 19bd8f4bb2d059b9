"""The rows on which the check of statements is tuned: lines and a claim, and whether the lines support it, end it, or say nothing
of it.

Rows come from annotated traits of MSC with another trait, person, number or polarity; from public pairs; and from
``data/training/claims``, written or made by the extractor, all labelled by hand.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ld_agent.checks.kept import answering
from ld_agent.checks.learned import ASKED, LABELS, LASTING, Lines, Pair
from ld_agent.datasets import AnnotatedUtterance, load_annotated_utterances, load_dialogues
from ld_agent.languages import ENGLISH
from ld_agent.text import SENTENCE_END, shared_stems
from training.persons import second_person, third_person
from training.reader import as_read, of_annotations, of_passages, of_relations, of_scenes
from training.talks import PEOPLE, people_of
from training.texts import blocks, every_passage, every_talk

SUPPORTED, ENDED, UNSAID = LABELS  # as words
Row = tuple[Pair, str]
MARKS = {"+": SUPPORTED, "*": SUPPORTED, "-": UNSAID, "!": ENDED}
PUBLIC = {"entailment": SUPPORTED, "neutral": UNSAID, "contradiction": ENDED}
NEGATIONS = (
    (r"^I am (?!not)", "I am not "),
    (r"^I have (?!no|never)", "I do not have "),
    (r"^I (like|love|enjoy) ", r"I do not \1 "),
    (r"^I (work|live|go|play|own|want|drive|eat|drink) ", r"I do not \1 "),
    (r"^I don't ", "I "),
    (r"^I do not ", "I "),
    (r"^I can ", "I cannot "),
    (r"^My (.+?) is ", r"My \1 is not "),
)
OTHERS = 1000
"""Utterances of each source that ask for nothing told before."""
TERSE = 0.3
"""Share of questions that are asked without a question mark."""
REMARKED = 2
"""Things told beside each remark."""
ASKED_WITH_DO = (
    "like love live work own want play drive eat drink speak teach study go run bite sing smoke keep sell rent need"
).split()
QUESTIONS = (
    (r"I(?: am|'m) (?!not)(.+)", "Am I {}?"),
    (r"I was (?!not)(.+)", "Was I {}?"),
    (r"I can (?!not)(.+)", "Can I {}?"),
    (r"I have (?!no\b|never|been|had|not|[a-z]+ed\b)(.+)", "Do I have {}?"),
    (r"I had (?!no\b|not|to)(.+)", "Did I have {}?"),
    (rf"I ({'|'.join(ASKED_WITH_DO)}) (.+)", "Do I {} {}?"),
    (r"My (.+?) is (?!not)(.+)", "Is my {} {}?"),
    (r"My (.+?) has (.+)", "Does my {} have {}?"),
)
BEFORE, AFTER = 2, (0, 0, 1, 2)
"""Most lines before the one that is annotated, and numbers of lines after it: what follows does not end what was said."""


def msc_rows(path: Path, rng: random.Random) -> Iterator[Row]:
    """Annotated traits with the lines that tell them, and what these lines do not say."""
    sessions: dict[tuple[str, int], list[AnnotatedUtterance]] = {}
    for said in load_annotated_utterances(path):
        sessions.setdefault((said.episode, said.session), []).append(said)
    for session in sessions.values():
        yield from _session_rows(session, rng)


def _session_rows(said: Sequence[AnnotatedUtterance], rng: random.Random) -> Iterator[Row]:
    names = dict(zip(dict.fromkeys(u.speaker for u in said), rng.sample(PEOPLE, 2), strict=False))
    traits = [(n, trait) for n, u in enumerate(said) for trait in u.traits]
    for n, trait in traits:
        me = names[said[n].speaker]
        other = next(name for name in names.values() if name != me)
        start = max(n - rng.randint(0, BEFORE), 0)
        end = n + 1 + rng.choice(AFTER)
        lines = tuple((names[u.speaker], u.text) for u in said[start:end])
        yield (lines, _form(me, trait, rng)), SUPPORTED
        elsewhere = [t for m, t in traits if not start <= m <= end + 1 and t != trait]
        wrong = [(other, trait)] + [
            (rng.choice((me, me, other)), t) for t in rng.sample(elsewhere, min(1, len(elsewhere)))
        ]
        for who, text in wrong:
            yield (lines, _form(who, text, rng)), UNSAID
        if rng.random() < 0.5 and (opposite := negated(trait)):
            yield (lines, _form(me, opposite, rng)), ENDED
        if rng.random() < 0.3 and (number := re.search(r"\b(two|three|four|five|six|[2-9]|\d\d)\b", trait)):
            changed = rng.choice([w for w in ("two", "three", "five", "seven") if w != number[0]])
            yield (lines, _form(me, trait.replace(number[0], changed, 1), rng)), UNSAID


def negated(trait: str) -> str:
    """The opposite of a trait in the first person; "": none is found."""
    for pattern, instead in NEGATIONS:
        if re.search(pattern, trait):
            return re.sub(pattern, instead, trait, count=1)
    return ""


def _form(name: str, trait: str, rng: random.Random) -> str:
    return f"{name}: {trait}" if rng.random() < 0.6 else third_person(trait, name)


def summary_rows(path: Path, rng: random.Random) -> Iterator[Row]:
    """Sentences of reference summaries of dialogues, with the people exchanged, and those of other dialogues."""
    dialogues = load_dialogues(path)
    for dialogue in dialogues:
        speakers = list(dict.fromkeys(turn.speaker for turn in dialogue.turns))
        names = dict(zip(speakers, rng.sample(PEOPLE, len(speakers)), strict=True))
        lines = tuple((names[turn.speaker], turn.text) for turn in dialogue.turns)
        for sentence in SENTENCE_END.split(dialogue.summaries[0]):
            told = _renamed(sentence, names)
            yield (lines, told), SUPPORTED
            exchanged = _renamed(sentence, dict(zip(speakers, [names[s] for s in speakers[::-1]], strict=True)))
            if exchanged != told and len(set(re.findall(r"#Person\d#", sentence))) == 1:
                yield (lines, exchanged), UNSAID
        other = rng.choice(dialogues)
        if other is not dialogue:
            yield (lines, _renamed(rng.choice(SENTENCE_END.split(other.summaries[0])), names)), UNSAID


def _renamed(text: str, names: dict[str, str]) -> str:
    for tag, name in names.items():
        text = text.replace(tag, name)
    return text


def public_rows(path: Path) -> Iterator[Row]:
    """Pairs of SICK (with a header) or of DNLI (dialogue, statement, label)."""
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            label = PUBLIC.get(cells[-1].strip().casefold())
            if label and len(cells) == 4:
                yield ((("", cells[1]),), cells[2]), label
            elif label:
                turns = re.findall(r"<([A-Z])>\s*(.*?)\s*(?=<[A-Z]>|$)", cells[0])
                yield (tuple(turns), cells[1]), label


def answer_rows(sources: Sequence[Path], rng: random.Random) -> Iterator[Row]:
    """The reader's questions with their answers: supported by the passage that has one, and unsaid by the others."""
    people = people_of(sources)
    answers: dict[str, str] = {}
    others: dict[str, str] = {}
    for one in (*of_passages(rng), *of_scenes(rng), *of_relations(rng, people), *of_annotations(rng, people)):
        if one.answer:
            answers[one.question] = one.answer
            yield (one.passage.lines, answering(one.passage.asker, one.question, one.answer)), SUPPORTED
            if (wrong := others.get(one.of, one.answer)) != one.answer and rng.random() < 0.3:
                yield (one.passage.lines, answering(one.passage.asker, one.question, wrong)), UNSAID
            others[one.of] = one.answer
        elif given := answers.get(one.question) or others.get(one.of):
            yield (one.passage.lines, answering(one.passage.asker, one.question, given)), UNSAID


def exchanged_rows(rng: random.Random) -> Iterator[Row]:
    """What a passage says of one of two people: supported, and unsaid when the same is asked of the other."""
    for right, one in pairwise(of_passages(rng)):
        if one.tempting and right.answer:
            yield (right.passage.lines, answering(right.passage.asker, right.question, right.answer)), SUPPORTED
            yield (one.passage.lines, answering(one.passage.asker, one.question, one.tempting)), UNSAID


def remark_rows(path: Path, written: Sequence[Row], rng: random.Random) -> Iterator[Row]:
    """What a person told, beside something that the person says later in passing: "Off to bed!" neither supports nor ends it.

    Args:
        path: small talk; who begins is a person.
    """
    claims = (claim for (_, claim), label in written if label == SUPPORTED)
    told = [claim for claim in claims if claim.partition(": ")[2].startswith(("I ", "I'm ", "I've ", "My "))]
    for talk in every_talk(path):
        for line in talk.heard:
            for claim in rng.sample(told, REMARKED):
                yield (((claim.partition(": ")[0], line),), claim), UNSAID


def yes_or_no_rows(rows: Sequence[Row], rng: random.Random) -> Iterator[Row]:
    """Claims in the first person as questions of the person, answered with yes and no."""
    for (lines, claim), label in rows:
        person, _, trait = claim.partition(": ")
        if not trait or (asked := question_of(trait)) is None:
            continue
        told = second_person(trait[0].lower() + trait[1:])
        yes = rng.choice(("Yes.", "Yes, you told me so.", f"Yes, {told}"))
        no = rng.choice(("No.", "No, not as far as you told me.", "No, that is not so."))
        yield (lines, answering(person, asked, yes)), label
        yield (lines, answering(person, asked, no)), {SUPPORTED: ENDED, ENDED: SUPPORTED, UNSAID: UNSAID}[label]


def question_of(trait: str) -> str | None:
    """A trait in the first person as its speaker's question; None: it has another form."""
    for pattern, asked in QUESTIONS:
        if match := re.fullmatch(pattern, trait.strip().rstrip(".!")):
            return asked.format(*match.groups())
    return None


def lasting_rows(path: Path, question: Lines = LASTING) -> Iterator[Row]:
    """Texts marked + or - as the answer to a question: traits, whether they still matter in a month."""
    for line in filter(None, map(str.strip, path.read_text(encoding="utf-8").splitlines())):
        yield (question, line[2:]), MARKS[line[0]]


def told_rows(path: Path) -> Iterator[Row]:
    """Sentences of chats, and whether they last. What does stands under its line ("= I have a dog. | I live in Oslo."): of such a
    line, the sentences that have most of its words."""
    for lines in blocks(path):
        for line, below in zip(lines, [*lines[1:], ""], strict=False):
            if line.startswith("= "):
                continue
            sentences = [s.strip() for s in SENTENCE_END.split(line.partition(": ")[2]) if len(s.split()) > 2]
            traits = below[2:].split(" | ") if below.startswith("= ") else []
            shares = [shared_stems(trait, sentences, ENGLISH.reading) for trait in traits]
            telling = {sentences[of_trait.index(max(of_trait))] for of_trait in shares if sentences}
            for sentence in sentences:
                if sentence in telling or not traits:
                    yield (LASTING, sentence), SUPPORTED if traits else UNSAID


def asked_rows(path: Path, sources: Sequence[Path], rng: random.Random) -> Iterator[Row]:
    """Utterances that ask for what was told (marked +, or questions of passages and claims), and others (marked -, small talk, or
    MSC's lines and traits); some as people type them, without capitals and question marks."""
    yield from lasting_rows(path, ASKED)
    claims = (line for file in path.parent.glob("*.txt") for block in blocks(file) for line in block)
    of_claims = sorted({question for claim in claims if (question := _question(claim))})
    told_in = [question for told in every_passage() for _, question, _ in told.asked]
    for question in (*told_in, *rng.sample(of_claims, min(len(of_claims), 2 * OTHERS))):
        yield (ASKED, question.rstrip("?").lower() if rng.random() < TERSE else question), SUPPORTED
    small = [text for talk in every_talk() for text in talk.heard if "?" not in text]
    yield from (((ASKED, text), UNSAID) for text in rng.sample(small, 2 * OTHERS))
    for source in sources:
        said = load_annotated_utterances(source)
        for texts in ([u.text for u in said], [trait for u in said for trait in u.traits]):
            yield from (((ASKED, text), UNSAID) for text in rng.sample(texts, min(len(texts), OTHERS)))


def claim_rows(path: Path, lasting: bool = False) -> Iterator[Row]:
    """Blocks of lines and of claims marked + (supported), - (unsaid) or ! (ended).

    Args:
        lasting: of claims that the extractor made, + also says that a true one lasts, * that it does not.
    """
    for block in blocks(path):
        lines: list[tuple[str, str]] = []
        for line in map(str.strip, block):
            mark, claim = line[0], line[2:]
            if mark not in MARKS or line[1] != " ":
                speaker, _, text = line.partition(": ")
                lines.append((speaker, text))
                continue
            if read := as_read(lines, _question(claim)):
                yield (read, claim), MARKS[mark]
            if lasting and mark in "+*":
                yield (LASTING, claim.partition(": ")[2]), SUPPORTED if mark == "+" else UNSAID


def _question(claim: str) -> str:
    """The question of a claim that is an answer to one; "": it is none."""
    return claim.partition(" asks: ")[2].partition(" Answer: ")[0]
