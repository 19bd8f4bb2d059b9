"""MemoryBank: dated summaries of sessions and days, a global summary, a portrait of each person, and forgetting.

Model calls: a session's summary and a portrait of each participant in one batch, then the summary of a day with several
sessions, then the global summary. Nothing here reads a clock: ages are relative to the query's time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.checks.kept import Checked
from ld_agent.checks.learned import Lines
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.checks import checked, dropped_in
from ld_agent.memory.views.stored import StoredView, recalled
from ld_agent.modules.base import retried
from ld_agent.modules.summarizer import Summary, cleaned_answer
from ld_agent.steps import Steps, side_by_side
from ld_agent.storage.rows import Draft, recalls_before
from ld_agent.text import SENTENCE_END, stems_of, words_of
from ld_agent.types import Recalled, Record, Session

SESSION, DAY, WHOLE, PORTRAIT = "session", "day", "whole", "portrait"
FEWEST_WORDS = 3
NOTES_OF_A_FALLBACK = 3
ALWAYS = 1.0  # the score of records in every prompt: no cosine exceeds it
EARLIER = "earlier"
PROMPT_PART = re.compile(r"</?(?:conversation|summaries|traits)>|^\W*\d{4}-\d\d-\d\d:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Note:
    """A record to store after a session: its kind, its person or day, its text, and how many of its statements were dropped."""

    kind: str
    of: str
    text: str
    fallback: bool = False
    sources: tuple[str, ...] = ()
    dropped: int = 0


@dataclass(slots=True)
class Bank:
    """The memory before a digest.

    Attributes:
        days: by date, the summaries of the day's sessions with their source utterance ids.
        newest: the newest text of each kind, by the date or person that it is of.
    """

    days: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)
    newest: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(self, kind: str, of: str, text: str, sources: tuple[str, ...]) -> None:
        self.newest[kind, of] = text
        if kind == SESSION:
            self.days.setdefault(of, []).append((text, sources))

    def dated(self) -> list[tuple[str, str]]:
        """One summary per day, oldest first: that of the day as a whole, or of its only session."""
        return [(day, self.newest.get((DAY, day), self.newest[SESSION, day])) for day in sorted(self.days)]


class MemoryBankView(StoredView):
    """The global summary and the portraits of those present are in every prompt; of the summaries of sessions and days,
    the k nearest to the query that are not forgotten.
    """

    name = "memorybank"
    bound = "k"

    # ---- digesting sessions

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        context, bank = self.context, self._bank()
        summaries: list[Summary]
        portraits: list[list[Note]]
        known = {of: text for (kind, of), text in bank.newest.items() if kind == PORTRAIT}
        works: list[Steps[Any]] = [context.summarizer.steps(sessions), self._portraits(sessions, known)]
        summaries, portraits = yield from side_by_side(works)
        drafts: dict[int, list[Note]] = {}
        last_of_day: dict[str, int] = {}
        for session, summary, changed in zip(sessions, summaries, portraits, strict=True):
            day = session.utterances[-1].at.date().isoformat()  # in UTC
            note = self._of_session(session, day, summary)
            bank.take(SESSION, day, note.text, note.sources)
            drafts[session.number] = [note, *changed]
            last_of_day[day] = session.number
        full_days = [day for day in last_of_day if len(bank.days[day]) > 1]
        for draft in (yield from self._daily(full_days, bank)):
            bank.take(DAY, draft.of, draft.text, draft.sources)
            drafts[last_of_day[draft.of]].append(draft)
        last = sessions[-1]
        drafts[last.number].append((yield from self._whole(last, bank)))
        for session in sessions:
            own_drafts = drafts[session.number]
            vectors = context.encoder.encode([draft.text for draft in own_drafts])
            people = sum(name != context.agent for name in session.speakers)
            refused = people - sum(draft.kind == PORTRAIT for draft in own_drafts)
            stored = [
                _stored(session, draft, vector, [refused, people])
                for draft, vector in zip(own_drafts, vectors, strict=True)
            ]
            self.shelf.digest(session.number, stored)

    def _of_session(self, session: Session, day: str, summary: Summary) -> Note:
        """The summary of a session or, if the dialogue supports nothing of it, one extracted from the dialogue."""
        sources = tuple(u.id for u in session.utterances)
        said = Checked(summary.text) if summary.fallback else self._checked(summary.text, _lines(session))
        if said.text:
            return Note(SESSION, day, said.text, summary.fallback, sources, said.dropped)
        return Note(SESSION, day, self.context.summarizer.extracted(session).text, True, sources, said.dropped)

    def _checked(self, text: str, lines: Lines, about: str = "", *, when: str = "") -> Checked:
        """What the dialogue supports of a text; all of it, if texts are kept as the model wrote them."""
        context = self.context
        if not text or not context.settings.memorybank.checked:
            return Checked(text)
        return checked(text, lines, context.reading, context.check, about, alone=bool(about), when=when)

    def _bank(self) -> Bank:
        bank = Bank()
        self._records.catch_up()
        for record in self._records.fetch(range(len(self._records.keys))):
            bank.take(record.details["kind"], record.details["of"], record.text, record.sources)
        return bank

    def _portraits(self, sessions: Sequence[Session], known: Mapping[str, str]) -> Steps[list[list[Note]]]:
        """The portraits that each session changes; an unusable answer keeps the previous portrait."""
        portraits, changed = dict(known), list[list[Note]]()
        for session in sessions:
            people = [name for name in session.speakers if name != self.context.agent]
            requests = [self._portrait_request(session, name, portraits.get(name, "")) for name in people]
            answers = yield requests
            notes = [self._portrait(session, n, a, portraits) for n, a in zip(people, answers, strict=True)]
            again = [n for n, note in enumerate(notes) if note is None]
            if again and self.context.settings.memorybank.checked:
                answers = yield [retried(requests[n]) for n in again]
                for n, answer in zip(again, answers, strict=True):
                    notes[n] = self._portrait(session, people[n], answer, portraits)
            usable = [note for note in notes if note is not None]
            portraits |= {note.of: note.text for note in usable}
            changed.append(usable)
        return changed

    def _portrait(self, session: Session, person: str, answer: Completion, known: Mapping[str, str]) -> Note | None:
        """The portrait of a person in an answer; None: it is unusable, or the dialogue supports nothing of it."""
        said = " ".join([person, *(u.text for u in session.utterances)])
        text = usable_text(
            replace(answer, text=_line_about(person, answer.text)), said, self.context.reading, session.speakers
        )
        lines = [(person, sentence) for sentence in SENTENCE_END.split(known.get(person, "")) if sentence]
        portrait = self._checked(text, [*lines, *_lines(session)], person)
        if not portrait.text:
            return None
        sources = tuple(u.id for u in session.utterances if u.speaker == person)
        return Note(PORTRAIT, person, portrait.text, sources=sources, dropped=portrait.dropped)

    def _portrait_request(self, session: Session, person: str, known: str) -> Request:
        def messages(lines: Sequence[tuple[str, str]]) -> tuple[Message, ...]:
            return self.context.models.language.prompt("memorybank_portrait").render(
                person=person, known=known, lines=lines
            )

        return self._fitted(_lines(session), messages)

    def _daily(self, days: Sequence[str], bank: Bank) -> Steps[list[Note]]:
        """The summaries of days with several sessions."""
        notes = [[(day, text) for text, _ in bank.days[day]] for day in days]
        answers = (yield [self._summary_request(of_day) for of_day in notes]) if days else []
        return [
            self._summarized(DAY, day, of_day, answer, tuple(u for _, sources in bank.days[day] for u in sources))
            for day, of_day, answer in zip(days, notes, answers, strict=True)
        ]

    def _whole(self, last: Session, bank: Bank) -> Steps[Note]:
        """The global summary; for a single day it is the day's summary and needs no model.

        Its sources are the utterances of the latest session; the rest came with earlier summaries.
        """
        notes, sources = bank.dated(), tuple(u.id for u in last.utterances)
        if len(notes) == 1:
            return Note(WHOLE, "", notes[0][1], sources=sources)
        [answer] = yield [self._summary_request(notes, bank.newest.get((WHOLE, ""), ""))]
        return self._summarized(WHOLE, "", notes, answer, sources)

    def _summary_request(self, notes: Sequence[tuple[str, str]], before: str = "") -> Request:
        """The request for a summary of dated notes; if they exceed the window, ``before`` replaces the oldest."""

        def messages(shown: Sequence[tuple[str, str]]) -> tuple[Message, ...]:
            missing = [(EARLIER, before)] if before and len(shown) < len(notes) else []
            return self.context.models.language.prompt("memorybank_summary").render(notes=[*missing, *shown])

        return self._fitted(notes, messages)

    def _summarized(
        self, kind: str, of: str, notes: Sequence[tuple[str, str]], answer: Completion, sources: tuple[str, ...]
    ) -> Note:
        text = usable_text(answer, " ".join(note for _, note in notes), self.context.reading)
        dates = self.context.models.language.dates
        when = dates.years_and_months(datetime.fromisoformat(day) for day, _ in notes)
        said = self._checked(text, self._noted(notes), when=when)
        if said.text:
            return Note(kind, of, said.text, sources=sources, dropped=said.dropped)
        return Note(kind, of, " ".join(note for _, note in notes[-NOTES_OF_A_FALLBACK:]), True, sources, said.dropped)

    def _noted(self, notes: Sequence[tuple[str, str]]) -> Lines:
        """The sentences of dated summaries as lines of the people whom they name."""
        speakers = self.context.store.speakers(self.context.key)
        sentences = [sentence for _, text in notes for sentence in SENTENCE_END.split(text)]
        return [(who, sentence) for sentence in sentences for who in [n for n in speakers if n in sentence] or [""]]

    def _fitted(
        self, items: Sequence[tuple[str, str]], messages: Callable[[Sequence[tuple[str, str]]], tuple[Message, ...]]
    ) -> Request:
        """The request with the newest items that fit the window, at least one."""
        models, start = self.context.models, 0
        while len(items) - start > 1 and not models.fits("memory", messages(items[start:])):
            start += max((len(items) - start) // 4, 1)
        return models.request("memory", messages(items[start:]))

    # ---- recalling

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        settings, self.explanation = self.context.settings, {}
        self._records.catch_up()
        rows = [int(row) for row in np.flatnonzero(self._records.known(query))]
        if settings.k == 0 or not rows:
            return []
        s_sem = self._records.cosines(query)
        records = dict(zip(rows, self._records.fetch(rows), strict=True))
        newest = {(r.details["kind"], r.details["of"]): row for row, r in records.items()}
        running = {u.speaker for u in self.context.store.open_utterances(self.context.key, None)}
        standing = [
            recalled(records[row], float(s_sem[row]), score=ALWAYS)
            for (kind, of), row in sorted(newest.items(), key=lambda item: item[0][0] != WHOLE)
            if kind == WHOLE or (kind == PORTRAIT and (of in running or not running))
        ]
        pieces = [
            row
            for row, r in records.items()
            if r.details["kind"] == SESSION or (r.details["kind"] == DAY and newest[DAY, r.details["of"]] == row)
        ]
        strength, bound = settings.memorybank.strength, settings.memorybank.forgotten_below
        retained = {row: retention(records[row], query.at, strength) for row in pieces}
        forgotten = [row for row, kept in retained.items() if kept < bound or kept == 0.0]
        self.explanation = {"forgotten": {records[row].id: round(retained[row], 6) for row in forgotten}}
        recalls: list[Recalled] = []
        chosen: list[int] = []
        covered: set[str] = set()
        for row in sorted(set(pieces) - set(forgotten), key=lambda row: (-s_sem[row], -row)):
            if len(chosen) == settings.k or s_sem[row] <= settings.least_cosine:
                break
            if covered.isdisjoint(records[row].sources):  # a day or its sessions, whichever is nearer
                chosen.append(row)
                covered.update(records[row].sources)
                recalls.append(recalled(records[row], float(s_sem[row]), decay=retained[row]))
        if chosen:
            keys = [self._records.keys[row] for row in chosen]
            self.shelf.note_recall(keys, query.at)
        return [*standing, *recalls]


def retention(record: Record, at: datetime, strength: float) -> float:
    """Ebbinghaus' curve R = exp(-Δt / S): Δt the seconds since the record was made or last recalled, S = s (1 + recalls).

    Args:
        at: the time of the query; recalls at that time and later do not count, so that repeating a query changes
            nothing.
        strength: s in seconds.

    Returns:
        R in [0, 1].
    """
    recalls, last = recalls_before(record.details, at)
    age = (at - max(record.at, last or record.at)).total_seconds()
    return math.exp(-age / (strength * (1 + recalls)))


def usable_text(answer: Completion, source: str, reading: Reading, speakers: Sequence[str] = ()) -> str:
    """The text of a model's answer; "": it is not about its source, or repeats the prompt.

    Args:
        speakers: of the dialogue that the prompt shows.
    """
    text = cleaned_answer(answer, reading)
    if PROMPT_PART.search(text) or any(f"{speaker}:" in text for speaker in speakers):
        return ""
    about_it = stems_of(text, reading) & stems_of(source, reading)
    return text if len(words_of(text)) >= FEWEST_WORDS and about_it else ""


def _line_about(name: str, answer: str) -> str:
    """The part of an answer about one person, if it has a line for each; otherwise the whole answer."""
    for line in answer.splitlines():
        rest, labelled = line.strip(), False
        while (label := re.match(rf"[ *-]*{re.escape(name)}[ *-]*[:：]", rest)) is not None:  # sometimes repeated
            rest, labelled = rest[label.end() :].strip(), True
        if labelled and name in rest:
            return rest
    return answer


def _lines(session: Session) -> Lines:
    return [(u.speaker, u.text) for u in session.utterances]


def _stored(session: Session, note: Note, vector: Vectors, portraits: Sequence[int]) -> Draft:
    """A note as a draft; ``portraits``: the number of unusable answers of the session, and of all."""
    return Draft(
        text=note.text,
        at=session.utterances[-1].at,
        session=session.number,
        vector=vector,
        sources=note.sources,
        fallback=note.fallback,
        rewritten=note.kind != SESSION,
        details={"kind": note.kind, "of": note.of}
        | dropped_in(note.dropped)
        | ({"portraits": portraits} if note.kind == SESSION else {}),
    )
