"""A message of an exported history, and what the readers of all formats share: times, media, branches. Knows no format."""

from __future__ import annotations

import mimetypes
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

ME, AGENT, OTHER = "me", "agent", "other"
SERVICE, DELETED, BRANCH, EMPTY = "service lines", "deleted", "on other branches", "without text"
UNDATED, UNREADABLE = "without a time", "unreadable"
"""What is left out, by reason."""
IN_MILLISECONDS = 1e11
"""Epoch times from here on are in milliseconds."""
WRITTEN = ("%B %d, %Y %I:%M%p", "%B %d, %Y %I:%M:%S%p", "%Y-%m-%d @%Hh %Mm %Ss %fms", "%Y-%m-%d@%Hh%Mm%Ss")
KINDS = {"image": "[image]", "video": "[video]", "audio": "[voice message]"}
UNTYPED = {
    **dict.fromkeys(("heic", "webp"), "image"),
    **dict.fromkeys(("opus", "m4a", "amr"), "audio"),
    **dict.fromkeys(("mov", "3gp"), "video"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        id: the same in every export that contains it, and no other message's of its format.
        chat: the conversation or channel, for people.
        name: of who wrote it, as exported; "": `by` says who.
        at: aware, with the offset of its writer as far as the export tells.
        by: ``ME``, who owns the history; ``AGENT``, an assistant; or ``OTHER``.
        author: tells people of one name apart; "": the export does not.
        edited: when its text was changed last; None: never, or the export does not say.
    """

    id: str
    chat: str
    name: str
    text: str
    at: datetime
    by: str = OTHER
    author: str = ""
    edited: datetime | None = None


def moment_of(value: Any, zone: tzinfo | None) -> datetime | None:
    """A time of an export, or None: seconds or milliseconds since the epoch, ISO 8601, or one of `WRITTEN`.

    Args:
        zone: of times that name none, and of those in UTC, which programs write wherever they run; None: this machine's.
    """
    try:
        if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
            return _written(" ".join(value.split()), zone)
        seconds = float(value)
        seconds = seconds / 1000 if seconds >= IN_MILLISECONDS else seconds
        return datetime.fromtimestamp(seconds, UTC).astimezone(zone) if seconds > 0 else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def wall_time(text: str, *forms: str) -> datetime | None:
    """What a clock showed, in the first of some forms that fits; its zone is still to be told."""
    for form in forms:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def in_zone(at: datetime, zone: tzinfo | None) -> datetime:
    """The time at which a clock of a zone showed another time's figures; None: of this machine's zone."""
    shown = at.replace(tzinfo=zone)
    return shown if zone else shown.astimezone()


def _written(text: str, zone: tzinfo | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        shown = wall_time(text, *WRITTEN)
        return shown and in_zone(shown, zone)
    if at.tzinfo is None:
        return in_zone(at, zone)
    return at if at.utcoffset() else at.astimezone(zone)


def media(kind: str, name: str = "") -> str:
    """What stands for a medium: "[image]", "[video]", "[voice message]", "[file: plan.pdf]".

    Args:
        kind: its MIME type, or the beginning of one; "": to be told by its name.
    """
    kind = kind or UNTYPED.get(name.rpartition(".")[2].casefold(), "") or mimetypes.guess_type(name)[0] or ""
    name = line_of(name.replace("\\", "/").rpartition("/")[2])
    return KINDS.get(kind.partition("/")[0]) or (f"[file: {name}]" if name else "[file]")


def line_of(text: str) -> str:
    """A text on one line, without control characters."""
    return " ".join("".join(" " if unicodedata.category(c)[0] in "CZ" and c != "\u200d" else c for c in text).split())


def joined(*texts: str) -> str:
    """Media and texts as one text."""
    return " ".join(text.strip() for text in texts if text and text.strip())


def text_at(value: Any, *keys: str) -> str:
    """The text under the first of some keys of an object that has one; "": none, or not an object."""
    values = map(mapping(value).get, keys)
    return next((text for text in values if isinstance(text, str) and text.strip()), "")


def mapping(value: Any) -> Mapping[str, Any]:
    """An object as it is; of anything else, one without keys."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; of anything else, none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
