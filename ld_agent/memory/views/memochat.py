"""MemoChat: the model writes memos by topic after a session; at recall it chooses the topics.

Costs one call per session (more if it exceeds the model's window) and one per recall. If the model writes no memos, two
lines of the session are kept, after a second try if memos are checked; if it chooses no topics, the nearest ones are used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ld_agent.backbones.base import Completion, Message
from ld_agent.errors import BackboneError
from ld_agent.languages import Language
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.checks import checked, dropped_in
from ld_agent.memory.views.memory_text import supported
from ld_agent.memory.views.stored import StoredView, dialogue, draft_of, recalled
from ld_agent.modules.base import retried
from ld_agent.modules.summarizer import is_summary, pack
from ld_agent.prompts import as_name
from ld_agent.steps import Steps
from ld_agent.storage.rows import Draft
from ld_agent.types import Recalled, Session, Utterance

MEMO = re.compile(
    r"^\W{0,20}+(?:\d{1,3}[.)]\s+)?\W{0,20}+(\d{1,4})\]?(?:\s*(?:-|–|—|~|至|到|to)\s*\[?(\d{1,4}))?[\s\]]*[|｜]([^|｜\n]+)[|｜]([^|｜\n]+)",
    re.MULTILINE,
)
_LINE = r"\d{1,4}(?:(?:[^\S\n]|[,，、#;；&]|和|and\b){1,20}+\d{1,4})*+[^\w\n]*+$"
NUMBERS = re.compile(
    rf"^\W{{0,20}}(?:(?:notes?|numbers?|and)\b\W{{0,20}}){{0,20}}({_LINE}(?:\s{{1,20}}+{_LINE})*+)",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines that contain only numbers; one that continues with words repeats the list."""
LONGEST_TOPIC = 80  # characters
LINES_OF_A_MEMO = 10  # characters of its dialogue shown in a prompt
LINES_OF_A_FALLBACK, WORDS_OF_A_LINE = 2, 40
UNTITLED = "talk"
TOKENS_OF_A_PICK = 24  # enough for some numbers, without the rambling after them


@dataclass(frozen=True, slots=True)
class Memo:
    """One topic of a session: its title, summary and lines; ``dropped``: unsupported statements of the answer it is from."""

    topic: str
    summary: str
    utterances: tuple[Utterance, ...]
    fallback: bool = False
    dropped: int = 0

    @property
    def text(self) -> str:
        """Topic and summary with their source dialogue; all three serve as evidence for a reply."""
        head = f"{self.topic}: {self.summary}"
        return head if self.fallback else f"{head}\n{dialogue(self.utterances[:LINES_OF_A_MEMO])}"


