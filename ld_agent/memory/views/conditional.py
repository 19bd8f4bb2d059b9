"""Conditional memory (ECM): what is worth remembering of each utterance, kept as its situation and what was learned.

One call replies and decides; where the answer is yes, one more makes the record. A model that gives no decision is asked
in the record's call, so that an utterance costs two calls at most. Recall is dense, with self-reflection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.config import MemorySection
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.views.base import Guidance, Query, View, ViewContext
from ld_agent.memory.views.memory_text import supported
from ld_agent.memory.views.reflection import reflect
from ld_agent.memory.views.stored import StoredRecords
from ld_agent.steps import Steps
from ld_agent.storage.base import Draft
from ld_agent.types import Recalled, Session, Utterance

LABELS = {"remember": "remember", "decision": "remember", "related": "related", "situation": "situation",
          "context": "situation", "summary": "situation", "note": "note", "knowledge": "note"}  # fmt: skip
_LABEL = re.compile(
    rf"(?:^|\n|(?<=[.!?,\"}}])\s|(?<=\{{))[\s<*#\-_\[\"'{{]*(?:\d{{1,2}}[.)]\s*)?(?:the\s+)?({'|'.join(LABELS)})"
    r"(?:[\s>*_\]\"']*:|\s+is\s+that\b)",
    re.IGNORECASE,
)
"""Where a part begins: "Note:", in a list, in Markdown or JSON, or "The note is that"."""
_EMPTY = re.compile(r"\W*(?:none|nan|n/a|nothing|no note)?\W*", re.IGNORECASE)
INSTANT = timedelta(microseconds=1)  # the store's finest difference of two times
LONGEST = 600  # characters of one part of a record
MOST_TOKENS = 160  # of a record: the related lines, and a sentence each of the situation and the note


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of one utterance; ``fallback``: the model gave nothing of use, and the utterance stands for itself."""

    situation: str
    note: str
    fallback: bool = False

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.situation, self.note) if part)


