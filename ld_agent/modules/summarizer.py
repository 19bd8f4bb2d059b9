"""The event summarizer A(·) of equation (4): a finished session in, a brief summary out.

A session that does not fit the model's window is summarised in parts, and the parts' summaries are merged. An answer that
is no summary is replaced by the session's most typical sentences, and marked so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ld_agent.backbones.base import Message, Request
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.modules.base import Models
from ld_agent.prompts import prompt
from ld_agent.steps import Steps, run
from ld_agent.types import Session, Utterance

LEAD_IN = re.compile(
    r"^\s*(?:[\"'*#\-\s]*)(?:here(?:'s| is) (?:a|the)[^:\n]{0,60}:|(?:the )?(?:brief )?summary(?: of [^:\n]{0,60})?:)\s*",
    re.I,
)
T = TypeVar("T")
FEWEST_WORDS = 3
PIECE_CHARACTERS = 2000


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
        drafts = [[self._checked(next(completions).text, part) for part in own] for own in parts]
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
            rendered = self._render(names, part, 9, 99)
            return self._models.count_tokens("summarizer", rendered) <= self._models.prompt_budget("summarizer")

        whole = list(session.utterances)
        if fits(whole):
            return [whole]
        return pack([piece for u in whole for piece in _pieces(u, fits)], fits)

    def _merge_round(self, sessions: Sequence[Session], drafts: list[list[Summary]]) -> Steps[list[list[Summary]]]:
        """Merge each session's drafts by groups that fit the window; a session with one draft is left as it is."""
        groups: list[list[list[Summary]]] = []
        requests: list[Request] = []
        for session, own in zip(sessions, drafts, strict=True):

            def render(group: Sequence[Summary], names: str = people(session)) -> tuple[Message, ...]:
                return prompt("summarizer_merge").render(people=names, summaries=[s.text for s in group])

            def fits(
                group: Sequence[Summary], render: Callable[[Sequence[Summary]], tuple[Message, ...]] = render
            ) -> bool:
                return self._models.count_tokens("summarizer", render(group)) <= self._models.prompt_budget(
                    "summarizer"
                )

            packed = [own] if len(own) == 1 else pack(own, fits, fewest=2)
            groups.append(packed)
            requests += [self._models.request("summarizer", render(group)) for group in packed if len(group) > 1]
        completions = iter((yield requests))
        return [
            [group[0] if len(group) == 1 else _merged(next(completions).text, group) for group in packed]
            for packed in groups
        ]

    def _checked(self, answer: str, part: Sequence[Utterance]) -> Summary:
        text = cleaned(answer)
        if is_summary(text, part):
            return Summary(text)
        return Summary(self._extracted(part), fallback=True)

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
    """A model's answer without its lead-in ("Here is a summary:"), quotes and line breaks."""
    text = LEAD_IN.sub("", answer.strip())
    text = text.split("\n\n")[0]
    return " ".join(text.split()).strip("\"'*` ").removeprefix("- ")


def is_summary(text: str, part: Iterable[Utterance]) -> bool:
    """Whether an answer can be a summary of these utterances: some words, not one phrase over and over, and about them."""
    words = re.findall(r"\w+", text.casefold())
    if len(words) < FEWEST_WORDS:
        return False
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    if triples and triples.most_common(1)[0][1] > max(2, len(words) // 8):
        return False
    said = {w for u in part for w in re.findall(r"\w+", f"{u.speaker} {u.text}".casefold())}
    return any(w in said for w in words if len(w) > 2) or not any(w.isascii() for w in words)


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
    if fits([utterance]):
        return [utterance]
    text, size = utterance.text, PIECE_CHARACTERS
    while size > 64 and not fits([replace(utterance, text=text[:size])]):
        size //= 2
    return [replace(utterance, text=text[i : i + size]) for i in range(0, len(text), size)]


def _merged(answer: str, group: Sequence[Summary]) -> Summary:
    text = cleaned(answer)
    joined = " ".join(s.text for s in group)
    if len(re.findall(r"\w+", text)) >= FEWEST_WORDS:
        return Summary(text, fallback=any(s.fallback for s in group))
    return Summary(joined, fallback=True)


def _shortened(text: str, words: int = 40) -> str:
    parts = text.split()
    return " ".join(parts) if len(parts) <= words else " ".join(parts[:words]) + " …"
