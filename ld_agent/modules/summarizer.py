"""The event summarizer A(·) of equation (4): a finished session in, a brief summary out.

A session is summarised in one call. What does not fit the model's window is summarised in parts, and the parts' summaries
are merged. An answer that is no summary is replaced by the session's most typical sentences, and marked so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.modules.base import Models
from ld_agent.modules.wording import first_paragraph, halves, stems_of, words_of
from ld_agent.prompts import prompt
from ld_agent.steps import Steps, run
from ld_agent.types import Session, Utterance

LEAD_IN = re.compile(
    r"^[\s\"'*#\-]*(?:(?:sure|certainly|of course|okay|ok)\b[,.!]*\s+)?"
    r"(?:here(?:['’]s| is| are)\b[^:\n]{0,80}:|(?:the |a )?(?:brief |short )?summary\b[^:\n]{0,60}:"
    r"|(?:in summary|to summarize),)[\s*]*",
    re.IGNORECASE,
)
LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", re.MULTILINE)
SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")
T = TypeVar("T")
FEWEST_WORDS = 3
SHORTEST_PIECE = 64  # characters
EXTRACT_WORDS, EXTRACT_CHARACTERS = 40, 300  # of one utterance in an extracted summary


@dataclass(frozen=True, slots=True)
class Summary:
    """A session's summary; ``fallback``: extracted from the session, because the model gave none."""

    text: str
    fallback: bool = False


class Summarizer:
    """Summarises sessions with the ``summarizer`` module.

    Args:
        models: the backbones.
        encoder: chooses the sentences of an extracted summary.
    """

    def __init__(self, models: Models, encoder: SentenceEncoder) -> None:
        self._models = models
        self._encoder = encoder

    def summarize(self, sessions: Sequence[Session]) -> list[Summary]:
        """Summarise sessions in one batch; see `steps`."""
        return run(self.steps(sessions), self._models.complete)

    def steps(self, sessions: Sequence[Session]) -> Steps[list[Summary]]:
        """The same as steps, for a caller who batches further.

        Raises:
            BackboneError: the model failed to answer at all.
        """
        parts = [self._parts(session) for session in sessions]
        requests = [
            self._request(people(s), p, n, len(own))
            for s, own in zip(sessions, parts, strict=True)
            for n, p in enumerate(own, 1)
        ]
        completions = iter((yield requests))
        drafts = [self._drafts([next(completions) for _ in own], own) for own in parts]
        while any(len(own) > 1 for own in drafts):
            drafts = yield from self._merge_round(sessions, drafts)
        return [own[0] for own in drafts]

    def prompt_for(self, session: Session) -> tuple[Message, ...]:
        """The prompt of a session that fits the window: what training renders too."""
        return self._render(people(session), session.utterances, 1, 1)

    def _render(self, names: str, part: Sequence[Utterance], number: int, parts: int) -> tuple[Message, ...]:
        lines = [(u.speaker, u.text) for u in part]
        return prompt("summarizer").render(people=names, lines=lines, part=number if parts > 1 else 0, parts=parts)

    def _request(self, names: str, part: Sequence[Utterance], number: int, parts: int) -> Request:
        return self._models.request("summarizer", self._render(names, part, number, parts))

    def _parts(self, session: Session) -> list[list[Utterance]]:
        """Split a session into the fewest runs of utterances whose prompts fit the window."""
        names = people(session)

        def fits(part: Sequence[Utterance]) -> bool:
            return self._fits(self._render(names, part, 99, 99))

        whole = list(session.utterances)
        if fits(whole):
            return [whole]
        return pack([piece for u in whole for piece in _pieces(u, fits)], fits)

    def _merge_round(self, sessions: Sequence[Session], drafts: list[list[Summary]]) -> Steps[list[list[Summary]]]:
        """Merge each session's drafts by groups that fit the window; a session with one draft is left as it is."""
        plans = [self._plan(people(session), own) for session, own in zip(sessions, drafts, strict=True)]
        completions = iter((yield [request for plan in plans for _, request in plan if request is not None]))
        return [
            [_merged(group, next(completions) if request is not None else None) for group, request in plan]
            for plan in plans
        ]

    def _plan(self, names: str, drafts: list[Summary]) -> list[tuple[list[Summary], Request | None]]:
        """Drafts in groups, each with the request that merges it; None: nothing to merge, or two that never fit together."""

        def messages(group: Sequence[Summary]) -> tuple[Message, ...]:
            return prompt("summarizer_merge").render(people=names, summaries=[s.text for s in group])

        def fits(group: Sequence[Summary]) -> bool:
            return self._fits(messages(group))

        return [
            (group, self._models.request("summarizer", messages(group)) if len(group) > 1 and fits(group) else None)
            for group in pack(drafts, fits, fewest=2)
        ]

    def _fits(self, messages: tuple[Message, ...]) -> bool:
        return self._models.count_tokens("summarizer", messages) <= self._models.prompt_budget("summarizer")

    def _drafts(self, answers: Sequence[Completion], parts: Sequence[Sequence[Utterance]]) -> list[Summary]:
        """The summaries of a session's parts; one that was extracted from all of them, where no answer was of use."""
        texts = [_said(answer) for answer in answers]
        usable = [is_summary(text, part) for text, part in zip(texts, parts, strict=True)]
        if not any(usable):
            return [Summary(self._extracted([u for part in parts for u in part]), fallback=True)]
        return [
            Summary(text) if ok else Summary(self._extracted(part), fallback=True)
            for text, ok, part in zip(texts, usable, parts, strict=True)
        ]

    def _extracted(self, part: Sequence[Utterance], sentences: int = 2) -> str:
        """The utterances nearest to the mean of the part's embeddings, in their order, with their speakers."""
        candidates = [u for u in part if u.text.strip()] or list(part)
        vectors = self._encoder.encode([u.text for u in candidates])
        nearness = vectors @ vectors.mean(axis=0)
        chosen = sorted(sorted(range(len(candidates)), key=lambda i: (-nearness[i], i))[:sentences])
        return " ".join(f"{candidates[i].speaker}: {_shortened(candidates[i].text)}" for i in chosen)


