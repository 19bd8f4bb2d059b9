"""Data of the page: a person's sessions and their memories, and why a memory was recalled, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from ld_agent.checks.statements import asks
from ld_agent.conversation import Conversation
from ld_agent.languages.reading import Reading
from ld_agent.memory.quotes import compare, in_time_order
from ld_agent.memory.scoring import TERMS, scorer
from ld_agent.memory.themes import themes_of
from ld_agent.memory.views import VIEWS
from ld_agent.prompts import as_line
from ld_agent.server.service import Known
from ld_agent.text import SENTENCE_END, stems, terms_of
from ld_agent.types import Recalled, Record, Reply, Trait, Utterance

SESSIONS = 15
"""Number of sessions per page."""
RECALLS = 3
"""Maximum number of replies listed as having recalled a session."""
SEARCHED = 30
"""Maximum number of words that a line must contain to be found; a database refuses a thousand conditions."""


def timeline(whose: Known, before: int | None) -> tuple[list[dict[str, Any]], int | None]:
    """A page of sessions, latest first, each with its summary and what `opened` says; and the start of the next page."""
    sessions = whose.service.directory.sessions(whose.key, before, SESSIONS + 1)
    shown = sessions[:SESSIONS]
    values = opened(whose, [session.number for session in shown])
    entries = [{"session": session, **of_session} for session, of_session in zip(shown, values, strict=True)]
    return entries, shown[-1].number if len(sessions) > SESSIONS else None


def opened(whose: Known, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Of each session: what was said, its memories and traits, and the latest of the replies that recalled it."""
    recalled = whose.service.directory.recalls(whose.key, numbers, RECALLS)
    values: list[dict[str, Any]] = []
    for number in numbers:
        said, (recalls, recalled_by) = whose.session(number), recalled.get(number, (0, []))
        gained = whose.store.personas(whose.key).learned_from([u.id for u in said])
        records = whose.store.records(whose.key, session=number)
        values += [{"said": said, "gained": gained, "records": records, "recalls": recalls, "recalled_by": recalled_by}]
    return values


def held(whose: Known) -> tuple[str, list[Trait]]:
    """What a person is called, and what holds now: first what is pinned, told most often and last."""
    stored, now = whose.store.find_conversation(whose.id), whose.service.agent.clock()
    agent = stored.agent if stored else ""
    name = whose.store.first_speaker(whose.key, agent) or whose.person
    holding = [trait for trait in whose.store.traits(whose.key) if trait.speaker == name and not trait.over(now)]
    return name, sorted(holding, key=lambda trait: (trait.pinned, trait.mentions, trait.last_at), reverse=True)


@dataclass(frozen=True, slots=True)
class Told:
    """A trait with its history.

    Attributes:
        theme: what it is about.
        before: what it replaced, latest first.
    """

    trait: Trait
    theme: str
    before: list[Trait]


def told(whose: Known, conversation: Conversation) -> list[Told]:
    """All traits by speaker and theme, first those that hold now; encodes those of an import."""
    relation, stored = conversation.relation, whose.store.personas(whose.key).traits()
    traits = {trait.id: trait for trait, _ in stored}
    samples, now = relation.models.language.words.themes, whose.service.agent.clock()
    before: dict[str, list[Trait]] = {trait_id: [] for trait_id in traits}
    heads = list[tuple[Trait, Any]]()
    for trait, vector in stored:
        if (last := _latest(trait, traits)) is trait:
            heads.append((trait, vector))
        else:
            before[last.id].insert(0, trait)
    fresh = iter(relation.encoder.encode([trait.text for trait, vector in heads if vector is None]))
    vectors = [next(fresh) if vector is None else vector for _, vector in heads]
    themes = themes_of(np.reshape(vectors, (-1, relation.encoder.dimension)), samples, relation.encoder.encode)
    speakers, order = list(dict.fromkeys(trait.speaker for trait in traits.values())), list(samples)
    found = [Told(trait, theme, before[trait.id]) for (trait, _), theme in zip(heads, themes, strict=True)]
    return sorted(found, key=lambda o: (speakers.index(o.trait.speaker), order.index(o.theme), o.trait.over(now)))


def _latest(trait: Trait, traits: Mapping[str, Trait]) -> Trait:
    """What a trait became."""
    seen = {trait.id}
    while (later := traits.get(trait.superseded_by or "")) is not None and later.id not in seen:
        seen.add(later.id)
        trait = later
    return trait


