"""The project's own format, one conversation per line; documented in `data/README.md`.

Reading returns exactly what was written: texts are unchanged, times keep their microseconds, and session numbers that
the corpus skipped are kept as empty lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedMemory, Episode, Turn
from ld_agent.datasets.records import Record, Report, built, current_report, json_lines
from ld_agent.errors import DataFileError, InputError
from ld_agent.types import iso

_KEYS = ("id", "agent", "personas", "memories", "sessions", "utterances", "questions")
_UTTERANCE_KEYS = ("speaker", "text", "at", "traits")


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "agent" in value and ("sessions" in value or "utterances" in value)


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line. A repeated id makes the second record bad; of a bad part only that is skipped."""
    seen: dict[str, int | None] = {}

    def build(record: Record) -> Episode:
        episode = _episode(record)
        if episode.id in seen:
            raise record.error(f"id {episode.id!r} was already used in line {seen[episode.id]}; ids must be unique")
        seen[episode.id] = record.line
        return episode

    return built(json_lines(path), build)


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write episodes to a file, one per line, replacing its content.

    Raises:
        InputError: the session numbers of an episode decrease or are given for only some of its turns, or the file
            cannot be written.
    """
    lines = [json.dumps(_values(episode), ensure_ascii=False) + "\n" for episode in episodes]
    try:
        Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as exc:
        raise InputError(f"{path} cannot be written: {exc.strerror}; choose a writable folder") from exc


def _episode(record: Record) -> Episode:
    record.refuse_unknown(_KEYS)
    if ("sessions" in record) == ("utterances" in record):
        raise record.error(
            'needs either "sessions" (given boundaries) or "utterances" (split by the gap β), but not both'
        )
    turns = turns_of(record, current_report())
    if not turns:
        raise record.error("the conversation has no utterances")
    memories = tuple(_memory(memory) for memory in record.records("memories")) if "memories" in record else ()
    name, agent = record.text("id"), record.text("agent")
    personas = _facts(record.record("personas")) if "personas" in record else {}
    episode = Episode(name, agent, tuple(turns), personas, record.source, memories)
    for name in (episode.agent, *episode.personas, *(name for memory in memories for name in memory.facts)):
        if name not in episode.speakers:
            raise record.error(f"{name!r} does not speak here; the speakers are {', '.join(episode.speakers)}")
    return episode


def turns_of(record: Record, report: Report) -> list[Turn]:
    """The turns of a conversation; a session, or an utterance outside sessions, that is bad or too early is left out."""
    parts: list[tuple[Record, int | None]]
    if "utterances" in record:
        parts = [(utterance, None) for utterance in record.records("utterances")]
    else:
        sessions = [{"sessions": utterances} for utterances in record.items("sessions")]
        parts = [(Record(s, record.path, record.line, f"session {n}"), n) for n, s in enumerate(sessions, start=1)]
    turns: list[Turn] = []
    for part, number in parts:
        try:
            turns += _part(part, number, turns[-1:])
        except DataFileError as exc:
            report(exc)
    return turns


def _part(part: Record, number: int | None, before: Sequence[Turn]) -> list[Turn]:
    """The turns of a session, or of one utterance outside sessions; none is earlier than the one before it."""
    utterances = [part] if number is None else part.records("sessions")
    turns = [_turn(utterance, number) for utterance in utterances]
    for earlier, later in pairwise([*before, *turns]):
        if later.at < earlier.at:
            raise part.error(f"at={iso(later.at)} comes after at={iso(earlier.at)}; put the utterances in time order")
    return turns


def _turn(utterance: Record, session: int | None) -> Turn:
    utterance.refuse_unknown(_UTTERANCE_KEYS)
    traits = tuple(utterance.texts("traits")) if "traits" in utterance else None
    return Turn(utterance.text("speaker"), utterance.text("text"), utterance.time("at"), session, traits)


def _memory(record: Record) -> AnnotatedMemory:
    record.refuse_unknown(("at", "facts"))
    facts = record.record("facts")
    return AnnotatedMemory(record.time("at"), _facts(facts))


def _facts(record: Record) -> dict[str, tuple[str, ...]]:
    return {name: tuple(record.texts(name)) for name in record.values}


def _values(episode: Episode) -> dict[str, Any]:
    values: dict[str, Any] = {"id": episode.id, "agent": episode.agent}
    if episode.personas:
        values["personas"] = dict(episode.personas)
    if episode.memories:
        values["memories"] = [{"at": iso(memory.at), "facts": dict(memory.facts)} for memory in episode.memories]
    numbers = [turn.session for turn in episode.turns]
    if all(number is None for number in numbers):
        return values | {"utterances": [_utterance(turn) for turn in episode.turns]}
    sessions: list[list[dict[str, Any]]] = []
    for turn in episode.turns:
        if turn.session is None or turn.session < max(len(sessions), 1):
            raise InputError(
                f"conversation {episode.id!r} has sessions {numbers}; number all turns in ascending order from 1, or none"
            )
        while len(sessions) < turn.session:
            sessions.append([])
        sessions[-1].append(_utterance(turn))
    return values | {"sessions": sessions}


def _utterance(turn: Turn) -> dict[str, Any]:
    values: dict[str, Any] = {"speaker": turn.speaker, "text": turn.text, "at": iso(turn.at)}
    if turn.traits is not None:
        values["traits"] = turn.traits
    return values
