"""Forgets on request what a person told: "Please forget that.", "Forget what I said about my divorce."

Finds the lines and traits that are meant, by their words and the encoder, and forgets them as by hand. Of the request only that
something was to be forgotten is kept. Asks no model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.statements import ForgetRequest, asks, forget_request, sentences_of
from ld_agent.languages.reading import Reading
from ld_agent.memory.corrections import content, rewritten
from ld_agent.relation import Relation
from ld_agent.revising.correcting import correct, in_own_words
from ld_agent.storage.rows import Rewriting
from ld_agent.text import EAST_ASIAN, HAN, simplified, stems
from ld_agent.types import Record, Utterance

NAMED = 0.3
"""worth = cos + NAMED · (share of the words that were named)."""
LEAST, SHARE = 0.5, 0.8
"""Minimum worth of what is forgotten, absolute and as a share of the best one's."""
SAME = 0.88
"""Cosine at and above which two sentences say the same."""
RETOLD = 0.5
"""The same for a sentence of a memory and a line that the memory was made from."""
COMPARED = 256
"""Maximum number of sentences that are encoded: those with most of the words, then the latest."""
QUOTED = 5
"""Maximum number of sentences that the agent repeats for the last time."""
FORGOTTEN = "something was forgotten on request"


@dataclass(frozen=True, slots=True)
class _Told:
    """A sentence that a person said, or one of their traits. ``id``: of the utterance, or of the trait."""

    id: str
    text: str


