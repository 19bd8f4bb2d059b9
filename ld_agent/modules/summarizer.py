"""The event summarizer A(·) of equation (4): a finished session in, a brief summary out.

A session is summarised in one call. A session too long for the model's window is summarised in parts, whose summaries
are merged. An answer that is not a summary is replaced by the session's most typical sentences and marked as a
fallback.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.languages.reading import Reading
from ld_agent.modules.base import Models
from ld_agent.prompts import as_name
from ld_agent.steps import Steps, run
from ld_agent.text import LONGEST_READ, SENTENCE_END, first_paragraph, halves, stems_of, whole_sentences, words_of
from ld_agent.types import Session, Utterance

MARKS = re.compile(r"^[\s\"'*#\-]*")
LIST_MARK = re.compile(r"^[^\S\n]*+(?:[-*•]|\d{1,2}[.)])\s+", re.MULTILINE)
T = TypeVar("T")
FEWEST_WORDS = 3
LONGEST_SUMMARY, LONGEST_JOINED = 2_000, 10_000  # characters; of a substitute for failed merges
LONGEST_ANSWER = 10_000  # characters
SHORTEST_PIECE = 64  # characters
EXTRACTED = 2  # utterances in an extracted summary
EXTRACT_WORDS, EXTRACT_CHARACTERS = 40, 300  # of each at most
MOST_CANDIDATES, FEWEST_CANDIDATES = 600, 20
"""Maximum number of a session's utterances encoded for extracted summaries, and the minimum for each of its parts."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A session's summary.

    Attributes:
        fallback: extracted from the session, because the model's answer was unusable.
        dropped: number of its sentences that were left out, because the session does not support them.
    """

    text: str
    fallback: bool = False
    dropped: int = 0


class Summarizer:
    """Summarises sessions with the ``summarizer`` module.

    Args:
        models: the backbones.
        encode: texts → (n, dimension) unit vectors, to choose the sentences of an extracted summary.
        agent: name of the agent, whose lines are extracted only if people said nothing; "": there is none.
        dated: replaces relative times in a text by dates, from when it was said, and the lines from which a model made it;
            None: they stay.
    """

    def __init__(
        self,
        models: Models,
        encode: Callable[[Sequence[str]], NDArray[np.float32]],
        agent: str = "",
        dated: Callable[[str, datetime, Sequence[str] | None], str] | None = None,
    ) -> None:
        self._models = models
        self._encode = encode
        self._agent = agent
        self._dated = dated or (lambda text, at, lines: text)
        by_paper = models.modules.summarizer.prompting == "paper"
        self._prompt = models.language.prompt("summarizer_paper" if by_paper else "summarizer")

    def summarize(self, sessions: Sequence[Session]) -> list[Summary]:
        """Summarise sessions in one batch; see `steps`."""
        return run(self.steps(sessions), self._models.complete)

    def steps(self, sessions: Sequence[Session]) -> Steps[list[Summary]]:
        """`summarize` as steps, for callers that batch further.

        Raises:
            BackboneError: the model failed to answer at all.
        """
        told = [session for session in sessions if not noted(session)]
        parts = [self._parts(session) for session in told]
        requests = [
            self._models.request("summarizer", self._render(session, part, number, len(of_session)))
            for session, of_session in zip(told, parts, strict=True)
            for number, part in enumerate(of_session, 1)
        ]
        completions = iter((yield requests))
        drafts = [self._drafts([next(completions) for _ in of_session], of_session) for of_session in parts]
        while any(len(of_session) > 1 for of_session in drafts):
            drafts = yield from self._merge_round(told, drafts)
        finished = iter([self._finished(draft, session) for [draft], session in zip(drafts, told, strict=True)])
        return [Summary(words) if (words := noted(session)) else next(finished) for session in sessions]

    def _finished(self, summary: Summary, session: Session) -> Summary:
        """A summary, with dates if everything was said on one day."""
        said = session.utterances
        if said[0].local_at.date() != said[-1].local_at.date():
            return summary
        return replace(summary, text=self._dated(summary.text, said[-1].local_at, [u.text for u in said]))

    def extracted(self, session: Session) -> Summary:
        """The summary that stands in for an unusable one: what was typically said."""
        return Summary(self._extracted(session.utterances), fallback=True)

    def prompt_for(self, session: Session) -> tuple[Message, ...]:
        """Render the prompt of a session that fits the window; training uses the same prompt."""
        return self._render(session, session.utterances, 1, 1)

    def _render(self, session: Session, part: Sequence[Utterance], number: int, parts: int) -> tuple[Message, ...]:
        people, lines = self._models.language.named(session.speakers), [(u.speaker, u.text) for u in part]
        return self._prompt.render(people=people, lines=lines, part=number if parts > 1 else 0, parts=parts)

    def _parts(self, session: Session) -> list[list[Utterance]]:
        """Split a session into the fewest runs of utterances whose prompts fit the window."""

        def fits(part: Sequence[Utterance]) -> bool:
            return self._models.fits("summarizer", self._render(session, part, 99, 99))

        whole = list(session.utterances)
        if fits(whole):
            return [whole]
        return pack([piece for u in whole for piece in _pieces(u, fits)], fits)

    def _merge_round(self, sessions: Sequence[Session], drafts: list[list[Summary]]) -> Steps[list[list[Summary]]]:
        """Merge each session's drafts in groups that fit the window; a single draft is unchanged."""
        plans = [self._plan(session, group) for session, group in zip(sessions, drafts, strict=True)]
        completions = iter((yield [request for plan in plans for _, request in plan if request is not None]))
        return [
            [self._merged(group, next(completions) if request is not None else None) for group, request in plan]
            for plan in plans
        ]

    def _plan(self, session: Session, drafts: list[Summary]) -> list[tuple[list[Summary], Request | None]]:
        """Group drafts, each group with the request that merges it; None: one draft, or two that do not fit together."""

        def messages(group: Sequence[Summary]) -> tuple[Message, ...]:
            people, summaries = self._models.language.named(session.speakers), [s.text for s in group]
            return self._models.language.prompt("summarizer_merge").render(people=people, summaries=summaries)

        def fits(group: Sequence[Summary]) -> bool:
            return self._models.fits("summarizer", messages(group))

        return [
            (group, self._models.request("summarizer", messages(group)) if len(group) > 1 and fits(group) else None)
            for group in pack(drafts, fits, fewest=2)
        ]

    def _drafts(self, answers: Sequence[Completion], parts: Sequence[Sequence[Utterance]]) -> list[Summary]:
        """The summaries of a session's parts; if no answer is usable, one extracted from all of them."""
        reading = self._models.language.reading
        texts = [cleaned_answer(answer, reading) for answer in answers]
        usable = [is_summary(text, part, reading) for text, part in zip(texts, parts, strict=True)]
        if not any(usable):
            return [Summary(self._extracted([u for part in parts for u in part]), fallback=True)]
        most = max(MOST_CANDIDATES // len(parts), FEWEST_CANDIDATES)
        return [
            Summary(text) if ok else Summary(self._extracted(part, most), fallback=True)
            for text, ok, part in zip(texts, usable, parts, strict=True)
        ]

    def _merged(self, group: Sequence[Summary], answer: Completion | None) -> Summary:
        if len(group) == 1:
            return group[0]
        joined, reading = " ".join(s.text for s in group), self._models.language.reading
        if answer is not None and _plausible(text := cleaned_answer(answer, reading), joined, reading):
            return Summary(text, fallback=any(s.fallback for s in group))
        if len(joined) > LONGEST_JOINED:
            joined = " ".join(bounded(s.text, max(LONGEST_JOINED // len(group) - 1, 2)) for s in group)
        return Summary(joined, fallback=True)

    def _extracted(self, part: Sequence[Utterance], most: int = MOST_CANDIDATES) -> str:
        """The most `typical` utterances of a part, with their speakers.

        Args:
            most: maximum number of utterances to encode, evenly spread.
        """
        candidates = [u for u in part if u.text.strip()] or list(part)
        candidates = [u for u in candidates if u.speaker != self._agent] or candidates
        candidates = candidates[:: len(candidates) // most + 1]
        return " ".join(
            f"{as_name(u.speaker)}: {_shortened(self._dated(u.text, u.local_at, None))}"
            for u in typical(candidates, self._encode, EXTRACTED)
        )


def typical(
    said: Sequence[Utterance], encode: Callable[[Sequence[str]], NDArray[np.float32]], most: int
) -> list[Utterance]:
    """The utterances nearest to the mean of all their embeddings, in order."""
    vectors = encode([u.text for u in said])
    nearness = vectors @ vectors.mean(axis=0)
    return [said[n] for n in sorted(np.argsort(-nearness, kind="stable")[:most].tolist())]


def noted(session: Session) -> str:
    """The words of a session in which a tool only noted what is to be remembered; "": it needs a summary."""
    if any(u.channel != "tool" for u in session.utterances):
        return ""
    text = " ".join(f"{as_name(u.speaker)}: {' '.join(u.text.split())}" for u in session.utterances)
    return text if len(text) <= LONGEST_SUMMARY else ""


def cleaned_answer(answer: Completion, reading: Reading) -> str:
    """An answer, `cleaned`, without the sentence in which its limit cut it off."""
    return cleaned(answer.text if answer.finish == "stop" else whole_sentences(answer.text), reading)


def cleaned(answer: str, reading: Reading) -> str:
    """Strip lead-in ("Here is a summary:"), list marks, quotes, line breaks and repeated sentences from an answer.

    Keeps whole sentences up to `LONGEST_SUMMARY` characters.
    """
    text = LIST_MARK.sub("", first_paragraph(_without_lead_in(answer.strip()[:LONGEST_ANSWER], reading)))
    sentences = SENTENCE_END.split(" ".join(text.split()).strip("\"'*` "))
    once: dict[str, str] = {}
    for sentence in sentences:
        once.setdefault(sentence.casefold(), sentence)
    return bounded(" ".join(once.values()))


def _without_lead_in(text: str, reading: Reading) -> str:
    plain = MARKS.sub("", text)
    lead_in = reading.patterns["lead_in"].match(plain)
    return plain[lead_in.end() :].lstrip(" \t\r\n*") if lead_in else text


def bounded(text: str, longest: int = LONGEST_SUMMARY) -> str:
    """Cut a text to whole sentences within a number of characters, or to whole words if the first is longer."""
    if len(text) <= longest:
        return text
    beginning = text[: longest - 2]
    sentences = whole_sentences(beginning)
    return sentences if sentences != beginning else f"{beginning.rpartition(' ')[0] or beginning} …"


def is_summary(text: str, part: Sequence[Utterance], reading: Reading) -> bool:
    """Whether an answer can be a summary of these utterances.

    It has a few words and at most `LONGEST_SUMMARY` characters, does not repeat one phrase over and over, is not a
    dialogue itself and is about these utterances.
    """
    speakers = {u.speaker for u in part}
    if len(text) > LONGEST_SUMMARY or any(text.startswith(f"{as_name(speaker)}:") for speaker in speakers):
        return False
    return _plausible(text, " ".join([*speakers, *(u.text[:LONGEST_READ] for u in part)]), reading)


def _plausible(text: str, source: str, reading: Reading) -> bool:
    words = words_of(text)
    if len(words) < FEWEST_WORDS:
        return False
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    if triples and triples.most_common(1)[0][1] > max(2, len(words) // 8):
        return False
    return bool(stems_of(text, reading) & stems_of(source, reading)) or not any(word.isascii() for word in words)


def pack(items: Sequence[T], fits: Callable[[Sequence[T]], bool], fewest: int = 1) -> list[list[T]]:
    """Group items in order, each group as long as fits; each but the last has at least ``fewest`` items.

    ``fits`` is called a few times per group rather than per item, because every part of a fitting group fits.
    """
    groups: list[list[T]] = []
    start = size = 0
    while start < len(items):
        size = _longest(items, start, size, fits, fewest)
        groups.append(list(items[start : start + size]))
        start += size
    return groups


def _longest(items: Sequence[T], start: int, guess: int, fits: Callable[[Sequence[T]], bool], fewest: int) -> int:
    """The number of items from ``start`` that fit together, found from a guess in growing strides, then by
    bisection."""
    most = len(items) - start
    fit = min(fewest, most)

    def fitting(size: int) -> bool:
        return fits(items[start : start + size])

    over, stride = most + 1, max(guess // 8, 1)
    if fit < guess <= most:
        fit, over = (guess, over) if fitting(guess) else (fit, guess)
    while fit + stride < over and fitting(fit + stride):
        fit, stride = fit + stride, 2 * stride
    over = min(over, fit + stride)
    while over - fit > 1:
        middle = (fit + over) // 2
        fit, over = (middle, over) if fitting(middle) else (fit, middle)
    return fit


def _pieces(utterance: Utterance, fits: Callable[[Sequence[Utterance]], bool]) -> list[Utterance]:
    """Cut an utterance that is too long for any prompt into pieces that fit."""
    if len(utterance.text) <= SHORTEST_PIECE or fits([utterance]):
        return [utterance]
    return [piece for half in halves(utterance.text) for piece in _pieces(replace(utterance, text=half), fits)]


def _shortened(text: str) -> str:
    start = " ".join(text.split()[:EXTRACT_WORDS])[:EXTRACT_CHARACTERS]
    return start if len(start) == len(" ".join(text.split())) else start + " …"
