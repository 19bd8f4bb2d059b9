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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedUtterance, Episode, annotated
from ld_agent.datasets.dating import DEFAULT_GAP, dated_back
from ld_agent.datasets.msc import AGENT, SPEAKERS, duration, personas_of, said_in
from ld_agent.datasets.records import Record, built, episodes, json_lines, unique_ids
from ld_agent.errors import InputError

ID = "initial_data_id"
_NAMES = {"bot_0": SPEAKERS[0], "bot_1": SPEAKERS[1]}
_ABBREVIATION = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St)\.|\b(?:[A-Z]\.){2,}")
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bSt\.)(?:(?<!\.[A-Z]\.)\s+|\s+(?=[A-Z]))"
)


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "dialog" in value and ID in value


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line, joined with its earlier sessions.

    A file outside a ``session_N`` folder is read alone, as session 1.

    Raises:
        InputError: a sibling folder lacks the file.
    """
    earlier = {sibling: {str(r.values.get(ID)): r for r in json_lines(sibling)} for sibling in _siblings(path)}
    return episodes(json_lines(path), lambda record: _episode(record, earlier))


def read_annotated(path: Path) -> Iterator[list[AnnotatedUtterance]]:
    """Yield the utterances of each session of one file, without joining earlier ones."""
    number, unique = _session_number(path) or 1, unique_ids()

    def utterances(record: Record) -> list[AnnotatedUtterance]:
        said = zip(said_in(record, _NAMES), _traits(record), strict=True)
        return list(annotated(unique(record.text(ID)), [(number, *one, traits) for one, traits in said]))

    return built(json_lines(path), utterances)


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


def _episode(record: Record, earlier: Mapping[Path, Mapping[str, Record]]) -> Episode:
    name = record.text(ID)
    for sibling, by_id in earlier.items():
        if name not in by_id:
            raise record.error(f"{ID} {name!r} has no readable record in {sibling}")
    records = [*(by_id[name] for by_id in earlier.values()), record]
    sessions = {number: said_in(holder, _NAMES) for number, holder in enumerate(records, 1)}
    turns = dated_back(sessions, [_gap_after(holder) for holder in records[:-1]])
    traits = [revealed for holder in records for revealed in _traits(holder)]
    turns = tuple(replace(turn, traits=of_turn) for turn, of_turn in zip(turns, traits, strict=True))
    personas = personas_of(record.record("init_personachat"), "init_personas") if "init_personachat" in record else {}
    return Episode(name, AGENT, turns, personas)


def _traits(holder: Record) -> list[tuple[str, ...]]:
    return [traits_of(utterance) for utterance in holder.records("dialog")]


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
