"""A language model as judge of replies, through any backbone.

Implements the judgements of Rsum (sections 5.2 and 6.2, appendix B: a rating from 1 to 100 on one aspect, a choice of four
options between two replies) and of ECM (section 5.2, appendix B: a score from 0 to 2, good/same/bad, multiple choice), one
entry of `JUDGEMENTS` each. A judge's answer without a verdict is counted as unparsed, never guessed. Knows nothing of runs,
files or tables.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from string import ascii_uppercase

from ld_agent.backbones.base import Message, Request
from ld_agent.errors import InputError
from ld_agent.languages import ENGLISH
from ld_agent.steps import Complete

ASPECTS = {
    "engagingness": "does it hold the other's interest, and make them want to go on talking?",
    "coherence": "does it follow from what was just said, and is it clear and natural?",
    "consistency": "does it agree with what was said before and with what is known of the speakers?",
}
"""The aspects that Rsum rates in Table 4, with their explanations for the judge."""

RATINGS = range(1, 101)
SCORES = range(3)
ERRORS = {1: "fabricated", 2: "relationship", 3: "missing"}
"""What may be wrong with a statement of a memory (Rsum, Table 6); 0: nothing."""
PREFERENCES = {1: 2, 2: 1, 3: -1, 4: -2}
"""Lead of the first reply, by option number of the pairwise judgement."""
MOST = len(ascii_uppercase)

MODULE = "judge"
REASONED, BARE = 160, 8  # new tokens of a verdict with and without a reason
BRACKETS = re.compile(r"\[\[\s*(\w+)\s*\]\]")
LABEL = (
    r"(?:(?:the |my )?(?:best |final )?(?:score|rating|verdict|option|choice|answer|digit|letter|number)"
    r"\s*+(?:(?:is\b|:)\s*+)?)?"
)
WHOLE_NUMBER = re.compile(
    rf"[^\w-]{{0,40}}+{LABEL}[^\w-]{{0,40}}+(\d{{1,3}})(?![\d.,]{{0,40}}\d)(?:\s*/\s*\d+)?\s*(?:$|[.)\n:*\]]|-\s)",
    re.IGNORECASE,
)
LETTER = re.compile(
    rf"\W{{0,40}}+{LABEL}\W{{0,40}}+\b([A-Z])\b\W{{0,40}}(?:$|[.)\n:*\]]|is (?:the )?(?:better|best|closest))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One case to judge.

    Attributes:
        id: name of the case in messages and files.
        candidates: replies by system name.
        lines: (speaker, text) of the conversation before the reply, oldest first.
        personas: known facts about each speaker.
        question: the utterance that the candidates answer.
        reference: the recorded or expected reply.
    """

    id: str
    candidates: Mapping[str, str]
    lines: tuple[tuple[str, str], ...] = ()
    personas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    question: str = ""
    reference: str = ""


Value = int | str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a case.

    Attributes:
        key: the case's id.
        aspect: "" except for ratings.
        value: a number, or the name of a system that was chosen; None: no verdict was stated.
        answers: the judge's, one per request.
    """

    key: str
    aspect: str
    value: Value
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One kind of judgement.

    Attributes:
        prompt: the name of its prompt.
        parse: reads a verdict from an answer, given the systems in the order shown; None: it states none.
        candidates: the fewest and the most replies of a case.
        needs: the parts of a case without which it cannot be judged.
        tokens: maximum length of an answer.
        orders: how the replies of two systems are shown: once as given, in "both" orders, or "shuffled".
        aspects: keys of `ASPECTS`, each judged by itself; "": the reply as a whole.
    """

    prompt: str
    parse: Callable[[str, Sequence[str]], Value]
    candidates: tuple[int, int] = (1, 1)
    needs: tuple[str, ...] = ()
    tokens: int = BARE
    orders: str = "given"
    aspects: tuple[str, ...] = ("",)

    @property
    def requests(self) -> int:
        """Number of requests for a case."""
        return (2 if self.orders == "both" else 1) * len(self.aspects)