@dataclass(frozen=True, slots=True)
class Because:
    """Why a memory was recalled.

    Attributes:
        said: the line behind it that fits best; None: there is none.
        own: the person whom the memory is about said it.
        quote: of that line, the sentence that fits best.
        about: the words of the quote that the question has, too.
        hit: None: its numbers are no longer known.
        most: the highest possible score.
        formula: how the score is made.
    """

    memory: Record
    said: Utterance | None
    own: bool
    quote: str
    about: list[str]
    hit: Recalled | None
    most: float
    formula: str

    @property
    def sure(self) -> float | None:
        """The score as a share of the highest possible."""
        return None if self.hit is None else min(max(self.hit.score / self.most, 0.0), 1.0)

    @property
    def terms(self) -> list[tuple[str, str, float]]:
        """The terms of the score: name, name in words, value."""
        hit = self.hit
        values = {"s_sem": hit.s_sem, "s_top": hit.s_top, **hit.terms, "decay": hit.decay} if hit else {}
        return [(name, TERMS.get(name, name), value) for name, value in values.items()]


def because(whose: Known, conversation: Conversation, query: str, hits: Sequence[Recalled | Record]) -> list[Because]:
    """Why memories were recalled for a text; encodes lines behind them."""
    relation, settings = conversation.relation, whose.service.config.memory
    reading, agent = relation.models.language.reading, relation.agent_name
    memories = [hit.record if isinstance(hit, Recalled) else hit for hit in hits]
    ids = list(dict.fromkeys(source for memory in memories for source in memory.sources))
    lines = in_time_order(ids, whose.store.utterances_by_id(whose.key, ids))
    asker = whose.store.first_speaker(whose.key, agent) or whose.person
    asked = Utterance("", asker, query, whose.service.agent.clock(), 0)
    told = compare(asked, agent, lines, relation.encoder.encode, reading)
    order = [*told.answering(), *told.worth.argsort()[::-1].tolist()]  # first what can answer, and questions last
    best = sorted([lines[place] for place in order], key=lambda line: asks(line.text))
    reasons = []
    for hit, memory in zip(hits, memories, strict=True):
        said = next((line for line in best if line.id in memory.sources), None)
        quote, view = _fitting(said.text, query, reading) if said else "", VIEWS.get(memory.view)
        about = [word for word in dict.fromkeys(terms_of(quote)) if shares(word, query, reading)]
        own = said is not None and said.speaker == asker
        most = scorer(settings.scorer).most if memory.view == "events" else 1.0
        formula = view.ranking(settings) if view else "overall = s_sem"
        numbers = hit if isinstance(hit, Recalled) else None
        reasons.append(Because(memory, said, own, quote, about, numbers, most, formula))
    return reasons


def shares(word: str, query: str, reading: Reading) -> bool:
    """Whether a word carries meaning and a text has it, in whatever form."""
    return not set(stems(query, reading)).isdisjoint(stems(word, reading))


def _fitting(text: str, query: str, reading: Reading) -> str:
    """The sentence of a text that has most words of a question, and is the longest of these; the text itself if none has any.

    What the text asks itself is left out, if it says something, too.
    """
    wanted, sentences = set(stems(query, reading)), SENTENCE_END.split(text)
    told = [sentence for sentence in sentences if not asks(sentence)] or sentences
    by_words = [(len(wanted.intersection(stems(sentence, reading))), sentence) for sentence in told]
    most, sentence = max(by_words, key=lambda one: (one[0], len(one[1])))
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


def words_in(text: str, reading: Reading) -> list[str]:
    """The first words of a text that carry meaning, as written; the text itself if none does."""
    words = dict.fromkeys(re.split(r"(\w+)", text)[1::2])
    return [word for word in words if shares(word, text, reading)][:SEARCHED] or [text]


def live(whose: Known, explained: set[str]) -> dict[str, Any]:
    """The end of the latest session if it is running, and ``state``, which changes with it."""
    latest = whose.service.directory.sessions(whose.key, None, 1)
    number = latest[0].number if latest and not latest[0].closed else 0
    said = whose.session(number)
    state = f"{number}.{said[-1].id if said else ''}.{len(explained.intersection(u.id for u in said))}"
    return {"said": said[-20:], "explained": explained, "state": state}


def in_prompt(reply: Reply) -> set[str]:
    """The ids of the recalled memories whose whole text is in the prompt of a reply."""
    prompt = "\n".join(message["content"] for message in reply.prompt)
    return {r.record.id for r in reply.recalled if as_line(r.record.text) in prompt}


def when(at: datetime, day: bool = False) -> Markup:
    """A time, or its day, as HTML: in UTC until the page's script puts it into the reader's zone. Midnight stands for a day."""
    date, whole = f"{at.day} {at:%b %Y}", at.time() == time()
    shown = date if day or whole else f"{date}, {at:%H:%M}"
    kind = Markup(' class="day"') if day else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(at.date() if whole else at.isoformat(), kind, shown)


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: "1 memory", "2 memories"."""
    return f"{number} {one if number == 1 else many or one + 's'}"
