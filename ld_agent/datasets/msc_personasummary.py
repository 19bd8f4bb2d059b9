"""Multi-Session Chat with the persona facts that each utterance revealed: `msc_personasummary/session_N/*.txt`.

Each file holds one session of every episode; sessions 1 to N of an episode are joined by `initial_data_id` from the
sibling folders, file of the same name. The gap after a session is the `prompt_time` that its follow-up task was given
(equal to the gaps of `msc_dialogue`, and there for the last session too), else one day.

The annotation of an utterance is its `persona_text`, one trait a sentence; an utterance without it has no traits. Its
sentences had been cut at the full stops of abbreviations and shuffled ("Seuss's book. I like Dr."); such a one is read
from the annotator's own wording in `problem_data` instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedUtterance, Episode, Report, Turn, annotated
from ld_agent.datasets.dating import DEFAULT_GAP, dated_back
from ld_agent.datasets.msc import AGENT, SPEAKERS, duration, personas_of, speakers_of
from ld_agent.datasets.records import Record, UniqueIds, built, json_lines
from ld_agent.errors import InputError

_NAMES = {"bot_0": SPEAKERS[0], "bot_1": SPEAKERS[1]}
_ABBREVIATION = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St)\.|\b(?:[A-Z]\.){2,}")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?:(?<!\.[A-Z]\.)\s+|\s+(?=[A-Z]))"
)


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "dialog" in value and "initial_data_id" in value


def read(path: Path, report: Report) -> Iterator[Episode]:
    """Yield one episode a line, joined with its earlier sessions.

    A file outside a ``session_N`` folder is read alone, as session 1.

    Raises:
        InputError: a sibling folder lacks the file.
    """
    earlier = [_Sibling(sibling, report) for sibling in _siblings(path)]
    unique = UniqueIds()
    return built(json_lines(path, report), lambda record: _episode(record, earlier, unique), report)


def read_annotated(path: Path, report: Report) -> Iterator[list[AnnotatedUtterance]]:
    """Yield the utterances of each session of one file, nothing joined."""
    number, unique = _session_number(path) or 1, UniqueIds()
    return built(json_lines(path, report), lambda record: _annotated(record, number, unique), report)


def traits_of(utterance: Record) -> tuple[str, ...]:
    """Return the annotated traits of one utterance, in the corpus's order; () if it has none."""
    annotation = utterance.values.get("persona_text")
    if not isinstance(annotation, str):
        return ()
    worded = _problem_data(utterance).get("persona")
    if isinstance(worded, str) and _ABBREVIATION.search(worded):
        annotation = worded
    sentences = _SENTENCE_END.split(annotation.strip())
    return tuple(sentence for sentence in sentences if any(character.isalnum() for character in sentence))


class _Sibling:
    """An earlier session's file, read no further than the records asked for so far."""

    def __init__(self, path: Path, report: Report) -> None:
        self.path = path
        self._records = json_lines(path, report)
        self._passed: dict[str, Record] = {}

    def session(self, name: str) -> Record | None:
        while name not in self._passed:
            record = next(self._records, None)
            if record is None:
                return None
            self._passed.setdefault(str(record.values.get("initial_data_id")), record)
        return self._passed.pop(name)


def _episode(record: Record, earlier: list[_Sibling], unique: UniqueIds) -> Episode:
    name = record.text("initial_data_id")
    records = []
    for sibling in earlier:
        found = sibling.session(name)
        if found is None:
            raise record.error(f"initial_data_id {name!r} has no readable record in {sibling.path}")
        records.append(found)
    records.append(record)
    sessions = [_utterances(holder) for holder in records]
    times = dated_back([len(session) for session in sessions], [_gap_after(holder) for holder in records[:-1]])
    turns = []
    for number, (session, at) in enumerate(zip(sessions, times, strict=True), start=1):
        for (utterance, speaker), moment in zip(session, at, strict=True):
            turns.append(Turn(speaker, utterance.text("text").strip(), moment, number, traits_of(utterance)))
    personas = personas_of(record.record("init_personachat"), "init_personas") if "init_personachat" in record else {}
    return Episode(unique(name), AGENT, tuple(turns), personas, record.source)


def _annotated(record: Record, session: int, unique: UniqueIds) -> list[AnnotatedUtterance]:
    said = [(session, speaker, u.text("text").strip(), traits_of(u)) for u, speaker in _utterances(record)]
    return list(annotated(unique(record.text("initial_data_id")), said))


def _utterances(record: Record) -> list[tuple[Record, str]]:
    utterances = record.records("dialog")
    if not utterances:
        raise record.error("dialog has no utterances")
    return list(zip(utterances, speakers_of(utterances, _NAMES), strict=True))


def _gap_after(record: Record) -> timedelta:
    for utterance in record.records("dialog"):
        stated = _problem_data(utterance).get("prompt_time")
        if isinstance(stated, str) and (gap := duration(stated)) is not None:
            return gap
    return DEFAULT_GAP


def _problem_data(utterance: Record) -> dict[str, Any]:
    found = utterance.values.get("problem_data")
    return found if isinstance(found, dict) else {}


def _session_number(path: Path) -> int | None:
    match = re.fullmatch(r"session_([1-9]\d*)", path.absolute().parent.name)
    return int(match.group(1)) if match else None


def _siblings(path: Path) -> list[Path]:
    number = _session_number(path) or 1
    siblings = [path.absolute().parent.parent / f"session_{n}" / path.name for n in range(1, number)]
    for sibling in siblings:
        if not sibling.is_file():
            raise InputError(
                f"{path} is session {number}, but there is no {sibling} to join it with; "
                "put the earlier sessions beside it, or read the file alone from a folder of another name"
            )
    return siblings
