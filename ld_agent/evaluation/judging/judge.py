"""A language model as judge of replies, through any backbone.

Implements the judgements of Rsum (sections 5.2 and 6.2, appendix B: a rating from 1 to 100 on one aspect, a choice of four
options between two replies) and of ECM (section 5.2, appendix B: a score from 0 to 2, good/same/bad, multiple choice), one
entry of `JUDGEMENTS` each. A judge's answer without a verdict is counted as unparsed, never guessed. Knows nothing of runs,
files or tables.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase

from ld_agent.backbones.base import Message, Request
from ld_agent.errors import BackboneError, InputError
from ld_agent.languages import ENGLISH
from ld_agent.steps import Complete

ASPECTS = {
    "engagingness": "does it hold the other's interest, and make them want to go on talking?",
    "coherence": "does it follow from what was just said, and is it clear and natural?",
    "consistency": "does it agree with what was said before and with what is known of the speakers?",
}
"""The aspects that Rsum rates in Table 4, with their explanations for the judge."""
RATABLE = ASPECTS | {"fluency": "does it read like what a person would naturally say, varied and without repetition?"}
"""All aspects that a judge can be asked for; fluency is of Rsum's Table B.16."""

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
LABEL = r"(?:(?:the |my )?(?:best |final )?(?:score|rating|verdict|option|choice|answer|digit|letter|number)\s*(?:is\b|:)?\s*)?"
WHOLE_NUMBER = re.compile(
    rf"[^\w-]*{LABEL}[^\w-]*(\d{{1,3}})(?![\d.,]*\d)(?:\s*/\s*\d+)?\s*(?:$|[.)\n:*\]]|-\s)", re.IGNORECASE
)
LETTER = re.compile(rf"\W*{LABEL}\W*\b([A-Z])\b\W*(?:$|[.)\n:*\]]|is (?:the )?(?:better|best|closest))", re.IGNORECASE)


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


