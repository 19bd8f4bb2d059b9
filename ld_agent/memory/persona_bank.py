"""The persona banks P_u, P_a, …: what is known of every speaker of one conversation (LD-Agent, section 2.3).

A trait that says again what is known is counted, not stored twice; one that contradicts an older one of the same topic
supersedes it, and the older one stays as history. Selection for a prompt is by relevance and recency. Models are no
business of this file: traits come in as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ld_agent.config import PersonasSection
from ld_agent.errors import InputError
from ld_agent.memory.contradiction import contradicts, differ, same_slot
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.storage.sqlite import Store
from ld_agent.types import Trait, Utterance

RECENCY_SECONDS = 30 * 86_400.0


class PersonaBank:
    """The traits of every speaker of one conversation.

    Args:
        store: where they are kept.
        key: the conversation's key in the store.
        encoder: compares traits with each other and with what is said.
        settings: bounds, cap and weights.
    """

    def __init__(self, store: Store, key: int, encoder: SentenceEncoder, settings: PersonasSection) -> None:
        self._store, self._key, self._encoder, self._settings = store, key, encoder, settings
        self._traits: list[tuple[Trait, Vectors]] = []
        self.reload()

    def reload(self) -> None:
        """Read the bank from the store again, after another process wrote to it."""
        stored = self._store.traits(self._key)
        bare = [trait for trait, vector in stored if vector is None]  # imported, or from another encoder
        fresh = dict(zip((t.id for t in bare), self._encoder.encode([t.text for t in bare]), strict=True))
        if fresh:
            with self._store.db.transaction():
                for trait in bare:
                    self._store.put_trait(self._key, trait, fresh[trait.id])
        self._traits = [(trait, fresh[trait.id] if vector is None else vector) for trait, vector in stored]

    def traits(self, speaker: str, *, history: bool = False) -> list[Trait]:
        """A speaker's traits in the order of their making; with ``history`` the superseded ones too."""
        return [t for t, _ in self._traits if t.speaker == speaker and (history or t.active)]

    def seed(self, speaker: str, persona: Sequence[str], at: datetime) -> None:
        """Give a speaker traits from the configuration, once: what was said of them since counts for more."""
        before = list(self._traits)
        try:
            with self._store.db.transaction():
                for text, vector in zip(persona, self._encoder.encode(persona), strict=True):
                    if not any(
                        t.speaker == speaker and self._is(text, t.text, float(v @ vector)) for t, v in self._traits
                    ):
                        self._add(speaker, text, at, source="")
        except BaseException:
            self._traits = before
            raise

    def merge(self, found: Sequence[tuple[Utterance, Sequence[str]]]) -> None:
        """Take in the traits that were found in utterances, each utterance once, all in one transaction."""
        self._encoder.encode([text for _, texts in found for text in texts])  # one batch; `_add` meets the cache
        before = list(self._traits)
        try:
            with self._store.db.transaction():
                for utterance, texts in found:
                    if self._store.mark_extracted(self._key, utterance.id):
                        for text in texts:
                            self._add(utterance.speaker, text, utterance.at, utterance.id)
        except BaseException:
            self._traits = before
            raise

    def _add(self, speaker: str, text: str, at: datetime, source: str) -> None:
        vector = self._encoder.encode([text])[0]
        rivals = [
            (i, t, float(v @ vector)) for i, (t, v) in enumerate(self._traits) if t.speaker == speaker and t.active
        ]
        overruled = [i for i, t, similarity in rivals if self._overrules(text, t.text, similarity)]
        same = [
            (similarity, i) for i, t, similarity in rivals if i not in overruled and self._is(text, t.text, similarity)
        ]
        if same:
            index = max(same)[1]
            trait = self._traits[index][0]
            self._put(index, replace(trait, last_at=max(trait.last_at, at), mentions=trait.mentions + 1))
        else:
            trait = Trait(self._store.new_trait_id(self._key), speaker, text, at, source, at)
            self._store.put_trait(self._key, trait, vector)
            self._traits.append((trait, vector))
        for index in overruled:
            self._put(index, replace(self._traits[index][0], superseded_by=trait.id))

    def _overrules(self, newer: str, older: str, similarity: float) -> bool:
        one_topic = similarity >= self._settings.topic_similarity or same_slot(newer, older)
        return one_topic and contradicts(newer, older)

    def _is(self, newer: str, older: str, similarity: float) -> bool:
        return newer == older or (similarity >= self._settings.merge_similarity and not differ(newer, older))

    def _put(self, index: int, trait: Trait) -> None:
        vector = self._traits[index][1]
        self._store.put_trait(self._key, trait, vector)
        self._traits[index] = trait, vector

    def select(self, speakers: Sequence[str], query: Vectors, at: datetime) -> Mapping[str, tuple[str, ...]]:
        """Choose the traits of each speaker for a prompt.

        A trait's worth is (1 - w) cos(query, trait) + w exp(-age / 30 days), with w = ``personas.recency``.

        Args:
            query: (dimension,) vector of the utterance to answer.
            at: time of the query; traits younger than it are not known yet, nor what they supersede is superseded.

        Returns:
            at most ``personas.cap`` trait texts by speaker, in the order in which they became known; speakers of whom
            nothing is known are absent.
        """
        made = {t.id: t.at for t, _ in self._traits}

        def overruled(trait: Trait) -> bool:
            return trait.superseded_by is not None and made.get(trait.superseded_by, trait.at) <= at

        chosen: dict[str, tuple[str, ...]] = {}
        weight, cap = self._settings.recency, self._settings.cap
        for speaker in dict.fromkeys(speakers):
            known = [(t, v) for t, v in self._traits if t.speaker == speaker and t.at <= at and not overruled(t)]
            if not known or cap == 0:
                continue
            relevance = np.stack([v for _, v in known]) @ query
            recency = [math.exp(-max((at - t.last_at).total_seconds(), 0.0) / RECENCY_SECONDS) for t, _ in known]
            worth = [(1 - weight) * float(r) + weight * f for r, f in zip(relevance, recency, strict=True)]
            best = sorted(range(len(known)), key=lambda i: (-worth[i], -i))[:cap]
            chosen[speaker] = tuple(known[i][0].text for i in sorted(best))
        return chosen

    def known_speakers(self) -> list[str]:
        """Everyone of whom something is known or was, in the order in which it became known."""
        return list(dict.fromkeys(t.speaker for t, _ in self._traits))

    def require(self, speaker: str, speakers: Sequence[str]) -> None:
        """Check that someone takes part.

        Raises:
            InputError: naming those who do.
        """
        everyone = dict.fromkeys([*speakers, *self.known_speakers()])
        if speaker not in everyone:
            raise InputError(
                f"unknown speaker {speaker!r}; this conversation has: {', '.join(everyone) or 'nobody yet'}"
            )
