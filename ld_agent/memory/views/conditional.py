"""Conditional memory (ECM): for each utterance worth remembering, a record of its situation and of what was learned.

One call replies and decides; if the answer is yes, a second call writes the record. If the model gives no decision, the
second call asks again. If the note is unusable, the extractor says whether the utterance tells anything of its speaker, so
that an utterance costs at most three calls. Recall is dense, with self-reflection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.checks.statements import only_asks, questions, speaks_of_self, stated
from ld_agent.config.sections import MemorySection
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.views.base import Guidance, Query, ViewContext
from ld_agent.memory.views.checks import NOTED, supported_note, supported_situation
from ld_agent.memory.views.memory_text import supported
from ld_agent.memory.views.stored import NearestView, draft_of
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.json_form import FLAG, TEXT, Parts, as_examples, form_of
from ld_agent.modules.replies import yes_or_no
from ld_agent.steps import Steps
from ld_agent.storage.rows import Draft
from ld_agent.types import Recalled, Session, Utterance

LABELS = {
    "remember": "remember",
    "decision": "remember",
    "related": "related",
    "situation": "situation",
    "context": "situation",
    "summary": "situation",
    "note": "note",
    "knowledge": "note",
}
_LABEL = re.compile(
    rf"(?:^|\n|(?<=[.!?,\"}}])\s|(?<=\{{))[\s<*#\-_\[\"'{{]{{0,40}}+(?:\d{{1,2}}[.)]\s*)?(?:the\s+)?({'|'.join(LABELS)})"
    r"(?:[\s>*_\]\"']*:|\s+is\s+that\b)",
    re.IGNORECASE,
)
"""The beginning of a part: "Note:", in a list, in Markdown or JSON, or "The note is that"."""
_EMPTY = re.compile(r"\A\W*+(?:none|nan|n/a|nothing|no note)?+\W*+", re.IGNORECASE)
_BRACKET, _BULLET = re.compile(r"[\[\]【】]"), re.compile(r"^[^\S\n]*+(?:[-*•–]|\d{1,2}[.)])\s+", re.MULTILINE)
LONGEST = 600  # characters of one part of a record
MOST_TOKENS = 160  # of a record: the related lines, and a sentence each of the situation and the note


@dataclass(frozen=True, slots=True)
class Noted:
    """The record of one utterance.

    Attributes:
        fallback: the model's answer was unusable, so the utterance itself is kept.
        unreadable: it had none of the parts of a record.
        by_extractor: it was unusable, and the note is what the extractor found.
    """

    situation: str
    note: str
    fallback: bool = False
    unreadable: bool = False
    by_extractor: bool = False

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.situation, self.note) if part)


class ConditionalView(NearestView):
    """The conditional records of one conversation. Utterances of the agent never become records."""

    name = "conditional"
    bound = "conditional.k"
    rounds = "conditional.rounds"
    observes = True

    def __init__(self, context: ViewContext) -> None:
        super().__init__(context)
        self._settings = context.settings.conditional
        self.decides = self._settings.selection and self._settings.decision == "with_reply"
        modules = context.models.modules
        self._direct = modules.memory.prompting == "direct"
        knowledge, context_asked = self._settings.knowledge, self._settings.context
        parts = {"note": knowledge, "related": context_asked, "situation": context_asked}
        self._texts = {name: TEXT for name, asked in parts.items() if asked}
        self._extractor = Extractor(context.models, modules.extractor.prompting, modules.extractor.grounded)

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        rounds = settings.conditional.rounds
        reflected = f"reflected on at most {rounds} times" if rounds != 1 else "reflected on once"
        return f"overall = s_sem, k = {settings.conditional.k}, {reflected}"

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """The two-part answer (Table 17), if the generator's call decides."""
        return Guidance(
            self.context.models.language.prompt("conditional_reply").render()[0].content if self.decides else ""
        )

    def observe(self, session: Session) -> Steps[None]:
        """Write the records of the running session's utterances in one batch.

        Raises:
            BackboneError: the model failed to answer; unprocessed utterances stay pending.
        """
        yield from self._take_in([u for u in session.utterances if u.speaker != self.context.agent])

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Process the remaining utterances of closed sessions, after a crash or if the view was enabled later."""
        waiting = [u for session in sessions for u in self.shelf.unobserved(session.number, self.context.agent)]
        yield from self._take_in(waiting)
        for session in sessions:
            self.shelf.digest(session.number, [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """The k nearest records, reflected on at most ``rounds`` times; score is the cosine."""
        running = self.context.store.open_utterances(self.context.key, None)  # are in prompts verbatim
        return self._nearest(query, -1.0, {u.id for u in running})

    def _take_in(self, waiting: Sequence[Utterance]) -> Steps[None]:
        """Send one request per utterance, in one batch, except for utterances already judged not worth it. If records
        are checked, utterances that only ask are not worth it either, and the extractor is asked about those whose
        answers are unusable."""
        selects, checked = self._settings.selection, self._settings.checked
        verdicts = self.shelf.verdicts() if selects else {u.id: True for u in waiting}
        asked = []
        for utterance in waiting:
            if verdicts.get(utterance.id) is False or (
                selects and checked and only_asks(utterance.text, self.context.reading)
            ):
                self.shelf.observe(utterance)
            else:
                asked.append((utterance, utterance.id not in verdicts))
        if not asked:
            return
        store, key = self.context.store, self.context.key
        said = {n: store.session_utterances(key, n) for n in {u.session for u, _ in asked}}
        answers = yield [self._request(said[u.session], u, decide) for u, decide in asked]
        records = [self._kept(said[u.session], u, d, answer) for (u, d), answer in zip(asked, answers, strict=True)]
        unusable = [n for n, record in enumerate(records) if record is not None and record.fallback]
        if unusable and checked and self._settings.knowledge:
            again = [asked[n] for n in unusable]
            answered = [store.answered(key, u) for u, _ in again]
            found = yield from self._extractor.steps([u.text for u, _ in again], answered)
            for n, (utterance, decide), traits in zip(unusable, again, found, strict=True):
                records[n] = _from_traits(records[n], utterance, traits, self.context.reading, decided=not decide)
        texts = [kept.text for kept in records if kept is not None]
        vectors = iter(self.context.encoder.encode(texts) if texts else ())
        for (utterance, _), kept in zip(asked, records, strict=True):
            self.shelf.observe(utterance, None if kept is None else _draft(utterance, kept, next(vectors)))

    def _request(self, said: Sequence[Utterance], utterance: Utterance, decide: bool) -> Request:
        models = self.context.models
        before = _before(said, utterance)
        while before and not models.fits("memory", self._messages(before, utterance, decide)):
            before = before[(len(before) + 1) // 2 :]
        messages = self._messages(before, utterance, decide)
        constant = len(messages) - 1 if self._direct else 0  # within one conversation: the examples bear its names
        form = None
        if self._direct and models.answers_json("memory"):
            form = form_of(self._texts | ({"remember": FLAG} if decide else {}))
            messages = as_examples(messages, lambda example: self._parts_of(example, decide))
        return models.request("memory", messages, most=MOST_TOKENS, marked=True, constant_messages=constant, form=form)

    def _parts_of(self, example: str, decide: bool) -> Parts:
        """An example of the prompt as JSON."""
        parts = labelled(self.context.models.language.canonical(example))
        texts = {name: _part(parts, name) if name != "related" else parts.get(name, "") for name in self._texts}
        return texts | ({"remember": yes_or_no(parts.get("remember", "")) is True} if decide else {})

    def _messages(self, before: Sequence[Utterance], utterance: Utterance, decide: bool) -> tuple[Message, ...]:
        name = "conditional_record_direct" if self._direct else "conditional_record"
        return self.context.models.language.prompt(name).render(
            agent=self.context.agent,
            decide=decide,
            context=self._settings.context,
            knowledge=self._settings.knowledge,
            lines=[(u.speaker, u.text) for u in (*before, utterance)],
            speaker=utterance.speaker,
            text=utterance.text,
        )

    def _kept(
        self, session: Sequence[Utterance], utterance: Utterance, decide: bool, answer: Completion
    ) -> Noted | None:
        """The record in an answer; None: the utterance is not worth one.

        If records are checked, they keep a situation only if the last lines support it, and the sentences of
        a note that the utterance and the question before it support. An utterance with nothing to note is not worth a
        record, and neither is one that is about somebody else if nobody decided before.
        """
        parts = labelled(answer.text) if answer.parts is None else _as_texts(answer.parts)
        if decide and (yes_or_no(parts.get("remember", "")) is False or yes_or_no(answer.text) is False):
            return None
        situation = _part(parts, "situation") if self._settings.context else ""
        note = written = _part(parts, "note") if self._settings.knowledge else ""
        if self._settings.checked:
            if self._settings.selection and self._settings.knowledge and "note" in parts and not written:
                return None
            reading, names = self.context.reading, [utterance.speaker, self.context.agent]
            until = [(u.speaker, u.text) for u in (*_before(session, utterance), utterance)]
            situation = situation if supported_situation(situation, until, reading) else ""
            said = stated(until[-1:], reading)
            asked = [(who, questions(text)) for who, text in until[-2:-1] if questions(text)]
            lines = [*asked, *said]
            note = supported_note(written, lines, names, reading, self.context.check)
            if decide and written and not note and not any(speaks_of_self(text, reading) for _, text in said):
                return None
        if not note and (written or not situation):
            words = self.context.models.language.said(utterance.speaker, " ".join(utterance.text.split())[:LONGEST])
            return Noted(situation, words, fallback=True, unreadable=not parts)
        return Noted(situation, note)


def _as_texts(parts: Parts) -> dict[str, str]:
    """The parts of a JSON answer as `labelled` returns them."""
    return {name: ("yes" if value else "no") if isinstance(value, bool) else value for name, value in parts.items()}


def _from_traits(
    unusable: Noted | None, utterance: Utterance, traits: Sequence[str], reading: Reading, decided: bool
) -> Noted | None:
    """A record whose note is what the extractor found in an utterance.

    If it found nothing that was said, the utterance is kept word for word if it was decided to be worth a record or the
    answer was unreadable; None: it is not kept.
    """
    said = [trait for trait in traits if supported(trait, utterance.text, reading, share=NOTED)]
    if unusable is None or not said:
        return unusable if decided or (unusable is not None and unusable.unreadable) else None
    return Noted(unusable.situation, f"{utterance.speaker}: {' '.join(said)}", by_extractor=True)


def labelled(answer: str) -> dict[str, str]:
    """The parts of an answer by kind; the first of each kind that says anything counts."""
    marks = list(_LABEL.finditer(answer))
    ends = [mark.start() for mark in marks[1:]] + [len(answer)]
    parts: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=False):  # an answer without marks also has an end
        kind = LABELS[mark.group(1).casefold()]
        parts[kind] = parts.get(kind) or answer[mark.end() : end].strip()
    return parts


def _part(parts: Mapping[str, str], name: str) -> str:
    """One part as plain text, without the brackets of the form and the bullets of a list."""
    plain = _BULLET.sub("", _BRACKET.sub("", parts.get(name, "")))
    while label := _LABEL.match(plain):  # "Note: Note: Maya ..."
        plain = plain[label.end() :]
    text = " ".join(plain.split()).strip("*<>{}`\"', ")[:LONGEST]
    return "" if _EMPTY.fullmatch(text) else text


def _before(said: Sequence[Utterance], utterance: Utterance) -> list[Utterance]:
    """The lines of a session before one of them; none if it is no longer there."""
    before = list(takewhile(lambda one: one.id != utterance.id, said))
    return before if len(before) < len(said) else []


def _draft(utterance: Utterance, kept: Noted, vector: Vectors) -> Draft:
    details = {"situation": kept.situation, "note": kept.note} | ({"by": "extractor"} if kept.by_extractor else {})
    return draft_of([utterance], kept.text, vector, fallback=kept.fallback, details=details)