Prompt = Callable[[Case, Sequence[str]], tuple[Message, ...]]
Parse = Callable[[str, Sequence[str]], int | str | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """One kind of judgement.

    Attributes:
        prompt: renders a case with its replies in the order shown.
        parse: reads a verdict from an answer, given the systems in the order shown; None: it states none.
        candidates: the fewest and the most replies of a case.
        needs: the parts of a case without which it cannot be judged.
        tokens: maximum length of an answer.
        orders: how the replies of two systems are shown: once as given, in "both" orders, or "shuffled".
    """

    prompt: Prompt
    parse: Parse
    candidates: tuple[int, int] = (1, 1)
    needs: tuple[str, ...] = ()
    tokens: int = BARE
    orders: str = "given"

    @property
    def requests(self) -> int:
        """Number of requests for a case."""
        return 2 if self.orders == "both" else 1


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The judge's verdicts, one per case.

    Attributes:
        values: the verdicts; None: an answer stated none.
        answers: the judge's answers to each case, one text per request.
    """

    values: tuple[int | str | None, ...]
    answers: tuple[tuple[str, ...], ...]

    @property
    def parsed(self) -> tuple[int | str, ...]:
        return tuple(value for value in self.values if value is not None)

    @property
    def unparsed(self) -> int:
        """Number of cases without a verdict."""
        return len(self.values) - len(self.parsed)

    @property
    def shares(self) -> dict[int | str, float]:
        """Share of each verdict among all verdicts, in [0, 1]; most frequent first."""
        counts = Counter(self.parsed)
        return {value: count / counts.total() for value, count in counts.most_common()}


def judge(
    kind: str, cases: Sequence[Case], complete: Complete, *, aspect: str = "", seed: int = 0, width: int = 32
) -> Verdicts:
    """Ask a language model for its verdicts on cases.

    Args:
        kind: a key of `JUDGEMENTS`.
        complete: answers requests, such as a backbone's ``generate``, at most ``width`` at a time; the temperature is 0.
        aspect: of a rating, a key of `RATABLE`.
        seed: of shuffled positions; the order of a case depends only on it and the case's id.

    Returns:
        numbers, or the names of systems that were chosen. In both orders: 1, the first candidate is better; -1, the
        second; 0, the two orders disagree; no verdict if either answer states none.

    Raises:
        InputError: a case cannot be judged (an empty reply, no reference, the wrong number of candidates).
        BackboneError: the model failed.
    """
    judgement = rating(aspect) if kind == "rate" else JUDGEMENTS[kind]
    _check(judgement, cases)
    shown = [(case, names) for case in cases for names in _orders(judgement, case, seed)]
    prompts = [judgement.prompt(case, [case.candidates[name] for name in names]) for case, names in shown]
    answers: list[str] = []
    for start in range(0, len(prompts), width):
        batch = [Request(messages, MODULE, judgement.tokens) for messages in prompts[start : start + width]]
        completions = complete(batch)
        if len(completions) != len(batch):
            raise BackboneError(f"the judge returned {len(completions)} answers to {len(batch)} requests")
        answers += [completion.text for completion in completions]
    values = [judgement.parse(answer, names) for answer, (_, names) in zip(answers, shown, strict=True)]
    if judgement.orders != "both":
        return Verdicts(tuple(values), tuple((answer,) for answer in answers))
    pairs = zip(values[::2], values[1::2], strict=True)
    return Verdicts(tuple(_agreed(*pair) for pair in pairs), tuple(zip(answers[::2], answers[1::2], strict=True)))


def whole_number(answer: str, allowed: Container[int]) -> int | None:
    """Parse an answer's verdict: the number in double square brackets, or else at its start.

    None if the answer states none, several different ones, or one that is not allowed.
    """
    marked = {text for text in BRACKETS.findall(answer) if text.isdecimal()}
    if not marked:
        start = WHOLE_NUMBER.match(answer)
        marked = {start[1]} if start else set()
    numbers = {int(text) for text in marked}
    return numbers.pop() if len(numbers) == 1 and all(number in allowed for number in numbers) else None


def letter(answer: str, allowed: str) -> str | None:
    """Parse an answer's verdict as a letter, as `whole_number` does for numbers."""
    marked = {text.upper() for text in BRACKETS.findall(answer) if len(text) == 1 and text.isalpha()}
    if not marked:
        start = LETTER.match(answer)
        marked = {start[1].upper()} if start else set()
    return marked.pop() if len(marked) == 1 and marked <= set(allowed) else None


def shuffled(case: Case, seed: int) -> list[str]:
    """Return the names of a case's candidates in the order shown to the judge."""
    names = sorted(case.candidates)
    random.Random(f"{seed}:{case.id}").shuffle(names)  # a text seed is stable across machines
    return names


def rating(aspect: str) -> Judgement:
    """The judgement of one aspect, from 1 to 100 (Rsum, Table 4)."""
    if aspect not in RATABLE:
        raise InputError(f"aspect {aspect!r} is unknown; the aspects are {', '.join(RATABLE)}")

    def prompt(case: Case, replies: Sequence[str]) -> tuple[Message, ...]:
        return ENGLISH.prompt("judge_rating").render(
            personas=_known(case), lines=case.lines, reply=replies[0], aspect=aspect, meaning=RATABLE[aspect]
        )

    return Judgement(prompt, lambda answer, names: whole_number(answer, RATINGS), tokens=REASONED)


def _pairwise(case: Case, replies: Sequence[str]) -> tuple[Message, ...]:
    first, second = replies
    return ENGLISH.prompt("judge_pairwise").render(personas=_known(case), lines=case.lines, first=first, second=second)


def _scored(case: Case, replies: Sequence[str]) -> tuple[Message, ...]:
    return ENGLISH.prompt("judge_score").render(reference=case.reference, reply=replies[0])


def _checked(case: Case, replies: Sequence[str]) -> tuple[Message, ...]:
    return ENGLISH.prompt("judge_error").render(lines=case.lines, reference=case.reference, reply=replies[0])


def _choice(case: Case, replies: Sequence[str]) -> tuple[Message, ...]:
    letters = ascii_uppercase[: len(replies)]
    return ENGLISH.prompt("judge_compare").render(
        question=case.question,
        reference=case.reference,
        candidates=list(zip(letters, replies, strict=True)),
        letters=f"{', '.join(letters[:-1])} or {letters[-1]}",
    )


def _lead(answer: str, names: Sequence[str]) -> int | None:
    option = whole_number(answer, PREFERENCES)
    return None if option is None else PREFERENCES[option]


def _closer(answer: str, names: Sequence[str]) -> int | None:
    return {"A": 1, "B": -1, None: None}[letter(answer, "AB")]


def _chosen(answer: str, names: Sequence[str]) -> str | None:
    place = letter(answer, ascii_uppercase[: len(names)])
    return None if place is None else names[ascii_uppercase.index(place)]


JUDGEMENTS: Mapping[str, Judgement] = {
    "rate": rating("coherence"),
    "score": Judgement(_scored, lambda answer, names: whole_number(answer, SCORES), needs=("reference",)),
    "errors": Judgement(_checked, lambda answer, names: whole_number(answer, (0, *ERRORS)), needs=("reference",)),
    "prefer": Judgement(_pairwise, _lead, (2, 2), tokens=REASONED, orders="both"),
    "compare": Judgement(_choice, _closer, (2, 2), ("reference", "question"), orders="both"),
    "choose": Judgement(_choice, _chosen, (2, MOST), ("reference", "question"), orders="shuffled"),
}
"""By kind; of ``rate``, whose prompt names an aspect, an example.

``rate``, ``prefer``, ``errors``: Rsum, Tables 4 and 6 and Figure 4. ``score`` (0 to 2, how much of the reference a reply
contains), ``compare`` and ``choose`` (which answer is closest to the reference): ECM, appendix B.
"""


def _orders(judgement: Judgement, case: Case, seed: int) -> list[list[str]]:
    names = list(case.candidates)
    if judgement.orders == "shuffled":
        return [shuffled(case, seed)]
    return [names, names[::-1]] if judgement.orders == "both" else [names]


def _agreed(given: int | str | None, exchanged: int | str | None) -> int | None:
    """Combine the leads of the reply shown first, in the given order and exchanged."""
    if not isinstance(given, int) or not isinstance(exchanged, int):
        return None
    return 0 if (given > 0) == (exchanged > 0) else 1 if given > 0 else -1


def _known(case: Case) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, traits) for name, traits in case.personas.items() if traits]


def _check(judgement: Judgement, cases: Sequence[Case]) -> None:
    fewest, most = judgement.candidates
    if not cases:
        raise InputError("there is nothing to judge; give at least one case")
    repeated = [name for name, times in Counter(case.id for case in cases).items() if times > 1]
    if repeated:
        raise InputError(f"two cases have the id {repeated[0]!r}; ids must be unique")
    for case in cases:
        if not fewest <= len(case.candidates) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise InputError(f"case {case.id!r} has {len(case.candidates)} candidates; this judgement takes {wanted}")
        for name, text in case.candidates.items():
            if not text.strip():
                raise InputError(f"case {case.id!r}: the reply of {name!r} is empty; leave the case out or fix the run")
        for part in judgement.needs:
            if not getattr(case, part).strip():
                raise InputError(f"case {case.id!r} has no {part}, which this judgement needs")
