"""Finds what is new in a request: clients of OpenAI's protocol resend the whole chat with every message.

Pure functions over lines of text; knows no store and no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from ld_agent.types import name_key

TASKS = re.compile(
    r"^\s*(?:### Task:"  # Open WebUI: titles, tags, follow-ups, search queries, completions
    r"|Your task is to reflect the speaker's likely facial expression"  # Open WebUI: emoji
    r"|Available Tools: \["  # Open WebUI: choice of tools
    r"|(?:Provide|Create|Generate|Write) an? (?:concise|short|brief)\b.{0,60}\btitle\b"  # LibreChat, LobeChat
    r"|Analyze this conversation and provide:\s*1\. The detected language)",  # LibreChat, structured titles
    re.IGNORECASE,
)
"""The beginnings of background tasks that chat clients send to a model."""
RETRIEVED = "<context>"
"""Part of Open WebUI's template for retrieved documents, which begins like a background task but holds a person's question."""
_key = lru_cache(maxsize=256)(name_key)  # a thread has thousands of lines and a few names


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the agent or a person; a stored one with the text "" was corrected or forgotten, and may have been
    anything.

    ``name``: of the person; "": not given.
    """

    by_agent: bool
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a request with the stored thread.

    Attributes:
        recognised: number of leading stored lines that the request repeats unchanged.
        replaced: number of stored lines after them that the request omits: edited, or to be regenerated.
        missing: lines before the last that are not stored.
        answer_again: the last line is already stored and only needs another answer.
    """

    recognised: int
    replaced: int
    missing: tuple[Line, ...] = ()
    answer_again: bool = False


def is_task(lines: Sequence[Line], instructions: str, streamed: bool) -> bool:
    """Whether a request is a background task of the client (a title, tags), which should not be remembered."""
    last = lines[-1].text
    if streamed or RETRIEVED in last:
        return False
    return bool(TASKS.match(last)) or bool(TASKS.match(instructions))


def compare(stored: Sequence[Line], sent: Sequence[Line], whole: bool) -> Comparison:
    """Compare the lines of a thread with those of a request; the last line sent is the one to answer.

    A request without any match changes nothing stored: its last line is appended, or all of them if none is the agent's.

    Args:
        whole: the client always sends the whole chat, so that a single line is a new beginning and replaces what is
            stored; otherwise a single line is appended.
    """
    sent = _joined(stored, sent)
    repeated = bool(stored) and same(stored[-1], sent[-1])  # unanswered, and sent again after a failure
    as_it_is = Comparison(len(stored), 0, answer_again=repeated)
    if len(sent) == 1 and not whole:
        return as_it_is
    if not stored:
        return Comparison(0, 0, tuple(sent[:-1]))
    if len(sent) == 1:
        again = same(stored[0], sent[0])
        return Comparison(int(again), len(stored) - int(again), answer_again=again)
    start, common = _overlap(stored, sent)
    again, recognised = common == len(sent), start + common
    if common == 0 and not any(line.by_agent for line in sent):
        return replace(as_it_is, missing=() if as_it_is.answer_again else tuple(sent[:-1]))
    if common == 0 or (start > 0 and common < len(sent) - 1 and recognised < len(stored)):
        return as_it_is
    return Comparison(recognised, len(stored) - recognised, tuple(sent[common:-1]), again)


def same(stored: Line, sent: Line) -> bool:
    """Whether a sent line equals a stored one; a client may have seen only part of an interrupted reply."""
    return _alike(_plain(stored), _plain(sent))


def _joined(stored: Sequence[Line], sent: Sequence[Line]) -> list[Line]:
    """The sent lines, those of the agent in a row as one if they are stored as one: a reply continued after its first message."""
    joined, replies = list[Line](), {_plain(line).text for line in stored if line.by_agent}
    for by_agent, row in groupby(sent, key=lambda line: line.by_agent):
        lines = [*row]
        together = Line(True, "\n".join(line.text for line in lines))
        joined += [together] if by_agent and len(lines) > 1 and _plain(together).text in replies else lines
    return joined


def _plain(line: Line) -> Line:
    """A line as it is compared: spaces, and how its name is written, do not count."""
    return Line(line.by_agent, " ".join(line.text.split()), _key(line.name))


def _alike(stored: Line, sent: Line) -> bool:
    if stored.by_agent != sent.by_agent or (stored.name and sent.name and stored.name != sent.name):
        return False
    if stored.text == sent.text or not stored.text:
        return True
    return sent.by_agent and bool(sent.text) and stored.text.startswith(sent.text)


def _overlap(stored: Sequence[Line], sent: Sequence[Line]) -> tuple[int, int]:
    """The longest match of the sent lines within the stored ones, as start and length; ties go to the latest."""
    best, most, kept, given = (0, 0), len(sent), [*map(_plain, stored)], [*map(_plain, sent)]
    for start in range(len(stored) - 1, -1, -1):
        common, longest = 0, min(most, len(kept) - start)
        while common < longest and _alike(kept[start + common], given[common]):
            common += 1
        if common > best[1] and any(line.text for line in kept[start : start + common]):
            best = (start, common)
        if common == most:  # no match is longer, and no later one is as long
            break
    return best
