"""Tells what of a request is new. Clients of OpenAI's protocol send the whole chat again with every message.

Pure functions over lines of text; knows no store and no HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TASKS = re.compile(
    r"^\s*(?:### Task:"  # Open WebUI: titles, tags, follow-ups, search queries, completions
    r"|Your task is to reflect the speaker's likely facial expression"  # Open WebUI: emoji
    r"|Available Tools: \["  # Open WebUI: choice of tools
    r"|(?:Provide|Create|Generate|Write) an? (?:concise|short|brief)\b.{0,60}\btitle\b"  # LibreChat, LobeChat
    r"|Analyze this conversation and provide:\s*1\. The detected language)",  # LibreChat, structured titles
    re.IGNORECASE,
)
"""How the jobs begin that chat clients give a model behind a person's back."""


@dataclass(frozen=True, slots=True)
class Line:
    """What someone said: the agent, or the person."""

    by_agent: bool
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A request compared with what is stored.

    Attributes:
        recognised: stored lines that the request has too, up to here nothing changed.
        replaced: how many stored lines after them the request does without: edited, or to be answered again.
        missing: lines before the last that are not stored.
        answer_again: the last line is stored already and only wants another answer.
    """

    recognised: int
    replaced: int
    missing: tuple[Line, ...] = ()
    answer_again: bool = False


def is_task(lines: Sequence[Line], instructions: str, streamed: bool) -> bool:
    """Whether a request is a job of the client's own (a title, tags), which nobody said and nobody should remember."""
    return not streamed and (bool(TASKS.match(lines[-1].text)) or bool(TASKS.match(instructions)))


def compare(stored: Sequence[Line], sent: Sequence[Line], whole: bool) -> Comparison:
    """Compare the lines of a thread with those of a request; the last line sent is the one to answer.

    A request that resembles the thread nowhere changes nothing: its last line is said next.

    Args:
        whole: the client always sends the whole chat, so that a single line is the first of the chat and replaces what
            is stored of it; otherwise a single line is simply said next.
    """
    as_it_is = Comparison(len(stored), 0, answer_again=_unanswered(stored, sent[-1]))
    if len(sent) == 1 and not whole:
        return as_it_is
    if not stored:
        return Comparison(0, 0, tuple(sent[:-1]))
    if len(sent) == 1:
        again = same(stored[0], sent[0])
        return Comparison(int(again), len(stored) - int(again), answer_again=again)
    start, common = _overlap(stored, sent)
    if common == 0 or (start > 0 and common < len(sent) - 1):
        return as_it_is
    again = common == len(sent)
    recognised = start + common
    return Comparison(recognised, len(stored) - recognised, tuple(sent[common:-1]), again)


def same(stored: Line, sent: Line) -> bool:
    """Whether a line sent is the one stored; of an interrupted reply a client may have seen less than was said."""
    if stored.by_agent != sent.by_agent:
        return False
    kept, given = " ".join(stored.text.split()), " ".join(sent.text.split())
    return kept == given or (sent.by_agent and bool(given) and kept.startswith(given))


def _unanswered(stored: Sequence[Line], last: Line) -> bool:
    """Whether a line is what was said last and got no answer: a request that is sent again after a failure."""
    return bool(stored) and same(stored[-1], last)


def _overlap(stored: Sequence[Line], sent: Sequence[Line]) -> tuple[int, int]:
    """Where in the stored lines those sent begin, and how many agree from there: the most, and of equals the latest."""
    best = (0, 0)
    for start in range(len(stored)):
        common = 0
        while common < len(sent) and start + common < len(stored) and same(stored[start + common], sent[common]):
            common += 1
        if common and common >= best[1]:
            best = (start, common)
    return best
