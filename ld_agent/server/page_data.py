"""Data of the page: a person's sessions and their memories, scores as bars, marked words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from markupsafe import Markup, escape

from ld_agent.languages import ENGLISH
from ld_agent.prompts import as_line
from ld_agent.server.service import Known
from ld_agent.types import Recalled, Record, Reply, SessionSummary, Trait, Utterance

SESSIONS = 15
"""Number of sessions per page."""
RECALLS = 3
"""Maximum number of replies listed as having recalled a session."""
SHORTEST_MARKED = 4
STEM = 0.75
"""Length share of a common prefix at which two words count as the same."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One session on the timeline.

    Attributes:
        gap: time since the previous session; "" for the first.
        gained: traits learned from it, including superseded ones.
        recalls: number of later replies that recalled it.
        recalled_by: the latest of these replies, newest first.
    """

    session: SessionSummary
    gap: str
    records: list[Record]
    gained: list[Trait]
    recalls: int
    recalled_by: list[Utterance]


def timeline(whose: Known, before: int | None) -> tuple[list[TimelineEntry], int | None]:
    """A page of sessions, latest first, and the start of the next page."""
    directory, store, key = whose.service.directory, whose.store, whose.key
    sessions = directory.sessions(key, before, SESSIONS + 1)
    recalls = directory.recalls(key, [session.number for session in sessions[:SESSIONS]], RECALLS)
    entries = []
    for session, earlier in zip_longest(sessions[:SESSIONS], sessions[1:]):
        said = [u.id for u in store.session_utterances(key, session.number)]
        entries.append(
            TimelineEntry(
                session,
                "" if earlier is None else ENGLISH.ago(earlier.end, session.start).replace("ago", "later"),
                store.records(key, session=session.number),
                store.personas(key).learned_from(said),
                *recalls.get(session.number, (0, [])),
            )
        )
    return entries, sessions[SESSIONS - 1].number if len(sessions) > SESSIONS else None


def bars(hit: Recalled) -> dict[str, float]:
    """The terms of a score in the order of the documentation."""
    return {"s_sem": hit.s_sem, "s_top": hit.s_top, **hit.terms, "decay": hit.decay}


def marked(text: str, query: str) -> Markup:
    """A text as HTML, with words shared with a query marked."""
    stems = {word[: max(SHORTEST_MARKED - 1, round(len(word) * STEM))] for word in _words(query)}
    pieces = re.split(r"(\w+)", text)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece)
        if len(piece) >= SHORTEST_MARKED and any(piece.casefold().startswith(stem) for stem in stems)
        else escape(piece)
        for piece in pieces
    )


def _words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text) if len(word) >= SHORTEST_MARKED]


def passages(whose: Known, hits: Sequence[Recalled], query: str) -> dict[str, list[Utterance]]:
    """By record id, its source utterances that share a word with the query."""
    ids = sorted({source for r in hits for source in r.record.sources})
    said = whose.store.utterances_by_id(whose.key, ids)
    return {
        r.record.id: [said[i] for i in r.record.sources if i in said and "<mark>" in marked(said[i].text, query)][:5]
        for r in hits
    }


def in_prompt(reply: Reply) -> set[str]:
    """The ids of the recalled memories whose whole text is in the prompt of a reply."""
    prompt = "\n".join(message["content"] for message in reply.prompt)
    return {r.record.id for r in reply.recalled if as_line(r.record.text) in prompt}


def day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
