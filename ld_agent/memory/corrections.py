"""Carries what a person corrected or forgot by hand to everything else that says it.

A sentence says a statement if it has all of its content words. What was only made of the lines (memories, traits, the agent's
own lines) must also do without words that no line contains any more, unless it is older than they are. Pure functions over
text; knows no store and no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ld_agent.checks.statements import occurs
from ld_agent.languages.reading import Reading
from ld_agent.prompts import as_name
from ld_agent.text import EAST_ASIAN, REPORTING, SENTENCE_END, stems, stems_listed, stems_of
from ld_agent.types import Record, Utterance

_BETWEEN = re.compile(f"({SENTENCE_END.pattern})")
_END = " .!。！"
Change = Callable[[str], str]
"""A sentence as it shall be; "": it goes."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A statement that holds no longer.

    Attributes:
        old: the statement.
        reading: how texts are read.
        new: what holds instead; "": nothing, it is forgotten.
        speaker: who stated it; "": anyone.
        sources: ids of utterances that say it in whatever words.
        kept: other statements of the same utterances, which still hold.
        reworded: lines say it in other words, as those that a memory sums up.
    """

    old: str
    reading: Reading
    new: str = ""
    speaker: str = ""
    sources: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()
    reworded: bool = False

    def said_in(self, sentence: str, names: str) -> bool:
        """Whether a sentence says the statement, and not yet what holds instead.

        Args:
            names: of the participants; they do not count as content.
        """
        wanted, words = self._content(self.old, names), stems_of(sentence, self.reading)
        if self.reworded and self.new:
            common = wanted & self._content(self.new, names)
            return bool((wanted - common) & words) and 0 < len(common) <= 2 * len(common & words)
        if not wanted or not wanted <= words or (self.new and self._content(self.new, names) <= words):
            return False
        if len(wanted) == 1 and self._content(sentence, names) - wanted:  # "I sing." is not "I sing in a choir."
            return False
        denies = self.reading.patterns["negated"].search
        return not self.new or (denies(sentence) is None) == (denies(self.old) is None)

    def _content(self, text: str, names: str) -> set[str]:
        return content(text, self.reading, names)

    @property
    def adds(self) -> bool:
        """Whether the statement still holds, with something added: a shorter one that says it is not wrong."""
        return bool(self.new) and self._content(self.old, "") <= self._content(self.new, "")

    def applied(self, sentence: str, otherwise: str) -> str:
        """A sentence that says the statement, corrected in place if possible, or else ``otherwise``."""
        if not self.new:
            return otherwise
        old, new = self.old.split(), self.new.split()
        start = _shared(old, new)
        end = _shared(old[start:][::-1], new[start:][::-1])
        spans = (old, new), (old[start : len(old) - end], new[start : len(new) - end])
        for before, after in spans:
            wrong, right = " ".join(before).strip(_END), " ".join(after).strip(_END)
            found = list(re.finditer(rf"(?<!\w){re.escape(wrong)}(?!\w)", sentence, re.IGNORECASE)) if wrong else []
            if len(found) == 1:
                return sentence[: found[0].start()] + right + sentence[found[0].end() :]
        return otherwise


def _shared(some: Sequence[str], others: Sequence[str]) -> int:
    """The number of leading words that two lists share."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(some), len(others)))


def content(text: str, reading: Reading, names: str = "") -> set[str]:
    """The stems of a text that tell something."""
    return stems_of(text, reading) - stems_listed("saying_nothing", reading) - REPORTING - stems_of(names, reading)


def corrected_lines(
    correction: Correction, said: Sequence[Utterance], agent: str, names: Sequence[str]
) -> dict[str, str]:
    """The new texts of the utterances that say a statement, by id; "": nothing is left.

    What other people say about themselves is not touched.
    """
    known = " ".join(names)
    begins = [] if EAST_ASIAN.search(correction.old) else list(content(correction.old, correction.reading, known))
    lines: dict[str, str] = {}
    for utterance in said:
        is_source = utterance.id in correction.sources
        if not (is_source or correction.reworded) and not all(stem in utterance.text.casefold() for stem in begins):
            continue
        may_say = correction.speaker in ("", utterance.speaker) or utterance.speaker == agent
        if is_source or may_say or occurs(correction.speaker, utterance.text):
            text = _corrected_line(correction, utterance, agent, known, is_source)
            if text != utterance.text:
                lines[utterance.id] = text
    return lines


