"""What answers a question about what was told: passages, and whether they support an answer now, or as it was then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ld_agent.checks.changes import in_which_slips_are_right
from ld_agent.checks.kept import ANSWERED, READ, truth_of_answers
from ld_agent.checks.learned import Lines, StatementCheck
from ld_agent.checks.statements import says_unknown
from ld_agent.languages.numbers import numbers
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.when import aged
from ld_agent.modules.reader import as_then, outdated
from ld_agent.modules.situation import Situation
from ld_agent.text import LONGEST_READ
from ld_agent.types import Utterance

Passage = Sequence[Utterance]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The passages that a question is answered from, and what they support.

    Attributes:
        passages: what was said, most relevant first, then traits; the reader reads them.
        further: what else may support what a model found in its prompt: less relevant passages, and memories of documents.
    """

    check: StatementCheck
    situation: Situation
    passages: Sequence[Passage]
    further: Sequence[Passage] = ()

    @property
    def lines(self) -> list[Lines]:
        """The passages as the check reads them."""
        return [lines_of(passage) for passage in self.passages]

    def each(self, answers: Sequence[str]) -> list[bool]:
        """Whether each answer, read in the passage in its place, says something that the passage supports, and no number that
        nobody told: of numbers the check knows little."""
        read = list(zip(self.lines, answers, strict=True))
        return [t >= READ and self._tell(lines, text) for t, (lines, text) in zip(self._truth(read), read, strict=True)]

    def _tell(self, lines: Lines, answer: str) -> bool:
        """Whether lines or the question have every number of an answer."""
        texts = [self.situation.heard.text, *(text for _, text in lines)]
        said = _numbers(answer)
        return not said or said <= _numbers(" ".join(text[:LONGEST_READ] for text in texts))

    def support(self, answer: str) -> bool:
        """Whether an answer says something that some passage, if there is any, supports, and nothing that has ended does more."""
        passages = [*self.passages, *self.further]
        if not passages:
            return bool(answer) and not says_unknown(answer, self.situation.language.reading)
        now, then = list[Lines](), list[Lines]()
        for passage in passages:
            over = self._outdated(passage, answer)
            now.append(lines_of([said for said, gone in zip(passage, over, strict=True) if not gone]))
            then.append(lines_of([said for said, gone in zip(passage, over, strict=True) if gone]))
        held, ended = (
            max(self._truth([(lines, answer) for lines in those if lines]), default=0.0) for those in (now, then)
        )
        return held >= max(ANSWERED, ended)

    def ended(self, lines: Passage) -> list[tuple[str, bool]]:
        """What each line told and later words have ended, as it was then, "" for nothing; and whether it ever held."""
        slips, gone, heard = self.situation.slips, self.situation.ended, self.situation.heard
        told = [(slips.get(line.id) or gone.get(line.id, ""), line) for line in lines]
        reading = self.situation.language.reading
        return [(aged(what, line.local_at, heard.at, reading), line.id not in slips) for what, line in told]

    def _outdated(self, passage: Passage, answer: str) -> list[bool]:
        """Whether each line of a passage says the answer, and later words have ended that, at once or since."""
        heard, reading = self.situation.heard, self.situation.language.reading
        return outdated(heard.text, heard.speaker, [answer] * len(passage), self.ended(passage), reading)

    def _truth(self, answers: Sequence[tuple[Lines, str]]) -> list[float]:
        """The probability that each passage supports the answer beside it; 0 if it says nothing."""
        heard, reading = self.situation.heard, self.situation.language.reading
        true = truth_of_answers(self.check, answers, heard.speaker, as_then(heard.text, reading))
        return [
            t if text and not says_unknown(text, reading) else 0.0 for (_, text), t in zip(answers, true, strict=True)
        ]


def _numbers(text: str) -> set[str]:
    """The numbers of a text, apart from those that words tell, too: "a", "both"."""
    return {digits for _, digits in numbers(text)} - {"0", "1", "2"}


def as_meant(
    check: StatementCheck, passage: Passage, encode: Callable[[Sequence[str]], Vectors], reading: Reading
) -> Passage:
    """A passage with what its speakers took back a moment later as they meant it.

    Args:
        encode: texts → (n, dimension) unit vectors.
    """
    lines = in_which_slips_are_right(check, lines_of(passage), encode, reading)
    meant = [(said, text or said.text) for said, (_, text) in zip(passage, lines, strict=True)]
    return tuple(said if text == said.text else replace(said, text=text) for said, text in meant)


def lines_of(passage: Passage) -> Lines:
    """A passage as the check reads it."""
    return [(said.speaker, said.text) for said in passage]
