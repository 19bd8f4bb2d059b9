"""MemoryBank (Zhong et al., 2024): users' daily chats with an assistant, `memory_bank_en.json`, a JSON object by user.

Only the days are dated: the first query of a day is placed at noon UTC, and the rest follow at intervals of
`dating.SPACING`. A day without chats is not a session. The agent is "Assistant"; user names are stripped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, episodes, json_document

AGENT = "Assistant"


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and any(
        isinstance(u, dict) and isinstance(u.get("history"), dict) for u in value.values()
    )


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per user, with the name as its id, after reading the whole document."""
    users = Record(json_document(path), path, None).values.items()
    return episodes((Record({"name": name, "user": user}, path, None, f"[{name!r}]") for name, user in users), _episode)


def _episode(record: Record) -> Episode:
    name = record.text("name").strip()
    user = record.record("user")
    history = user.record("history")
    turns: list[Turn] = []
    number = 0
    for day in sorted(history.values):
        exchanges = history.records(day)
        texts = [(who, e.text(key).strip()) for e in exchanges for who, key in ((name, "query"), (AGENT, "response"))]
        number += bool(texts)
        turns += dated(texts, _noon(history, day), number)
    if not turns:
        raise record.error("the user has no chats")
    return Episode(name, AGENT, tuple(turns), _personas(name, user))


def _noon(history: Record, day: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(day), time(12, tzinfo=UTC))
    except ValueError as exc:
        raise history.error(f"{day!r} is not a date such as 2023-04-27") from exc


def _personas(name: str, user: Record) -> dict[str, tuple[str, ...]]:
    """Return what the corpus says about a user, one fact per key ("Hobbies: reading, walking")."""
    about = user.values.get("meta_information")
    if not isinstance(about, dict):
        return {}
    facts = [
        f"{key.replace('_', ' ').capitalize()}: {value.strip()}"
        for key, value in about.items()
        if key != "name" and isinstance(value, str) and value.strip()
    ]
    return {name: tuple(facts)} if facts else {}
