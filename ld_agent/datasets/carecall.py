"""CareCall-Memory (Bae et al., 2022), Korean check-up calls: a JSON list of episodes, each a list of sessions.

The annotated memory after a call is the ``memory`` of the next one; after the last, its ``memory`` and ``summary`` together.

The corpus has no dates: calls are placed one day apart (`dating.DEFAULT_GAP`) and dated backwards; see `dating`. The
caller (role "system") is the agent, "Assistant"; the person called is "User". The agent speaks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedMemory, Episode, Report, Turn
from ld_agent.datasets.dating import DEFAULT_GAP, dated_back
from ld_agent.datasets.records import Record, UniqueIds, built, json_document
from ld_agent.errors import DataFileError

AGENT = "Assistant"
_NAMES = {"system": AGENT, "user": "User"}


def recognises(value: Any) -> bool:
    if not isinstance(value, list) or not value or not isinstance(value[0], list) or not value[0]:
        return False
    return isinstance(value[0][0], dict) and "dialogue" in value[0][0]


def read(path: Path, report: Report) -> Iterator[Episode]:
    """Yield one episode per list entry, after reading the whole document.

    An episode's id is the guid of its first session without the session suffix ("interactive-35").
    """
    unique = UniqueIds()
    episodes = json_document(path)
    if not isinstance(episodes, list):
        raise DataFileError(path, None, "a CareCall file is a list of episodes")
    records = (Record({"sessions": sessions}, path, None, f"[{i}]") for i, sessions in enumerate(episodes))
    return built(records, lambda record: _episode(record, unique), report)


def _episode(record: Record, unique: UniqueIds) -> Episode:
    holders = record.records("sessions")
    sessions = [utterances for holder in holders if (utterances := holder.records("dialogue"))]
    if not sessions:
        raise record.error("the episode has no utterances")
    times = dated_back([len(session) for session in sessions], [DEFAULT_GAP] * (len(sessions) - 1))
    turns = []
    for number, (session, at) in enumerate(zip(sessions, times, strict=True), start=1):
        for utterance, moment in zip(session, at, strict=True):
            role = utterance.text("role")
            if role not in _NAMES:
                raise utterance.error(f"role {role!r} is neither system nor user")
            turns.append(Turn(_NAMES[role], utterance.text("text").strip(), moment, number))
    held = [holder for holder in holders if holder.records("dialogue")]
    known = [tuple(dict.fromkeys(following.texts("memory"))) for following in held[1:] if "memory" in following]
    known += (
        [tuple(dict.fromkeys([*held[-1].texts("memory"), *held[-1].texts("summary")]))] if "memory" in held[-1] else []
    )
    ends = [at[-1] for at in times]
    memories = tuple(AnnotatedMemory(end, {"User": facts}) for end, facts in zip(ends, known, strict=True) if facts)
    name = holders[0].text("guid").rsplit("-S", 1)[0]
    return Episode(unique(name), AGENT, tuple(turns), {}, record.source, memories)