def judge(kind: str, cases: Sequence[Case], complete: Complete, *, seed: int = 0, width: int = 32) -> list[Verdict]:
    """Ask a language model for its verdicts on cases.

    Args:
        kind: a key of `JUDGEMENTS`.
        complete: answers requests, such as a backbone's ``generate``, at most ``width`` at a time; the temperature is 0.
        seed: of shuffled positions; the order of a case depends only on it and the case's id.

    Returns:
        the verdicts, aspect by aspect. In both orders: 1, the first candidate is better; -1, the second; 0, the two orders
        disagree; None if either answer states none.
    """
    judgement = JUDGEMENTS[kind]
    _check(judgement, cases)
    rated = list(product(judgement.aspects, cases))
    asked = [(aspect, case, names) for aspect, case in rated for names in _orders(judgement, case, seed)]
    answers: list[str] = []
    for start in range(0, len(asked), width):
        prompts = (_prompt(judgement, *one) for one in asked[start : start + width])
        answers += [one.text for one in complete([Request(prompt, MODULE, judgement.tokens) for prompt in prompts])]
    verdicts = []
    for place, (aspect, case) in enumerate(rated):
        own = slice(place * len(asked) // len(rated), (place + 1) * len(asked) // len(rated))
        values = [judgement.parse(text, names) for text, (*_, names) in zip(answers[own], asked[own], strict=True)]
        value = _agreed(*values) if judgement.orders == "both" else values[0]
        verdicts.append(Verdict(case.id, aspect, value, tuple(answers[own])))
    return verdicts


def whole_number(answer: str, allowed: Container[int]) -> int | None:
    """Parse an answer's verdict: the number in double square brackets, or else at its start.

    None if the answer states none, several different ones, or one that is not allowed.
    """
    text = _stated(answer, str.isdecimal, WHOLE_NUMBER)
    return int(text) if text and int(text) in allowed else None


def letter(answer: str, allowed: str) -> str | None:
    """Parse an answer's verdict as a letter, as `whole_number` does for numbers."""
    text = _stated(answer, lambda marked: len(marked) == 1 and marked.isalpha(), LETTER)
    return text if text and text in allowed else None


def _stated(answer: str, fits: Callable[[str], bool], start: re.Pattern[str]) -> str | None:
    marked = {text.upper() for text in BRACKETS.findall(answer) if fits(text)}
    if not marked and (match := start.match(answer)):
        marked = {match[1].upper()}
    return marked.pop() if len(marked) == 1 else None


def shuffled(case: Case, seed: int) -> list[str]:
    """Return the names of a case's candidates in the order shown to the judge."""
    names = sorted(case.candidates)
    random.Random(f"{seed}:{case.id}").shuffle(names)  # a text seed is stable across machines
    return names


def _prompt(judgement: Judgement, aspect: str, case: Case, names: Sequence[str]) -> tuple[Message, ...]:
    replies, letters = [case.candidates[name] for name in names], ascii_uppercase[: len(names)]
    return ENGLISH.prompt(judgement.prompt).render(
        personas=[(name, traits) for name, traits in case.personas.items() if traits],
        lines=case.lines,
        question=case.question,
        reference=case.reference,
        reply=replies[0],
        first=replies[0],
        second=replies[-1],
        candidates=list(zip(letters, replies, strict=True)),
        letters=f"{', '.join(letters[:-1])} or {letters[-1]}",
        aspect=aspect,
        meaning=ASPECTS.get(aspect, ""),
    )


def _number(allowed: Container[int]) -> Callable[[str, Sequence[str]], Value]:
    return lambda answer, names: whole_number(answer, allowed)


def _lead(answer: str, names: Sequence[str]) -> int | None:
    return PREFERENCES.get(whole_number(answer, PREFERENCES) or 0)


def _closer(answer: str, names: Sequence[str]) -> int | None:
    return {"A": 1, "B": -1}.get(letter(answer, "AB") or "")


def _chosen(answer: str, names: Sequence[str]) -> str | None:
    return dict(zip(ascii_uppercase, names, strict=False)).get(letter(answer, ascii_uppercase) or "")


JUDGEMENTS: Mapping[str, Judgement] = {
    "rate": Judgement("judge_rating", _number(RATINGS), tokens=REASONED, aspects=tuple(ASPECTS)),
    "score": Judgement("judge_score", _number(SCORES), needs=("reference",)),
    "errors": Judgement("judge_error", _number((0, *ERRORS)), needs=("reference",)),
    "prefer": Judgement("judge_pairwise", _lead, (2, 2), tokens=REASONED, orders="both"),
    "compare": Judgement("judge_compare", _closer, (2, 2), ("reference", "question"), orders="both"),
    "choose": Judgement("judge_compare", _chosen, (2, MOST), ("reference", "question"), orders="shuffled"),
}
"""By kind.

``rate``, ``prefer``, ``errors``: Rsum, Tables 4 and 6 and Figure 4. ``score`` (0 to 2, how much of the reference a reply
contains), ``compare`` and ``choose`` (which answer is closest to the reference): ECM, appendix B.
"""


def _orders(judgement: Judgement, case: Case, seed: int) -> list[list[str]]:
    names = list(case.candidates)
    if judgement.orders == "shuffled":
        return [shuffled(case, seed)]
    return [names, names[::-1]] if judgement.orders == "both" else [names]


def _agreed(given: Value, exchanged: Value) -> int | None:
    """Combine the leads of the reply shown first, in the given order and exchanged."""
    if not isinstance(given, int) or not isinstance(exchanged, int):
        return None
    return 0 if (given > 0) == (exchanged > 0) else 1 if given > 0 else -1


def _check(judgement: Judgement, cases: Sequence[Case]) -> None:
    if not cases:
        raise InputError("there is nothing to judge; give at least one case")
    fewest, most = judgement.candidates
    for case in cases:
        if not fewest <= len(case.candidates) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise InputError(f"case {case.id!r} has {len(case.candidates)} candidates; this judgement takes {wanted}")
        for part in judgement.needs:
            if not getattr(case, part).strip():
                raise InputError(f"case {case.id!r} has no {part}, which this judgement needs")
