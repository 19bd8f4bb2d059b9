"""Data of the page: a person's sessions and their memories, and why a memory was recalled, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from itertools import zip_longest

from markupsafe import Markup, escape

from ld_agent.checks.statements import asks
from ld_agent.conversation import Conversation
from ld_agent.languages import ENGLISH
from ld_agent.languages.reading import Reading
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.quotes import compare, in_time_order
from ld_agent.memory.scoring import SCORERS
from ld_agent.memory.views import VIEWS
from ld_agent.prompts import as_line
from ld_agent.server.service import Known
from ld_agent.text import SENTENCE_END, terms_of
from ld_agent.types import Recalled, Record, Reply, SessionSummary, Trait, Utterance

SESSIONS = 15
"""Number of sessions per page."""
RECALLS = 3
"""Maximum number of replies listed as having recalled a session."""
TERMS = {
    "s_sem": "the memory means the same",
    "s_top": "topics in common",
    "s_sent": "its best sentence means the same",
    "s_word": "rare words in common",
    "s_pass": "what was said then means the same",
    "s_like": "resembles the other places that fit",
    "s_date": "close to a date in the question",
    "s_near": "the nearest place; decides whether it counts",
    "decay": "how recent it is",
}
"""The terms of scores, in words and in the order of the documentation."""


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


@dataclass(frozen=True, slots=True)
class Because:
    """Why a memory was recalled.

    Attributes:
        said: the line behind it that fits best; None: there is none.
        own: the person whom the memory is about said it.
        quote: of that line, the sentence that fits best.
        about: the words of the quote that the question has, too.
        sure: the score as a share of the highest possible; None: scores are no longer known.
        terms: of the score, as their names, their names in words, and values.
        formula: how the score is made from them.
    """

    memory: Record
    said: Utterance | None
    own: bool
    quote: str
    about: list[str]
    sure: float | None
    score: float
    terms: list[tuple[str, str, float]]
    formula: str


def because(whose: Known, conversation: Conversation, query: str, hits: Sequence[Recalled | Record]) -> list[Because]:
    """Why memories were recalled for a text; encodes lines behind them."""
    relation = conversation.relation
    reading, settings = relation.models.language.reading, whose.service.config.memory
    memories = [hit.record if isinstance(hit, Recalled) else hit for hit in hits]
    ids = list(dict.fromkeys(source for memory in memories for source in memory.sources))
    lines = in_time_order(ids, whose.store.utterances_by_id(whose.key, ids))
    asker = whose.store.first_speaker(whose.key, relation.agent_name) or whose.person
    asked = Utterance("", asker, query, whose.service.agent.clock(), 0)
    told = compare(asked, relation.agent_name, lines, relation.encoder.encode, reading)
    order = [*told.answering(), *told.worth.argsort()[::-1].tolist()]  # first what can answer, and questions last
    best = sorted([lines[place] for place in order], key=lambda line: asks(line.text))
    reasons = []
    for hit, memory in zip(hits, memories, strict=True):
        said = next((line for line in best if line.id in memory.sources), None)
        quote = _fitting(said.text, query, reading) if said else ""
        about = list(dict.fromkeys(word.casefold() for word in terms_of(quote) if shares(word, query, reading)))
        view = VIEWS.get(memory.view)
        formula = view.ranking(settings) if view else "overall = s_sem"
        sure, score, terms = None, 0.0, list[tuple[str, str, float]]()
        if isinstance(hit, Recalled):
            most = SCORERS[settings.scorer].most if memory.view == "events" else 1.0
            sure, score = min(max(hit.score / most, 0.0), 1.0), hit.score
            values = {"s_sem": hit.s_sem, "s_top": hit.s_top, **hit.terms, "decay": hit.decay}
            terms = [(name, TERMS.get(name, name), value) for name, value in values.items()]
        reasons.append(
            Because(memory, said, said is not None and said.speaker == asker, quote, about, sure, score, terms, formula)
        )
    return reasons


def shares(word: str, query: str, reading: Reading) -> bool:
    """Whether a word carries meaning and a text has it, in whatever form."""
    return not set(stems(query, reading)).isdisjoint(stems(word, reading))


def _fitting(text: str, query: str, reading: Reading) -> str:
    """The sentence of a text that has most words of a question; the text itself if none has any."""
    wanted = set(stems(query, reading))
    by_words = [(len(wanted.intersection(stems(s, reading))), s) for s in SENTENCE_END.split(text)]
    most, sentence = max(by_words, key=lambda one: one[0])
    return sentence if most else text


def marked(text: str, query: str, reading: Reading) -> Markup:
    """A text as HTML, with the words that it shares with a query marked, and the query itself."""
    pieces = re.split(r"(\w+)", text)
    whole = query.strip().casefold()
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece)
        if piece.isalnum() and (shares(piece, query, reading) or (whole and whole in piece.casefold()))
        else escape(piece)
        for piece in pieces
    )


def in_prompt(reply: Reply) -> set[str]:
    """The ids of the recalled memories whose whole text is in the prompt of a reply."""
    prompt = "\n".join(message["content"] for message in reply.prompt)
    return {r.record.id for r in reply.recalled if as_line(r.record.text) in prompt}


def when(at: datetime) -> Markup:
    """A time as HTML, in UTC until the page's script puts it into the reader's zone; midnight stands for the whole day."""
    day = f"{at.day} {at:%b %Y}"
    shown = (at.date(), day) if at.time() == time() else (at.isoformat(), f"{day}, {at:%H:%M}")
    return Markup('<time datetime="{}">{}</time>').format(*shown)


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: "1 memory", "2 memories"."""
    return f"{number} {one if number == 1 else many or one + 's'}"