class MemoChatView(StoredView):
    """One record per memo; at most k of the chosen ones are recalled, nearest to the query first."""

    name = "memochat"
    bound = "k"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        context, models = self.context, self.context.models

        def fits(run: Sequence[Utterance]) -> bool:
            return models.fits("memory", memo_prompt(models.language, run))

        runs = [(session, run) for session in sessions for run in pack(session.utterances, fits)]
        requests = [models.request("memory", memo_prompt(models.language, run)) for _, run in runs]
        answers = yield requests
        memos = [self._memos(answer, run) for answer, (_, run) in zip(answers, runs, strict=True)]
        again = [n for n, of_run in enumerate(memos) if of_run[0].fallback]
        if again and context.settings.memochat.checked:
            answers = yield [retried(requests[n]) for n in again]
            for n, answer in zip(again, answers, strict=True):
                memos[n] = self._memos(answer, runs[n][1])
        for session in sessions:
            of_session = [memo for m, (s, _) in zip(memos, runs, strict=True) if s is session for memo in m]
            vectors = context.encoder.encode([memo.text for memo in of_session])
            drafts = [_draft(memo, vector) for memo, vector in zip(of_session, vectors, strict=True)]
            self.shelf.digest(session.number, drafts)

    def _memos(self, answer: Completion, run: Sequence[Utterance]) -> list[Memo]:
        """The memos in an answer; if they are checked, of each what the dialogue supports."""
        memos = memos_of(answer, run, self.context.reading)
        context, lines = self.context, [(u.speaker, u.text) for u in run]
        if memos[0].fallback or not context.settings.memochat.checked:
            return memos
        texts = [checked(memo.summary, lines, context.reading, context.check) for memo in memos]
        dropped = sum(text.dropped for text in texts)
        kept = [replace(memo, summary=text.text) for memo, text in zip(memos, texts, strict=True) if text.text]
        return [replace(kept[0], dropped=dropped), *kept[1:]] if kept else [fallback_memo(run, dropped)]

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        self._records.catch_up()
        k, self.explanation = self.context.settings.k, {}
        s_sem = self._records.cosines(query)
        nearest = [int(row) for row in np.argsort(-s_sem, kind="stable") if self._records.known(query)[row]]
        if k == 0 or not nearest:
            return []
        options, messages = self._options(query, nearest)
        try:
            [answer] = yield [self.context.models.request("memory", messages, most=TOKENS_OF_A_PICK)]
            picked = picked_numbers(answer.text, len(options))
        except BackboneError:  # the reply may still succeed with the nearest memos
            picked = None
        self.explanation = {"options": len(options), "picked by": "cosine" if picked is None else "the model"}
        if picked is None:
            return self._records.nearest(query, k, self.context.settings.least_cosine)
        chosen = list(islice((row for row in nearest if row in {options[n - 1] for n in picked}), k))
        return [recalled(r, float(s_sem[row])) for r, row in zip(self._records.fetch(chosen), chosen, strict=True)]

    def _options(self, query: Query, nearest: Sequence[int]) -> tuple[list[int], tuple[Message, ...]]:
        """The candidate topics, oldest first, as many of the nearest as fit the window, and the prompt that lists
        them."""
        count = len(nearest)
        while True:
            options = sorted(nearest[:count])
            notes = [record.text.partition("\n")[0] for record in self._records.fetch(options)]
            messages = self.context.models.language.prompt("memochat_topics").render(text=query.text, notes=notes)
            if count == 1 or self.context.models.fits("memory", messages):
                return options, messages
            count = max(count // 2, 1)


def memos_of(answer: Completion, run: Sequence[Utterance], reading: Reading) -> list[Memo]:
    """The memos in a model's answer: lines "1-4 | topic | summary" whose summary is about these utterances.

    Returns:
        at least one memo; if the answer contains none, the two longest utterances, marked as a fallback.
    """
    text = answer.text if answer.finish == "stop" else answer.text.rpartition("\n")[0]
    source = " ".join([*(as_name(u.speaker) for u in run), *(u.text for u in run)])
    memos = []
    for first, last, topic, summary in MEMO.findall(text):
        lines = tuple(run[int(first) - 1 : int(last or first)]) if int(first) else ()
        title, text = " ".join(topic.split()).strip("\"'*`[] "), " ".join(summary.split()).strip("\"'*`[] ")
        usable = lines and title and len(title) <= LONGEST_TOPIC
        if usable and is_summary(text, run, reading) and supported(text, source, reading):
            memos.append(Memo(title, text, lines))
    return memos or [fallback_memo(run)]


def fallback_memo(run: Sequence[Utterance], dropped: int = 0) -> Memo:
    """The two longest of some utterances, in place of memos; ``dropped``: statements of unsupported memos."""
    longest = sorted(sorted(range(len(run)), key=lambda i: (-len(run[i].text), i))[:LINES_OF_A_FALLBACK])
    lines = [f"{run[i].speaker}: {' '.join(run[i].text.split()[:WORDS_OF_A_LINE])}" for i in longest]
    return Memo(UNTITLED, " ".join(lines), tuple(run), True, dropped)


def picked_numbers(answer: str, most: int) -> set[int] | None:
    """Parse the topics chosen by an answer, numbered from 1; {}: none is relevant; None: unreadable."""
    said = NUMBERS.match(answer.strip())
    if said is None:
        return None
    numbers = {int(number) for number in re.findall(r"\d+", said.group(1))}
    valid = {number for number in numbers if 1 <= number <= most}
    return valid if valid or numbers == {0} else None


def memo_prompt(language: Language, run: Sequence[Utterance]) -> tuple[Message, ...]:
    """The prompt that asks for the memos of some utterances."""
    people = " or ".join(dict.fromkeys(as_name(u.speaker) for u in run))
    return language.prompt("memochat_memos").render(lines=[(u.speaker, u.text) for u in run], people=people)


def _draft(memo: Memo, vector: Vectors) -> Draft:
    details = {"topic": memo.topic, "summary": memo.summary} | dropped_in(memo.dropped)
    return draft_of(memo.utterances, memo.text, vector, fallback=memo.fallback, details=details)
