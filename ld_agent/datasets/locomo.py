"""LoCoMo (Maharana et al., 2024): very long dated conversations, as released in `locomo10.json`.

A session's date ("1:56 pm on 8 May, 2023") has no time zone and is read as UTC. It dates the first utterance; the others
follow at intervals of `dating.SPACING`. A shared photo appears as its caption in brackets after the text, because later
utterances refer to it. The agent is `speaker_b`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, current_report, episodes, json_list
from ld_agent.errors import DataFileError

_SESSION = re.compile(r"session_(\d+)")
_DATE = "%I:%M%pon%d%B%Y"


def recognises(value: Any) -> bool:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return False
    conversation = value[0].get("conversation")
    return isinstance(conversation, dict) and "speaker_a" in conversation


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per list entry; of a bad session only that is skipped."""
    return episodes(json_list(path), _episode)


def _episode(record: Record) -> Episode:
    conversation = record.record("conversation")
    agent = conversation.text("speaker_b")
    names = (conversation.text("speaker_a"), agent)
    numbers = sorted(int(match.group(1)) for key in conversation.values if (match := _SESSION.fullmatch(key)))
    turns: list[Turn] = []
    for number in numbers:
        try:
            turns += _session(conversation, number, names, turns[-1:])
        except DataFileError as exc:
            current_report()(exc)
    if not turns:
        raise conversation.error("the conversation has no utterances")
    return Episode(record.text("sample_id"), agent, tuple(turns))


def _session(conversation: Record, number: int, names: tuple[str, str], before: Sequence[Turn]) -> Sequence[Turn]:
    utterances = conversation.records(f"session_{number}")
    if not utterances:
        return ()
    start = _date(conversation, f"session_{number}_date_time")
    if before and start <= before[-1].at:
        raise conversation.error(f"session_{number} begins at {start}, which is not after the previous session")
    for utterance in utterances:
        if (speaker := utterance.text("speaker")) not in names:
            raise utterance.error(f"speaker {speaker!r} is neither {names[0]} nor {names[1]}")
    return dated([(utterance.text("speaker"), _text(utterance)) for utterance in utterances], start, number)


def _text(utterance: Record) -> str:
    caption = utterance.values.get("blip_caption")
    photo = f" [shares {caption.strip()}]" if isinstance(caption, str) and caption.strip() else ""
    return utterance.text("text").strip() + photo


def _date(conversation: Record, key: str) -> datetime:
    text = conversation.text(key)
    try:
        return datetime.strptime("".join(text.replace(",", " ").split()), _DATE).replace(tzinfo=UTC)
    except ValueError as exc:
        raise conversation.error(f"{key}={text!r} is not a date such as 1:56 pm on 8 May, 2023: {exc}") from exc
