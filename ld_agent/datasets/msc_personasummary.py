"""Multi-Session Chat with the persona facts that each utterance reveals: `msc_personasummary/session_N/*.txt`.

Each file holds one session of every episode. Sessions 1 to N of an episode are joined by `initial_data_id` from files of
the same name in the sibling folders. The gap after a session is the `prompt_time` of its follow-up task, or else one
day; where both corpora state a gap, it equals that of `msc_dialogue`.

The traits of an utterance are the sentences of its `persona_text`; an utterance without it has none. The corpus split
and shuffled some sentences at the full stops of abbreviations ("Seuss's book. I like Dr."); these are read from the
annotator's original wording in `problem_data` instead.
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
    """Yield one episode per line, joined with its earlier sessions.

    A file outside a ``session_N`` folder is read alone, as session 1.

    Raises:
        InputError: a sibling folder lacks the file.
    """
    earlier = [_Sibling(sibling, report) for sibling in _siblings(path)]
    unique = UniqueIds()
    return built(json_lines(path, report), lambda record: _episode(record, earlier, unique), report)


def read_annotated(path: Path, report: Report) -> Iterator[list[AnnotatedUtterance]]:
    """Yield the utterances of each session of one file, without joining earlier ones."""
    number, unique = _session_number(path) or 1, UniqueIds()
    return built(json_lines(path, report), lambda record: _annotated(record, number, unique), report)


def traits_of(utterance: Record) -> tuple[str, ...]:
    """Return the annotated traits of one utterance, in corpus order."""
    annotation = utterance.values.get("persona_text")
    if not isinstance(annotation, str):
        return ()
    worded = _problem_data(utterance).get("persona")
    if isinstance(worded, str) and _ABBREVIATION.search(worded):
        annotation = worded
    sentences = _SENTENCE_END.split(annotation.strip())
    return tuple(sentence for sentence in sentences if any(character.isalnum() for character in sentence))


class _Sibling:
    """The file of an earlier session, read lazily as far as its records are requested."""

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
        joined = sibling.session(name)
        if joined is None:
            raise record.error(f"initial_data_id {name!r} has no readable record in {sibling.path}")
        records.append(joined)
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
    data = utterance.values.get("problem_data")
    return data if isinstance(data, dict) else {}


def _session_number(path: Path) -> int | None:
    match = re.fullmatch(r"session_([1-9]\d*)", path.absolute().parent.name)
    return int(match.group(1)) if match else None


def _siblings(path: Path) -> list[Path]:
    number = _session_number(path) or 1
    siblings = [path.absolute().parent.parent / f"session_{n}" / path.name for n in range(1, number)]
    for sibling in siblings:
        if not sibling.is_file():
            raise InputError(
                f"{path} is session {number}, but the earlier session {sibling} does not exist; add it, or move the file "
                "to a folder that is not named session_N to read it alone"
            )
    return siblings
