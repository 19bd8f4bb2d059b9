"""Histories exported as text: Apple's Messages (imessage-exporter) and Signal as Markdown (signal-export)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from ld_agent.datasets.exports.files import Part
from ld_agent.datasets.exports.message import DELETED, ME, OTHER, SERVICE, Message, in_zone, joined, media, wall_time

MONTHS = frozenset("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
MINE = frozenset({"me", "you"})
ENDS = ("Tapbacks:", "Reactions:")
FOLDERS = ("/", "~/", "attachments/")
"""How a line begins that is an attachment's path."""
NOTES = ("This message responded to an earlier message.", "Sent with ", "Attachment missing!")


def messages(part: Part) -> Iterator[Message]:
    """A chat of Apple's Messages: a line with the time, one with the name, the text, a blank line. Replies that stand indented
    below what they answer stand again where they were sent."""
    export, seen = part.export, Counter[str]()
    for block in _blocks(part):
        at, after = apple_time(block[0]) or (None, "")
        if at is None or len(block) < 2 or (after and not after.startswith("(")):
            export.left[SERVICE] += 1
            continue
        name = block[1].strip()
        text = _body(block[2:], name)
        if text is None:
            export.left[DELETED] += 1
            continue
        yield _message(part, at, name, text, seen)


def _message(part: Part, at: datetime, name: str, text: str, seen: Counter[str]) -> Message:
    key = f"{part.stem}/{at.isoformat()}/{name}"
    seen[key] += 1
    mine = name.casefold() in MINE
    by, zone = (ME if mine else OTHER), part.export.zone
    return Message(f"{key}/{seen[key]}", part.stem, "" if mine else name, text, in_zone(at, zone), by)


def apple_time(line: str) -> tuple[datetime, str] | None:
    """The time that a line begins with, and what follows it."""
    if line[:3] not in MONTHS:
        return None
    for half in (" AM", " PM"):
        written, found, after = line.partition(half)
        if found and len(written) < 26:
            at = wall_time(" ".join((written + half).split()), "%b %d, %Y %I:%M:%S %p")
            return (at, after.strip()) if at else None
    return None


def _blocks(part: Part) -> Iterator[list[str]]:
    """The messages as their lines, without indented replies; a message may have blank lines of its own."""
    block: list[str] = []
    blank = indented = False
    for line in part.lines():
        if apple_time(line) and (blank or not block):
            if block:
                yield block
            block, indented = [line], False
        elif line.startswith("    ") and apple_time(line.strip()):
            indented = True
        elif not indented or (line.strip() and not line.startswith("    ")):
            indented = False
            part.add(block, line)
        blank = not line.strip()
    if any(line.strip() for line in block):
        yield block


def _body(lines: list[str], name: str) -> str | None:
    """The text of a message; None: all of it was unsent."""
    said: list[str] = []
    unsent = False
    for line in lines:
        if line.strip() in ENDS:
            break
        if line.startswith(NOTES):
            continue
        if line.startswith("Edited ") and " later: " in line:
            said = [line.partition(" later: ")[2]]
        elif (original := apple_time(line)) and original[1]:
            said.append(original[1])
        elif _is_unsent(line.strip(), name):
            unsent = True
        elif _is_path(line):
            said.append(media("", line))
        else:
            said.append(line)
    text = "\n".join(said).strip()
    return None if unsent and not text else text


def _is_unsent(line: str, name: str) -> bool:
    """Whether a line is what the exporter writes for a part that was unsent."""
    said = next((line[len(who) :] for who in ("You", "They", name) if line.startswith(f"{who} ")), "")
    told, part, after = said.partition(" unsent this message part")
    return said == " deleted a message." or bool(
        part and not told and (after == "!" or after.endswith(" after sending!"))
    )


def _is_path(line: str) -> bool:
    """Whether a line is the path of an attachment."""
    suffix = line.rpartition("/")[2].rpartition(".")
    return line.casefold().startswith(FOLDERS) and bool(suffix[1]) and suffix[2].isalnum() and len(suffix[2]) <= 5


def signal_text(part: Part) -> Iterator[Message]:
    """A chat of Signal as Markdown: "[2022-01-02 13:14:15] Ann: text" over any number of lines."""
    seen = Counter[str]()
    for (at, name, begun), rest in part.headed(signal_head):
        kept = [line for line in (begun, *rest) if not line.startswith((">", "(- "))]  # quotes of others, and reactions
        text = "\n".join(_with_media(line) for line in kept).strip()
        if text == "(This message was deleted)":
            part.export.left[DELETED] += 1
        else:
            yield _message(part, at, name, text, seen)


def signal_head(line: str) -> tuple[datetime, str, str] | None:
    """Time, name and the beginning of the text of a message's first line."""
    date, closed, rest = line[1:].partition("] ")
    name, colon, text = rest.partition(":")
    if not (line.startswith("[") and closed and colon and "," not in date and 0 < len(name) <= 100):
        return None
    at = wall_time(date, "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")
    return (at, name, text) if at else None


def _with_media(line: str) -> str:
    """A line with what stands for its attachments: "![a.jpg](./media/a.jpg)"."""
    while "](./" in line:
        before, _, after = line.partition("](./")
        shown, _, name = before.rpartition("[")
        line = joined(shown.removesuffix("!"), media("", name), after.partition(")")[2])
    return line.rstrip()
