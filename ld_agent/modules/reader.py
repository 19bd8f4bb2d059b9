"""The reader: answers a question about the past from one passage, or finds that the passage does not say; and which of the
answers from several passages to give.

A small model overlooks a fact among the twenty lines of a generator's prompt, or mistakes a neighbouring fact for it. With one
passage at a time, both happen less often. Of the answers, the one that passages agree on is given, or the timely one: "Where do I
work?" asks for the newest, "Where did I work before?" for the oldest. Knows no memory and no ranking.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ld_agent.backbones.base import Message, Request
from ld_agent.checks.statements import asks
from ld_agent.languages.reading import Reading
from ld_agent.modules.base import Models
from ld_agent.text import shared_stems, stems_of
from ld_agent.types import Utterance

_NOT_SAID = re.compile(r"\bNOT[_ ]?SAID\b", re.IGNORECASE)
NEXT = 0.9
"""The weight of a passage, relative to the one ranked before it. Fitted to 106 questions of ``data/samples/questions.jsonl``,
as is `OTHER`."""
FEWEST_ASKED = 3
"""Words before "before", "used to" and the like that ask by themselves."""
OTHER = 0.7
"""The weight that another passage with the same answer adds, as a share of its own."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Asks the ``reader`` module."""

    models: Models

    def prompt_for(self, question: Utterance, passage: Sequence[Utterance]) -> tuple[Message, ...]:
        """Render a passage, oldest line first, and the question about it."""
        lines = [(said.speaker, said.text) for said in passage]
        return self.models.language.prompt("reader").render(asker=question.speaker, question=question.text, lines=lines)

    def request(self, question: Utterance, passage: Sequence[Utterance]) -> Request:
        """Ask the question of a passage."""
        return self.models.request("reader", self.prompt_for(question, passage))


def answer_in(text: str) -> str:
    """Return the answer in what the reader wrote; "" if the passage does not say."""
    return "" if _NOT_SAID.search(text) else text.strip()


def agreed(question: str, asker: str, answers: Sequence[str], reading: Reading) -> int:
    """The place of the answer that has the most weight: its passage's own, and that of others with the same answer.

    Args:
        answers: at least one, those of better passages first.

    >>> from ld_agent.languages import ENGLISH
    >>> agreed("What did I break?", "Petra", ["You slipped on a peel.", "You broke your ankle.", "Your ankle."], ENGLISH.reading)
    1
    """
    known = stems_of(question, reading) | stems_of(asker, reading)
    news = [stems_of(answer, reading) - known for answer in answers]
    weights = [NEXT**place for place in range(len(answers))]

    def weight(place: int) -> float:
        same = (w for other, w in enumerate(weights) if other != place and news[other] & news[place])
        return weights[place] + OTHER * sum(same)

    return max(range(len(answers)), key=lambda place: (weight(place), -place))


def holding(
    question: str, asker: str, answers: Sequence[str], ended: Sequence[tuple[str, bool]], reading: Reading
) -> list[int]:
    """The places of the answers that hold at the time the question is about; if none does, all that ever held. Of what has
    changed, those are about then that say what has ended.

    Args:
        ended: of what each answer's line told, what later words have ended, "" for nothing; and whether it ever held.

    >>> from ld_agent.languages import ENGLISH
    >>> answers, ended = ["You live in Bristol.", "You live in Bath."], [("I just moved to Bristol.", True), ("", True)]
    >>> holding("Where do I live?", "Maya", answers, ended, ENGLISH.reading)
    [1]
    """
    ever = [n for n, (_, held) in enumerate(ended) if held]
    if reading.patterns["asks_former"].search(question):
        over = _say_what_ended(question, asker, answers, ended, reading)
        if former := [n for n in ever if over[n]]:
            return former
    held = [n for n, gone in enumerate(outdated(question, asker, answers, ended, reading)) if not gone]
    return held or ever


def outdated(
    question: str, asker: str, answers: Sequence[str], ended: Sequence[tuple[str, bool]], reading: Reading
) -> list[bool]:
    """Whether each answer says what its line told and later words have ended, unless the question is about then; as `holding`."""
    then, over = about_then(question, reading), _say_what_ended(question, asker, answers, ended, reading)
    return [says and not (then and ever) for says, (_, ever) in zip(over, ended, strict=True)]


def _say_what_ended(
    question: str, asker: str, answers: Sequence[str], ended: Sequence[tuple[str, bool]], reading: Reading
) -> list[bool]:
    """Whether each answer has words of what its line told and later words have ended, other than the question's."""
    asked = stems_of(question, reading) | stems_of(asker, reading)
    return [
        bool((stems_of(answer, reading) - asked) & stems_of(what, reading))
        for answer, (what, _) in zip(answers, ended, strict=True)
    ]


def about_then(question: str, reading: Reading) -> bool:
    """Whether a question is about what was: "Where did I live before?"."""
    return any(reading.patterns[name].search(question) for name in ("asks_former", "asks_past"))


def as_then(question: str, reading: Reading) -> str:
    """A question about what has changed as it would have been asked then; any other stays as it is.

    >>> from ld_agent.languages import ENGLISH
    >>> as_then("What was my job before I got into dispatching?", ENGLISH.reading)
    'What was my job'
    """
    former = reading.patterns["asks_former"].search(question)
    if former is None:
        return question
    before, after = question[: former.start()].strip(), question[former.end() :].strip()
    return before if len(before.split()) >= FEWEST_ASKED else after


def timely(question: str, answers: Sequence[str], sessions: Sequence[int], reading: Reading) -> int:
    """The place of the answer that holds at the time the question is about.

    Of what was, as in "Where did we meet?", the first answer; unless another names something new, the same goes for what is.

    Args:
        answers: at least one, the most likely first; all are about the same thing.
        sessions: the session in which each was said.

    >>> from ld_agent.languages import ENGLISH
    >>> timely("What car do I drive?", ["You drive a Volvo.", "You drive a Fiat."], [1, 2], ENGLISH.reading)
    1
    >>> timely("What car did I drive before?", ["You drive a Fiat.", "You drove a Volvo."], [2, 1], ENGLISH.reading)
    1
    """
    former = bool(reading.patterns["asks_former"].search(question))
    if reading.patterns["asks_past"].search(question) and not former:
        return 0
    places = range(len(answers))
    wanted = min(places, key=lambda n: (sessions[n] if former else -sessions[n], n))
    news = stems_of(answers[wanted], reading) - stems_of(answers[0], reading) - stems_of(question, reading)
    return wanted if news else 0


def source_of(passage: Sequence[Utterance], answer: str, reading: Reading) -> Utterance:
    """The line of a passage, by who said its last, that says most of an answer and does not only ask; of several, the last."""
    lines = [said for said in reversed(passage) if said.speaker == passage[-1].speaker]
    shared = shared_stems(answer, [said.text for said in lines], reading)
    best = lines[shared.index(max(shared))]
    if not asks(best.text):
        return best
    stating = [n for n, said in enumerate(lines) if not asks(said.text)]
    return lines[max(stating, key=lambda n: (shared[n], -n))] if stating else best


def read_in(passage: Sequence[Utterance], answer: str, reading: Reading) -> str:
    """The note of the line that says an answer: its source, unless that asks and somebody states as much of it."""
    texts = [source_of(passage, answer, reading).text, *(said.text for said in passage if not asks(said.text))]
    shared = shared_stems(answer, texts, reading)
    return f"read in: {texts[-1 - shared[::-1].index(max(shared))] if asks(texts[0]) else texts[0]}"