class ConditionalView(View):
    """The conditional records of one conversation. What the agent itself says is never a record."""

    name = "conditional"
    bound = "conditional.k"
    observes = True

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._settings = context.settings.conditional
        self._records = StoredRecords(context, self.name)
        self._explanation: dict[str, Any] = {}

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        rounds = settings.conditional.rounds
        reflected = f"reflected on at most {rounds} times" if rounds != 1 else "reflected on once"
        return f"overall = s_sem, k = {settings.conditional.k}, {reflected}"

    @property
    def decides(self) -> bool:
        return self._settings.selection and self._settings.decision == "with_reply"

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """The two-part answer (Table 17), where the reply's call decides."""
        return Guidance(self._context.models.prompt("conditional_reply").render()[0].content if self.decides else "")

    @property
    def explanation(self) -> Mapping[str, Any]:
        return self._explanation

    def observe(self, session: Session) -> Steps[None]:
        """Make the records of what was said in the running session; all of them in one batch.

        Raises:
            BackboneError: the model failed to answer; what was not taken in stays pending.
        """
        yield from self._take_in([u for u in session.utterances if u.speaker != self._context.agent])

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Take in what is left of closed sessions: after a crash, or where the view was enabled later."""
        waiting = [u for session in sessions for u in self._shelf.unobserved(session.number, self._context.agent)]
        yield from self._take_in(waiting)
        for session in sessions:
            self._shelf.digest(session.number, [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """The k nearest records, reflected on at most ``rounds`` times; score is the cosine."""
        context = self._context
        running = context.store.open_utterances(context.key, None)  # stands in the prompt as it was said
        at = min(query.at, running[0].at - INSTANT) if running else query.at

        def search(text: str) -> list[Recalled]:
            vector = query.vector if text == query.text else context.encoder.encode_query(text)
            return self._records.nearest(replace(query, text=text, vector=vector, at=at), self._settings.k, gamma=-1.0)

        reflected = yield from reflect(context.models, query.text, search, self._settings.rounds)
        self._explanation = {"rounds": list(reflected.rounds)} if reflected.rounds else {}
        return reflected.recalled

    def _take_in(self, waiting: Sequence[Utterance]) -> Steps[None]:
        """One request an utterance, all at once; an utterance already found not worth it costs none."""
        verdicts = self._shelf.verdicts() if self._settings.selection else {u.id: True for u in waiting}
        asked = []
        for utterance in waiting:
            if verdicts.get(utterance.id) is False:
                self._shelf.observe(utterance)
            else:
                asked.append((utterance, utterance.id not in verdicts))
        if not asked:
            return
        store, key = self._context.store, self._context.key
        said = {n: store.session_utterances(key, n) for n in {u.session for u, _ in asked}}
        answers = yield [self._request(said[u.session], u, decide) for u, decide in asked]
        made = [
            self._kept(u, decide, answer, _source(said[u.session], u))
            for (u, decide), answer in zip(asked, answers, strict=True)
        ]
        texts = [kept.text for kept in made if kept is not None]
        vectors = iter(self._context.encoder.encode(texts) if texts else ())
        for (utterance, _), kept in zip(asked, made, strict=True):
            self._shelf.observe(utterance, None if kept is None else _draft(utterance, kept, next(vectors)))

    def _request(self, said: Sequence[Utterance], utterance: Utterance, decide: bool) -> Request:
        models = self._context.models
        position = next((n for n, u in enumerate(said) if u.id == utterance.id), 0)
        before = list(said[:position])
        budget = models.prompt_budget("memory")
        while before and models.count_tokens("memory", self._messages(before, utterance, decide)) > budget:
            before = before[(len(before) + 1) // 2 :]
        return models.request("memory", self._messages(before, utterance, decide), most=MOST_TOKENS)

    def _messages(self, before: Sequence[Utterance], utterance: Utterance, decide: bool) -> tuple[Message, ...]:
        return self._context.models.prompt("conditional_record").render(
            agent=self._context.agent,
            decide=decide,
            context=self._settings.context,
            knowledge=self._settings.knowledge,
            lines=[(u.speaker, u.text) for u in (*before, utterance)],
            speaker=utterance.speaker,
            text=utterance.text,
        )

    def _kept(self, utterance: Utterance, decide: bool, answer: Completion, source: str) -> Kept | None:
        """The record in an answer; None: it says that there is nothing worth one.

        Args:
            source: what was said up to the utterance; a part that it does not support is left out.
        """
        parts = labelled(answer.text)
        if decide and (yes_or_no(parts.get("remember", "")) is False or yes_or_no(answer.text) is False):
            return None
        situation = _part(parts, "situation", source) if self._settings.context else ""
        note = _part(parts, "note", source) if self._settings.knowledge else ""
        if not situation and not note:
            said = self._context.models.language.said(utterance.speaker, " ".join(utterance.text.split())[:LONGEST])
            return Kept("", said, fallback=True)
        return Kept(situation, note)


def labelled(answer: str) -> dict[str, str]:
    """The parts of an answer by what they are; the first of a kind counts."""
    marks = list(_LABEL.finditer(answer))
    ends = [mark.start() for mark in marks[1:]] + [len(answer)]
    parts: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):  # an answer without marks has an end all the same
        parts.setdefault(LABELS[mark.group(1).casefold()], answer[mark.end() : end].strip())
    return parts


def yes_or_no(text: str) -> bool | None:
    """What a text begins with; None: neither."""
    found = re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)
    return None if found is None else found.group(1).casefold() == "yes"


def _part(parts: Mapping[str, str], name: str, source: str) -> str:
    text = " ".join(parts.get(name, "").split()).strip("*<>[]{}`\"', ")[:LONGEST]
    return "" if _EMPTY.fullmatch(text) or not supported(text, source) else text


def _source(said: Sequence[Utterance], utterance: Utterance) -> str:
    """What was said in a session up to an utterance, with the speakers' names."""
    until = next((n for n, u in enumerate(said, 1) if u.id == utterance.id), len(said))
    names = dict.fromkeys(u.speaker for u in said)
    return " ".join([*names, *(u.text for u in said[:until]), utterance.text])


def _draft(utterance: Utterance, kept: Kept, vector: Vectors) -> Draft:
    return Draft(
        text=kept.text,
        at=utterance.at,
        session=utterance.session,
        vector=vector,
        sources=(utterance.id,),
        fallback=kept.fallback,
        details={"situation": kept.situation, "note": kept.note},
    )