def _corrected_line(correction: Correction, utterance: Utterance, agent: str, names: str, is_source: bool) -> str:
    by_agent, reading = utterance.speaker == agent != correction.speaker, correction.reading

    def corrected(sentence: str) -> str:
        kept = " ".join(
            text for text in correction.kept if content(text, reading, names) <= stems_of(sentence, reading)
        )
        return correction.applied(sentence, "" if by_agent else f"{correction.new} {kept}".strip())

    text = rewritten(utterance.text, lambda s: corrected(s) if correction.said_in(s, names) else s)
    if text != utterance.text or not is_source or by_agent:
        return text
    wanted = content(correction.old, reading, names)
    if (new := content(correction.new, reading, names)) and new <= stems_of(utterance.text, reading):
        return text
    best = max(_BETWEEN.split(utterance.text)[::2], key=lambda sentence: len(wanted & stems_of(sentence, reading)))
    if wanted & stems_of(best, reading):
        return rewritten(utterance.text, lambda sentence: corrected(sentence) if sentence == best else sentence)
    return " ".join([correction.new, *correction.kept]).strip()  # "Yes, I am."


def rewritten(text: str, change: Change, names: Sequence[str] = ()) -> str:
    """A text with each of its sentences changed. Lines with nothing left go; "Ann: " before a sentence stays with what follows.

    Args:
        names: of speakers, as they begin lines.
    """
    label = re.compile("|".join(f"{re.escape(as_name(name))}: " for name in names) or "(?!)")
    lines = []
    for line in text.split("\n"):
        changed = _changed_line(line, change, label)
        if changed or not line:
            lines.append(changed)
    return "\n".join(lines)


def _changed_line(line: str, change: Change, label: re.Pattern[str]) -> str:
    pieces, kept, waiting = _BETWEEN.split(line), list[str](), ""
    for piece, gap in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        start = label.match(piece)
        prefix, sentence = (start.group(), piece[start.end() :]) if start else (waiting, piece)
        new = change(sentence)
        if new == sentence or (new and not any(new in other for other in kept)):
            kept += [new if new.startswith(prefix) else prefix + new, gap]
            waiting = ""
        else:
            waiting = prefix
    return line if kept[::2] == pieces[::2] else "".join(kept).strip()


