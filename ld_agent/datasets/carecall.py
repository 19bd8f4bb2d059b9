"""CareCall-Memory (Bae et al., 2022), Korean check-up calls: a JSON list of episodes, each a list of sessions.

The annotated memory after a call is the ``memory`` of the next one; after the last, its ``memory`` and ``summary`` together.

The corpus has no dates: calls are placed one day apart (`dating.DEFAULT_GAP`) and dated backwards; see `dating`. The
caller (role "system") is the agent, "Assistant"; the person called is "User". The agent speaks first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import AnnotatedMemory, Episode
from ld_agent.datasets.dating import DEFAULT_GAP, dated_back
from ld_agent.datasets.records import Record, episodes, json_list

AGENT = "Assistant"
_NAMES = {"system": AGENT, "user": "User"}


def recognises(value: Any) -> bool:
    if not isinstance(value, list) or not value or not isinstance(value[0], list) or not value[0]:
        return False
    return isinstance(value[0][0], dict) and "dialogue" in value[0][0]


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per list entry. Its id is the guid of its first session without the suffix ("interactive-35")."""
    return episodes(json_list(path, "sessions"), _episode)


def _episode(record: Record) -> Episode:
    holders = record.records("sessions")
    held = [holder for holder in holders if holder.records("dialogue")]
    if not held:
        raise record.error("the episode has no utterances")
    sessions = {n: [_said(utterance) for utterance in holder.records("dialogue")] for n, holder in enumerate(held, 1)}
    turns = dated_back(sessions, [DEFAULT_GAP] * (len(sessions) - 1))
    known = [tuple(dict.fromkeys(following.texts("memory"))) for following in held[1:] if "memory" in following]
    if "memory" in held[-1]:
        known.append(tuple(dict.fromkeys([*held[-1].texts("memory"), *held[-1].texts("summary")])))
    ends = {turn.session: turn.at for turn in turns}.values()
    memories = tuple(AnnotatedMemory(end, {"User": facts}) for end, facts in zip(ends, known, strict=True) if facts)
    return Episode(holders[0].text("guid").rsplit("-S", 1)[0], AGENT, turns, memories=memories)


def _said(utterance: Record) -> tuple[str, str]:
    role = utterance.text("role")
    if role not in _NAMES:
        raise utterance.error(f"role {role!r} is neither system nor user")
    return _NAMES[role], utterance.text("text").strip()