class Forgetting:
    """One request, carried out inside the turnstile, when nothing is pending.

    Args:
        heard: the utterance with the request.
        thread: where it was said.
        at: when it is carried out.
    """

    def __init__(self, relation: Relation, heard: Utterance, thread: str, at: datetime) -> None:
        self._relation, self._heard, self._thread, self._at = relation, heard, thread, at
        self._store, self._key = relation.store, relation.key
        self._reading, self._words = relation.models.language.reading, relation.models.language.words

    def carried_out(self, request: ForgetRequest) -> list[str] | None:
        """Forget what is meant; return its sentences, [] if there are none; None: that was done before."""
        with self._store.writing(self._key):
            changes = self._store.changes(self._key)
            if before := [change.at for change in changes if change.target == self._heard.id]:
                return None if any(c.at in before and c.target != self._heard.id for c in changes) else []
            said, traits, records = self._said(), self._traits(), self._store.records(self._key)
            named = bool(content(request.what, self._reading))
            mentioned = [] if named else self._just_said(request)
            self._shorten(request, mentioned)
            if not mentioned:
                self._forget(self._about(request.what) if named else self._last())
            gone = self._gone(said)
            made = {record.id for record in records if gone.keys() & set(record.sources)}
            self._forget_retold(made, [*chain(*gone.values()), *([request.what] if named else [])])
            left = {trait.id for trait in self._traits()}
        self._relation.changed_by_hand()
        return list(dict.fromkeys([*mentioned, *chain(*gone.values())])) or [t.text for t in traits if t.id not in left]

    def forget_reply(self, reply: Utterance) -> None:
        """Note that a reply was another one when it was said, for clients that send it again."""
        self._store.rewrite(self._key, Rewriting({reply.id: reply.text}, [], forgotten=True), self._at)
        self._relation.changed_by_hand()

    def _said(self) -> list[Utterance]:
        return [u for u in self._store.utterances(self._key) if u.speaker == self._heard.speaker]

    def _traits(self) -> list[_Told]:
        """The person's traits, those that have ended too: they would hold again."""
        return [_Told(t.id, t.text) for t in self._store.traits(self._key) if t.speaker == self._heard.speaker]

    def _shorten(self, request: ForgetRequest, mentioned: Sequence[str]) -> None:
        """Keep of the request that something was to be forgotten, and of the sentences around it, what was not."""
        kept = {request.sentence: self._words.forget} | dict.fromkeys(mentioned, "")
        text = rewritten(self._heard.text, lambda sentence: kept.get(sentence.strip(), sentence))
        self._store.rewrite(self._key, Rewriting({self._heard.id: text}, [], forgotten=True), self._at)

    def _gone(self, before: Sequence[Utterance]) -> dict[str, list[str]]:
        """The sentences of each line that it no longer has, except of the request."""
        after = {u.id: u.text for u in self._said()}
        gone = {u.id: [s for s in sentences_of(u.text) if s not in after.get(u.id, "")] for u in before}
        return {i: sentences for i, sentences in gone.items() if sentences and i != self._heard.id}

    # ---- what is meant by "that"

    def _just_said(self, request: ForgetRequest) -> list[str]:
        """What the utterance itself says about its speaker before it asks to forget that."""
        before = self._heard.text.partition(request.sentence)[0]
        mine = self._reading.patterns["first_person"]
        return [s for s in sentences_of(before) if mine.search(s) and self._tells(s)]

    def _last(self) -> list[_Told]:
        """The person's latest statement in this thread, and whatever says the same; nothing after an earlier request."""
        here = {u.id for u in self._store.thread_utterances(self._key, self._thread)} - {self._heard.id}
        for said in reversed([u for u in self._said() if u.id in here]):
            if said.text == self._words.forget or forget_request(said.text, self._reading):
                return []
            told = [s for s in sentences_of(said.text) if self._tells(s)]
            if told:
                return [_Told(said.id, s) for s in sentences_of(said.text)] + self._alike(told)
        return []

    def _tells(self, sentence: str) -> bool:
        """Whether a sentence states something, as neither "Thanks!" nor "I shouldn't have said that." does."""
        rest = self._reading.patterns["saying"].sub(" ", self._bare(sentence))
        words = content(rest, self._reading, self._relation.agent_name)
        mine = self._reading.patterns["first_person"].search(sentence)
        return not asks(sentence) and len(words) >= (1 if mine else 2)

    def _alike(self, told: Sequence[str]) -> list[_Told]:
        """What says the same as one of some sentences."""
        pool = self._candidates(" ".join(told))
        return [one for one, cosine in zip(pool, self._cosines(told, pool).max(axis=0), strict=True) if cosine >= SAME]

    # ---- what is meant by name

    def _about(self, what: str) -> list[_Told]:
        """What is about something: the best statement, and everything that names as much of it or says the same."""
        pool = self._candidates(what)
        if not pool:
            return []
        named = np.array([self._share(what, one.text) for one in pool])
        worth = self._cosines([what], pool)[0] + NAMED * named
        states = np.array([not asks(one.text) for one in pool])
        needed = self._reading.patterns["relation"].search(what)
        eligible = states & (named > 0) if needed else states  # "my sister" is not what was told of a brother
        best = int(np.where(eligible, worth, -1.0).argmax())
        if not eligible[best] or worth[best] < LEAST:
            return []
        same = self._cosines([pool[best].text], pool)[0] >= SAME
        as_near = (named > 0) & (named >= named[best]) & (worth >= max(LEAST, SHARE * worth[best]))
        return [one for one, meant in zip(pool, same | as_near, strict=True) if meant]

    def _candidates(self, what: str) -> list[_Told]:
        """What the person told, as far as it can be compared."""
        lines = [_Told(u.id, s) for u in self._said() if u.id != self._heard.id for s in sentences_of(u.text)]
        pool = [one for one in (*self._traits(), *lines[::-1]) if content(one.text, self._reading)]
        pool = [one for one in pool if one.text != self._words.forget]
        return sorted(pool, key=lambda one: -self._share(what, one.text))[:COMPARED]

    def _cosines(self, texts: Sequence[str], pool: Sequence[_Told]) -> NDArray[np.float64]:
        """The cosines of n texts with m others, (n, m); in a script that the encoder does not know, shares of words instead."""
        encoder, others = self._relation.resources.encoder, [one.text for one in pool]
        if all(map(encoder.knows_script, (*texts, *others))):
            return np.asarray(encoder.encode(texts) @ encoder.encode(others).T, dtype=np.float64)
        return np.array([[self._share(text, other) for other in others] for text in texts])

    def _share(self, what: str, text: str) -> float:
        """The share of the words of one text that another contains, in [0, 1]."""
        bare, words = simplified(self._bare(text)), set(stems(self._bare(what), self._reading))
        contained = set(stems(bare, self._reading))
        return sum(w in (bare if EAST_ASIAN.match(w) else contained) for w in words) / max(len(words), 1)

    def _bare(self, text: str) -> str:
        """A text without its speaker, and in Chinese without characters that mean nothing by themselves."""
        text = self._reading.patterns["first_person"].sub(" ", text)
        return self._reading.patterns["filling"].sub("", text) if HAN.search(text) else text

    # ---- forgetting it

    def _forget(self, told: Sequence[_Told]) -> None:
        """Forget traits and sentences, with what was learned from a line of nothing else."""
        gone = {u.id: {one.text for one in told if one.id == u.id} for u in self._said()}
        whole = [u.id for u in self._said() if gone[u.id].issuperset(sentences_of(u.text))]
        learned = [t.id for t in self._store.personas(self._key).learned_from(whole) if t.mentions <= 1]
        for trait in dict.fromkeys([*(one.id for one in told if one.id.startswith("t")), *learned]):
            if trait in {one.id for one in self._traits()}:
                correct(self._relation, trait, "", self._at)
        for said in self._said():
            kept = _without(said.text, gone.get(said.id, set()), self._reading)
            if kept != said.text:
                correct(self._relation, said.id, kept, self._at, forgotten=True)

    def _forget_retold(self, made: Collection[str], gone: Sequence[str]) -> None:
        """Forget what memories made from the lines say in other words."""
        resources, changed = self._relation.resources, list[Record]()
        for record in self._store.records(self._key) if made else []:
            told = self._in_other_words(record) if record.id in made else []
            near = self._cosines(gone, told).max(axis=0) >= RETOLD
            if near.any():
                retold = {one.text for one, is_near in zip(told, near, strict=True) if is_near}
                text = _without(record.text, retold, self._reading)
                [topics] = resources.topics.extract([text]) if text else [()]
                shorter = replace(record, text=text, topics=tuple(t for t in record.topics if t in topics))
                changed.append(in_own_words(self._relation, shorter, {}))
        vectors = resources.encoder.encode([record.text for record in changed]) if changed else ()
        rewriting = Rewriting({}, list(zip(changed, vectors, strict=True)), forgotten=True)
        self._store.rewrite(self._key, rewriting, self._at)

    def _in_other_words(self, record: Record) -> list[_Told]:
        """The sentences of a memory that none of its lines says as they stand."""
        lines = "\n".join(u.text for u in self._store.utterances_by_id(self._key, record.sources).values())
        return [_Told(record.id, s) for s in sentences_of(record.text) if (s.partition(": ")[2] or s) not in lines]


def _without(text: str, gone: set[str], reading: Reading) -> str:
    """A text without some of its sentences, and without those after them that begin with "He" or "Her"."""
    going = False

    def kept(sentence: str) -> str:
        nonlocal going
        follows = reading.patterns["pronoun"].match(sentence) is not None
        going = sentence.strip() in gone or (going and follows)
        return "" if going else sentence

    return rewritten(text, kept) if gone else text


def quoted(told: Sequence[str]) -> str:
    """Sentences as the agent repeats them for the last time."""
    return " ".join([*told[:QUOTED], *(["…"] if len(told) > QUOTED else [])])
