"""Multi-Session Chat (Xu et al., 2022), dialogues as released: `msc_dialogue/session_N/*.txt`.

A record holds the current session (`dialog`) and those before it (`previous_dialogs`). The corpus gives gaps between
sessions but no dates; `dating` turns them into times. Speakers alternate in every session, beginning with "Speaker 1".
Earlier sessions have no speaker ids, and some current ones have an annotator's number instead of a name. The agent is
"Speaker 2".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedMemory, Episode
from ld_agent.datasets.dating import dated_back
from ld_agent.datasets.records import Record, episodes, json_lines

SPEAKERS = ("Speaker 1", "Speaker 2")
AGENT = SPEAKERS[1]

_UNITS = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_STATED = re.compile(r"(?<!\d)(\d++)\s+(minute|hour|day|week)s?\b")


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "dialog" in value and "previous_dialogs" in value


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line: the earlier sessions and the current one, numbered from 1."""
    return episodes(json_lines(path), _episode)


def duration(text: str) -> timedelta | None:
    """Parse a stated gap such as "6 days 3 hours ago"; None if the text states none."""
    seconds = sum(int(number) * _UNITS[unit] for number, unit in _STATED.findall(text))
    return timedelta(seconds=seconds) if seconds else None


def said_in(holder: Record, names: dict[str, str]) -> list[tuple[str, str]]:
    """Return speaker and text of each utterance of a session.

    ``names`` maps the corpus's ids to speakers. An utterance without an id, or with an annotator's number as its id,
    goes to whoever is next, beginning with "Speaker 1".

    Raises:
        DataFileError: there are none, or an id is neither known nor a number.
    """
    said: list[tuple[str, str]] = []
    for utterance in holder.records("dialog"):
        speaker = SPEAKERS[1] if said and said[-1][0] == SPEAKERS[0] else SPEAKERS[0]
        given = utterance.values.get("id")
        if isinstance(given, str) and given in names:
            speaker = names[given]
        elif given is not None and not str(given).isdigit():
            raise utterance.error(f"id {given!r} is not one of {', '.join(names)}")
        said.append((speaker, utterance.text("text").strip()))
    if not said:
        raise holder.error("dialog has no utterances")
    return said


def personas_of(record: Record, key: str) -> dict[str, tuple[str, ...]]:
    """Return the two lists of persona sentences under ``key``, by speaker."""
    lists = record.items(key)
    if len(lists) != len(SPEAKERS) or not all(isinstance(facts, list) for facts in lists):
        raise record.error(f"{key} must be two lists, one for each speaker")
    return {
        speaker: tuple(fact.strip() for fact in facts if isinstance(fact, str) and fact.strip())
        for speaker, facts in zip(SPEAKERS, lists, strict=True)
    }


def _episode(record: Record) -> Episode:
    earlier = record.records("previous_dialogs")
    names = {name: name for name in SPEAKERS}
    sessions = {number: said_in(holder, names) for number, holder in enumerate([*earlier, record], 1)}
    turns = dated_back(sessions, _gaps(earlier))
    personas = personas_of(record, "personas")
    ends = {turn.session: turn.at for turn in turns}.values()
    memories = tuple(
        AnnotatedMemory(end, facts) for end, facts in zip(ends, _memories(earlier, personas), strict=False)
    )
    name = record.record("metadata").text("initial_data_id")
    return Episode(name, AGENT, turns, personas, memories=memories)


def _memories(earlier: list[Record], known: dict[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
    """The facts after each earlier session: those annotated up to it; after the last, those the record states."""
    so_far: dict[str, tuple[str, ...]] = {}
    for session in earlier[:-1]:
        noted = personas_of(session, "personas") if "personas" in session else {}
        so_far = {s: tuple(dict.fromkeys([*so_far.get(s, ()), *noted.get(s, ())])) for s in SPEAKERS}
        yield so_far
    if earlier:
        yield known


def _gaps(earlier: list[Record]) -> list[timedelta]:
    """Return the gap after each earlier session: as stated, or derived from its age and that of the next session."""
    gaps = []
    for session, next_session in zip(earlier, [*earlier[1:], None], strict=True):
        if "time_num" in session and "time_unit" in session:
            gap = duration(f"{session.integer('time_num')} {session.text('time_unit')}")
        else:
            distance = duration(session.text("time_back"))
            next_distance = duration(next_session.text("time_back")) if next_session else timedelta()
            gap = None if distance is None or next_distance is None else distance - next_distance
        if gap is None or gap <= timedelta():
            stated = [session.values.get(key) for key in ("time_num", "time_unit", "time_back")]
            raise session.error(f"time_num, time_unit, time_back = {stated} do not state a gap such as 5 hours")
        gaps.append(gap)
    return gaps
