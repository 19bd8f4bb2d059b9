"""A language model as judge of replies, through any backbone.

Implements the judgements of Rsum (sections 5.2 and 6.2, appendix B: a rating from 1 to 100 on one aspect, a choice of four
options between two replies) and of ECM (section 5.2, appendix B: a score from 0 to 2, good/same/bad, multiple choice). A
judge's answer without a verdict is counted as unparsed, never guessed. Knows nothing of runs, files or tables.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Generic, TypeVar

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.errors import BackboneError, InputError
from ld_agent.languages import ENGLISH
from ld_agent.steps import Complete, Steps, run

T = TypeVar("T", int, str)

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


@dataclass(frozen=True, slots=True)
class Verdicts(Generic[T]):
    """The judge's verdicts, one per case.

    Attributes:
        values: the verdicts; None: an answer stated none.
        answers: the judge's answers to each case, one text per request.
    """

    values: tuple[T | None, ...]
    answers: tuple[tuple[str, ...], ...]

    @property
    def parsed(self) -> tuple[T, ...]:
        return tuple(value for value in self.values if value is not None)

    @property
    def unparsed(self) -> int:
        """Number of cases without a verdict."""
        return len(self.values) - len(self.parsed)

    @property
    def shares(self) -> dict[T, float]:
        """Share of each verdict among all verdicts, in [0, 1]; most frequent first."""
        counts = Counter(self.parsed)
        return {value: count / counts.total() for value, count in counts.most_common()}


class Judge:
    """Ask a language model for verdicts on lists of cases.

    Args:
        complete: answers requests, such as a backbone's ``generate``.
        width: maximum number of requests per call of ``complete``.
        temperature: sampling temperature of the judge; the papers use 0.

    The methods raise InputError for a case that cannot be judged (an empty reply, no reference, the wrong number of
    candidates) and BackboneError if the model fails.
    """

    def __init__(self, complete: Complete, *, width: int = 32, temperature: float = 0.0) -> None:
        if width < 1:
            raise InputError(f"width={width}; must be at least 1 request per call")
        self._complete, self._width, self._temperature = complete, width, temperature

    def rate(self, cases: Sequence[Case], aspect: str) -> Verdicts[int]:
        """Rate one reply per case from 1 to 100 on an aspect (Rsum, Table 4).

        Args:
            aspect: a key of `RATABLE`.
        """
        if aspect not in RATABLE:
            raise InputError(f"aspect {aspect!r} is unknown; the aspects are {', '.join(RATABLE)}")
        _check(cases, candidates=(1, 1))
        rendered = [
            ENGLISH.prompt("judge_rating").render(
                personas=_known(case), lines=case.lines, reply=reply, aspect=aspect, meaning=RATABLE[aspect]
            )
            for case in cases
            for reply in case.candidates.values()
        ]
        answers = self._ask(rendered, REASONED)
        return Verdicts(tuple(whole_number(a, RATINGS) for a in answers), tuple((a,) for a in answers))

    def prefer(self, cases: Sequence[Case]) -> Verdicts[int]:
        """Choose between two replies by four options, in both orders (Rsum, section 6.2, Figure 4).

        Returns:
            1: the first candidate is better; -1: the second; 0: the two orders disagree. A case has no verdict if
            either answer states no option.
        """
        _check(cases, candidates=(2, 2))
        rendered = []
        for case in cases:
            first, second = case.candidates.values()
            for one, other in ((first, second), (second, first)):
                known = _known(case)
                rendered.append(
                    ENGLISH.prompt("judge_pairwise").render(personas=known, lines=case.lines, first=one, second=other)
                )

        def ahead(answer: str) -> int | None:
            option = whole_number(answer, PREFERENCES)
            return None if option is None else PREFERENCES[option]

        return self._both_orders(self._ask(rendered, REASONED), ahead)

    def score(self, cases: Sequence[Case]) -> Verdicts[int]:
        """Score how much of the reference a reply contains: 0 none, 1 part, 2 all (ECM's GPT-score)."""
        _check(cases, candidates=(1, 1), reference=True)
        rendered = [
            ENGLISH.prompt("judge_score").render(reference=case.reference, reply=reply)
            for case in cases
            for reply in case.candidates.values()
        ]
        answers = self._ask(rendered, BARE)
        return Verdicts(tuple(whole_number(a, SCORES) for a in answers), tuple((a,) for a in answers))

    def errors(self, cases: Sequence[Case]) -> Verdicts[int]:
        """Say what is wrong with each statement of a memory: 0 nothing, or a key of `ERRORS` (Rsum, Table 6)."""
        _check(cases, candidates=(1, 1), reference=True)
        rendered = [
            ENGLISH.prompt("judge_error").render(lines=case.lines, reference=case.reference, reply=statement)
            for case in cases
            for statement in case.candidates.values()
        ]
        answers = self._ask(rendered, BARE)
        return Verdicts(tuple(whole_number(a, (0, *ERRORS)) for a in answers), tuple((a,) for a in answers))

    def compare(self, cases: Sequence[Case]) -> Verdicts[int]:
        """Decide which of two answers is closer to the reference, in both orders (ECM, appendix B.2).

        Returns:
            1: good, the first candidate wins both times; -1: bad; 0: same, the two orders disagree. A case has no verdict
            if either answer states no letter.
        """
        _check(cases, candidates=(2, 2), reference=True, question=True)
        rendered = []
        for case in cases:
            first, second = case.candidates.values()
            rendered += [_choice(case, [first, second]), _choice(case, [second, first])]

        def ahead(answer: str) -> int | None:
            chosen = letter(answer, "AB")
            return None if chosen is None else 1 if chosen == "A" else -1

        return self._both_orders(self._ask(rendered, BARE), ahead)

    def choose(self, cases: Sequence[Case], seed: int = 0) -> Verdicts[str]:
        """Choose the system whose answer is closest to the reference, in shuffled order (ECM, appendix B.3).

        Args:
            seed: seed of the shuffle; the order of a case depends only on it and the case's id.

        Returns:
            system names.
        """
        _check(cases, candidates=(2, len(ascii_uppercase)), reference=True, question=True)
        places = [shuffled(case, seed) for case in cases]
        rendered = [
            _choice(case, [case.candidates[name] for name in names]) for case, names in zip(cases, places, strict=True)
        ]
        answers = self._ask(rendered, BARE)
        chosen = [letter(answer, ascii_uppercase[: len(names)]) for answer, names in zip(answers, places, strict=True)]
        values = tuple(
            None if place is None else names[ascii_uppercase.index(place)]
            for place, names in zip(chosen, places, strict=True)
        )
        return Verdicts(values, tuple((a,) for a in answers))

    def _both_orders(self, answers: Sequence[str], ahead: Callable[[str], int | None]) -> Verdicts[int]:
        """Combine pairs of answers: candidates in the given order, then swapped."""
        values: list[int | None] = []
        for given, exchanged in zip(answers[::2], answers[1::2], strict=True):
            first, second = ahead(given), ahead(exchanged)
            if first is None or second is None:
                values.append(None)
            else:
                values.append(0 if (first > 0) == (second > 0) else 1 if first > 0 else -1)
        return Verdicts(tuple(values), tuple(zip(answers[::2], answers[1::2], strict=True)))

    def _ask(self, rendered: Sequence[tuple[Message, ...]], max_new_tokens: int) -> list[str]:
        requests = [Request(messages, MODULE, max_new_tokens, temperature=self._temperature) for messages in rendered]
        return run(self._steps(requests), self._complete)

    def _steps(self, requests: Sequence[Request]) -> Steps[list[str]]:
        answers: list[Completion] = []
        for start in range(0, len(requests), self._width):
            batch = requests[start : start + self._width]
            completions = yield batch
            if len(completions) != len(batch):
                raise BackboneError(f"the judge returned {len(completions)} answers to {len(batch)} requests")
            answers += completions
        return [answer.text for answer in answers]


def mean(verdicts: Verdicts[int]) -> float | None:
    """Return the mean of all verdicts; None if there are none."""
    return sum(verdicts.parsed) / len(verdicts.parsed) if verdicts.parsed else None


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


def _choice(case: Case, texts: Sequence[str]) -> tuple[Message, ...]:
    letters = ascii_uppercase[: len(texts)]
    return ENGLISH.prompt("judge_compare").render(
        question=case.question,
        reference=case.reference,
        candidates=list(zip(letters, texts, strict=True)),
        letters=f"{', '.join(letters[:-1])} or {letters[-1]}",
    )


def _known(case: Case) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, traits) for name, traits in case.personas.items() if traits]


def _check(
    cases: Sequence[Case], *, candidates: tuple[int, int], reference: bool = False, question: bool = False
) -> None:
    fewest, most = candidates
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
        if reference and not case.reference.strip():
            raise InputError(f"case {case.id!r} has no reference, which this judgement needs")
        if question and not case.question.strip():
            raise InputError(f"case {case.id!r} has no question, which this judgement needs")