def people(session: Session) -> str:
    """Name a session's speakers: "Maya and Sam"."""
    return named(session.speakers)


def named(names: Sequence[str]) -> str:
    """Join names as a sentence does: "Maya, Ben and Sam"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nobody"


def cleaned(answer: str) -> str:
    """A model's answer without its lead-in ("Here is a summary:"), list marks, quotes, line breaks and repeated sentences."""
    text = LIST_MARK.sub("", first_paragraph(LEAD_IN.sub("", answer.strip())))
    sentences = SENTENCE_END.split(" ".join(text.split()).strip("\"'*` "))
    once: dict[str, str] = {}
    for sentence in sentences:
        once.setdefault(sentence.casefold(), sentence)
    return " ".join(once.values())


def whole_sentences(text: str) -> str:
    """A text that was cut off, without the sentence that was not finished; all of it where none was."""
    ends = list(re.finditer(r"[.!?…。！？][\"'”’)]*(?=\s|$)", text))
    return text[: ends[-1].end()] if ends else text


def is_summary(text: str, part: Sequence[Utterance]) -> bool:
    """Whether an answer can be a summary of these utterances.

    It has some words, does not say one phrase over and over, is no dialogue itself and is about these utterances.
    """
    speakers = {u.speaker for u in part}
    if any(text.startswith(f"{speaker}:") for speaker in speakers):
        return False
    return _plausible(text, " ".join([*speakers, *(u.text for u in part)]))


def _plausible(text: str, source: str) -> bool:
    words = words_of(text)
    if len(words) < FEWEST_WORDS:
        return False
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    if triples and triples.most_common(1)[0][1] > max(2, len(words) // 8):
        return False
    return bool(stems_of(text) & stems_of(source)) or not any(word.isascii() for word in words)


def pack(items: Sequence[T], fits: Callable[[Sequence[T]], bool], fewest: int = 1) -> list[list[T]]:
    """Group items in order, each group as long as fits; a group never has under ``fewest`` items, the last excepted."""
    groups: list[list[T]] = []
    for item in items:
        if groups and (len(groups[-1]) < fewest or fits([*groups[-1], item])):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _pieces(utterance: Utterance, fits: Callable[[Sequence[Utterance]], bool]) -> list[Utterance]:
    """Cut an utterance too long for any prompt into pieces that are not."""
    if len(utterance.text) <= SHORTEST_PIECE or fits([utterance]):
        return [utterance]
    return [piece for half in halves(utterance.text) for piece in _pieces(replace(utterance, text=half), fits)]


def _said(answer: Completion) -> str:
    return cleaned(answer.text if answer.finish == "stop" else whole_sentences(answer.text))


def _merged(group: Sequence[Summary], answer: Completion | None) -> Summary:
    if len(group) == 1:
        return group[0]
    joined = " ".join(s.text for s in group)
    if answer is not None and _plausible(text := _said(answer), joined):
        return Summary(text, fallback=any(s.fallback for s in group))
    return Summary(joined, fallback=True)


def _shortened(text: str) -> str:
    start = " ".join(text.split()[:EXTRACT_WORDS])[:EXTRACT_CHARACTERS]
    return start if len(start) == len(" ".join(text.split())) else start + " …"