@dataclass(frozen=True, slots=True)
class Carried:
    """Corrections with the lines they changed, to be carried to what was made of these lines.

    Attributes:
        before, after: the texts of the changed lines by id.
        lost: words that were said before and that no line contains any more.
        since: when the first of the changed lines was said: what is older was not made of them.
        marks: beginnings of words, one of which every text that is concerned contains.
        speakers: of the changed lines by id.
        names: of all participants.
        reading: how texts are read.
    """

    corrections: Sequence[Correction]
    before: Mapping[str, str]
    after: Mapping[str, str]
    speakers: Mapping[str, str]
    lost: frozenset[str]
    since: datetime
    marks: frozenset[str]
    names: Sequence[str]
    reading: Reading

    @classmethod
    def over(
        cls,
        corrections: Sequence[Correction],
        lines: Mapping[str, str],
        said: Sequence[Utterance],
        agent: str,
        reading: Reading,
    ) -> Carried:
        """Corrections over all that was said; includes the agent's lines that lose their support."""
        names = list(dict.fromkeys(u.speaker for u in said))
        changed = [u for u in said if u.id in lines]
        speakers = {correction.speaker for correction in corrections}
        since = min((u.at for u in changed), default=datetime.max.replace(tzinfo=UTC))
        evidence = [u for u in said if u.speaker != agent or u.speaker in speakers or u.at < since]
        lost = _lost(changed, lines, evidence, names, reading)
        marks = frozenset(word[:4] for c in corrections for word in {*lost, *content(c.old, reading, " ".join(names))})
        texts, by = {u.id: u.text for u in changed}, {u.id: u.speaker for u in changed}
        carried = cls(corrections, texts, lines, by, lost, since, marks, names, reading)
        echoed = [] if agent in speakers else [u for u in said if u.speaker == agent and u.id not in lines]
        echoes = {u.id: (u.text, text) for u in echoed if (text := carried.text(u.text, u.at)) != u.text}
        return replace(
            carried,
            before=texts | {i: before for i, (before, _) in echoes.items()},
            after={**lines, **{i: after for i, (_, after) in echoes.items()}},
            speakers=by | dict.fromkeys(echoes, agent),
        )

    def text(self, text: str, at: datetime, otherwise: Callable[[Correction], str] = lambda correction: "") -> str:
        """A text made of the lines, corrected.

        Args:
            at: when the last of what it was made of was said.
            otherwise: what a sentence becomes that cannot be corrected in place.
        """
        folded, names = text.casefold(), " ".join(self.names)
        lost = self._lost_by(at)
        if not any(mark in folded for mark in self.marks):
            return text

        def corrected(sentence: str) -> str:
            for correction in self.corrections:
                if correction.said_in(sentence, names):
                    sentence = correction.applied(sentence, otherwise(correction))
            if lost.isdisjoint(stems(sentence, self.reading)):
                return sentence
            replaced = (c.applied(sentence, "") for c in self.corrections if c.new)
            fitting = (text for text in replaced if text and lost.isdisjoint(stems(text, self.reading)))
            return next(fitting, " ".join(otherwise(correction) for correction in self.corrections).strip())

        return rewritten(text, corrected, self.names)

    def record(self, record: Record, topics: Iterable[str] = ()) -> Record:
        """A memory, corrected; its text is "" if nothing is left.

        Args:
            topics: of what holds instead.
        """
        text, names = record.text, self.names
        for i in record.sources:
            if i in self.before:
                line = f"{as_name(self.speakers[i])}: "
                text = text.replace(line + self.before[i], line + self.after[i] if self.after[i] else "")
        text = "\n".join(line.strip() for line in text.split("\n") if line.strip())

        def own_words(correction: Correction) -> str:
            return f"{as_name(correction.speaker or names[0])}: {correction.new}" if correction.new else ""

        text = self.text(text, record.at, own_words)
        sources = tuple(i for i in record.sources if self.after.get(i) != "")
        kept = [topic for topic in record.topics if self._lost_by(record.at).isdisjoint(stems(topic, self.reading))]
        new = topics if text != record.text else ()
        return replace(
            record,
            text="" if record.sources and not sources else text,
            sources=sources,
            topics=tuple(sorted({*kept, *new})) if record.topics else (),
            details=self._details(record.details, record.at),
        )

    def _lost_by(self, at: datetime) -> frozenset[str]:
        """The words that what was made at a time must do without."""
        return self.lost if at >= self.since else frozenset()

    def _details(self, value: Any, at: datetime) -> Any:
        if isinstance(value, str):
            return self.text(value, at)
        if isinstance(value, Mapping):
            return {key: self._details(item, at) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [kept for item in value if (kept := self._details(item, at)) != ""]
        return value


def _lost(
    changed: Sequence[Utterance],
    lines: Mapping[str, str],
    evidence: Sequence[Utterance],
    names: Sequence[str],
    reading: Reading,
) -> frozenset[str]:
    """The words of changed lines that no line of ``evidence`` contains any more."""
    empty = stems_listed("saying_nothing", reading) | REPORTING
    lost = {w for u in changed for w in stems(u.text, reading) if not stems_of(w, reading) & empty}
    lost -= set(stems(" ".join(names), reading))
    for utterance in evidence:
        text = lines.get(utterance.id, utterance.text)
        if any(word[:4] in text.casefold() for word in lost):
            lost -= set(stems(text, reading))
    return frozenset(lost)
