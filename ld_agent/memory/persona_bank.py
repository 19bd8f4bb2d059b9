"""The persona banks P_u, P_a, …: the traits of every speaker of one conversation (LD-Agent, section 2.3).

A trait that repeats a known one is counted, not stored again. What was said to have ended is kept as history with the time of
its end. Traits for a prompt are selected by relevance and recency. Asks no model: traits arrive as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ld_agent.config.sections import PersonasSection
from ld_agent.errors import InputError
from ld_agent.languages.numbers import numbers
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Progress, SentenceEncoder, Vectors, no_progress
from ld_agent.memory.when import aged
from ld_agent.storage.rows import EPOCH, microseconds
from ld_agent.storage.store import Store
from ld_agent.types import Trait, Utterance, as_known, least_trusted, listed

NEVER = np.iinfo(np.int64).max
GROWTH = 1.5
RECENCY_SECONDS = 30 * 86_400.0
Holds = tuple[datetime | None, datetime | None]
"""From when and until when a trait holds; None: not said."""
OPEN: Holds = (None, None)
NO_HOLDS: Mapping[tuple[str, str], Holds] = {}
NOTHING_LATER: Mapping[str, Trait] = {}
ENCODED_AT_ONCE = 256
"""Number of traits encoded before they are stored, so that an interrupted run keeps its work."""


class PersonaBank:
    """The traits of every speaker of one conversation, loaded from the store on first use.

    Args:
        store: where the traits are stored.
        key: the conversation's key in the store.
        encoder: compares traits with each other and with utterances.
        settings: bounds, cap and weights.
        reading: how traits are read.
        progress: called while many traits are encoded, as after an import.
    """

    def __init__(
        self,
        store: Store,
        key: int,
        encoder: SentenceEncoder,
        settings: PersonasSection,
        reading: Reading,
        progress: Progress = no_progress,
    ) -> None:
        self._progress, self._reading = progress, reading
        self._store, self._key, self._encoder, self._settings = store, key, encoder, settings
        self._most_of_agent, self._most = settings.most(of_agent=True), settings.most(of_agent=False)
        self._shelf = store.personas(key)
        self._loaded: dict[str, SpeakerTraits] | None = None

    def drop_mirror(self) -> None:
        """Reload the bank on next use, after another process or an interrupted write changed the store."""
        self._loaded = None

    @property  # not cached_property: up to Python 3.11, that has a lock, taken in the opposite order to the store's
    def _banks(self) -> dict[str, SpeakerTraits]:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> dict[str, SpeakerTraits]:
        stored = self._shelf.traits()
        fresh = self._encoded([trait for trait, vector in stored if vector is None])
        banks: dict[str, SpeakerTraits] = {}
        for trait, vector in stored:
            bank = banks.setdefault(trait.speaker, SpeakerTraits(self._encoder.dimension))
            bank.add(trait, fresh[trait.id] if vector is None else vector)
        return banks

    def _encoded(self, bare: Sequence[Trait]) -> dict[str, Vectors]:
        """Encode and store the missing vectors of traits, imported or from another encoder; return them by id."""
        vectors: dict[str, Vectors] = {}
        for start in range(0, len(bare), ENCODED_AT_ONCE):
            part = bare[start : start + ENCODED_AT_ONCE]
            fresh = dict(zip((t.id for t in part), self._encoder.encode([t.text for t in part]), strict=True))
            self._shelf.set_vectors(fresh)
            vectors |= fresh
            if len(bare) > ENCODED_AT_ONCE:
                self._progress("reading traits", len(vectors), len(bare))
        return vectors

    def traits(
        self, speaker: str | None = None, *, history: bool = False, as_of: datetime | None = None
    ) -> list[Trait]:
        """The active traits of a speaker (None: of everyone), in the order they were learned.

        Args:
            history: those that are no longer active too.
            as_of: instead, those that held at this time, whenever they were told.
        """
        banks = self._banks.values() if speaker is None else [b for b in [self._banks.get(speaker)] if b]
        return listed([trait for bank in banks for trait in bank.traits], history, as_of)

    def seed(self, speaker: str, persona: Sequence[str], at: datetime) -> None:
        """Add a speaker's traits from the configuration, once; what was said since takes precedence."""
        if not persona:
            return
        with self._mirrored():
            for text, vector in zip(persona, self._encoder.encode(persona), strict=True):
                bank = self._bank(speaker)
                cosines = zip(bank.traits, bank.cosines(vector).tolist(), strict=True)
                if not any(self._is(text, trait.text, cosine) for trait, cosine in cosines):
                    self._add(speaker, text, at, source="")

    def merge(
        self,
        extracted: Sequence[tuple[Utterance, Sequence[str]]],
        holds: Mapping[tuple[str, str], Holds] = NO_HOLDS,
        over_by: Mapping[str, Trait] = NOTHING_LATER,
    ) -> None:
        """Merge the traits found in utterances atomically, each utterance once.

        Args:
            holds: when traits hold, by utterance id and text, where that was said.
            over_by: the later traits that end new ones, which were said before them and are taken in after them, by text.
        """
        self._encoder.encode([text for _, texts in extracted for text in texts])  # one batch; `_add` meets the cache
        with self._mirrored():
            for utterance, texts in extracted:
                if self._shelf.mark_extracted(utterance.id):
                    for text in texts:
                        when = holds.get((utterance.id, text), OPEN)
                        later = over_by.get(text)
                        self._add(utterance.speaker, text, utterance.at, utterance.id, utterance.channel, when, later)

    def end(self, trait_id: str, at: datetime, by: str) -> bool:
        """Note that a trait holds only until a time; it stays active until one that is to come when this is said. Atomic.

        Args:
            by: id of the utterance that said so.

        Returns:
            False: nothing changed, because the trait is gone, pinned or no longer active, or less trusted text says so.
        """
        for bank in self._banks.values():
            for row, trait in enumerate(bank.traits):
                if trait.id == trait_id and trait.active and not trait.pinned:
                    said = self._store.utterances_by_id(self._key, [by]).get(by)
                    if said is None or less_trusted(said.channel, trait.channel):
                        return False
                    with self._mirrored():
                        planned = replace(trait, holds_until=at, planned_by=by)
                        self._update(bank, row, planned if at > said.at else _ended(trait, at, by))
                    return True
        return False

    @contextmanager
    def _mirrored(self) -> Iterator[None]:
        """An atomic write; if it fails, the bank's state in memory is dropped."""
        try:
            with self._store.writing(self._key):
                yield
        except BaseException:
            self.drop_mirror()
            raise

    def _bank(self, speaker: str) -> SpeakerTraits:
        if speaker not in self._banks:
            self._banks[speaker] = SpeakerTraits(self._encoder.dimension)
        return self._banks[speaker]

    def _add(
        self,
        speaker: str,
        text: str,
        at: datetime,
        source: str,
        channel: str = "chat",
        holds: Holds = OPEN,
        over_by: Trait | None = None,
    ) -> None:
        vector, bank = self._encoder.encode([text])[0], self._bank(speaker)
        least = self._settings.merge_similarity
        rivals = list(bank.rivals(text, vector, least, microseconds(at))) if self._settings.reconcile else []
        same = [(cosine, row) for row, t, cosine in rivals if self._is(text, t.text, cosine)]
        doubted = [  # by a document, and now said by the person
            row
            for _, row in same
            if (t := bank.traits[row]).last_at <= at and not t.pinned and less_trusted(t.channel, channel)
        ]
        same = [one for one in same if one[1] not in doubted]
        if same:
            row = max(same)[1]
            trait = bank.traits[row]
            trait = replace(trait, at=min(trait.at, at), last_at=max(trait.last_at, at), mentions=trait.mentions + 1)
        else:
            trait, row = self._shelf.add(speaker, text, at, source, vector), len(bank)
            bank.add(trait, vector)
        begins, until = holds
        if same or begins or until:
            trait = replace(trait, holds_from=begins or trait.holds_from)
            self._update(bank, row, replace(trait, holds_until=until, planned_by="") if until else trait)
        if over_by is not None and not same:
            ended = _ended(bank.traits[row], over_by.holds_from or over_by.at, over_by.source)
            self._update(bank, row, replace(ended, superseded_by=over_by.id))
        for row in doubted:
            self._update(bank, row, replace(_ended(bank.traits[row], begins or at, source), superseded_by=trait.id))

    def _update(self, bank: SpeakerTraits, row: int, trait: Trait) -> None:
        self._shelf.update(trait)
        bank.put(row, trait)

    def _is(self, newer: str, older: str, similarity: float) -> bool:
        """Whether two traits are one: close embeddings, the same numbers, and both or neither denied."""
        if newer == older or similarity < self._settings.merge_similarity:
            return newer == older
        denies, (counts, others) = self._reading.patterns["negated"].search, (numbers(newer), numbers(older))
        return (denies(newer) is None) == (denies(older) is None) and {n for _, n in counts} == {n for _, n in others}

    def select(
        self,
        speakers: Sequence[str],
        query: Vectors,
        at: datetime,
        agent: str | None = None,
        since: datetime | None = None,
    ) -> Mapping[str, tuple[str, ...]]:
        """The traits for a prompt, by speaker: those relevant to the query or mentioned recently.

        Traits learned after ``since`` are ignored, and so are those that no longer held at ``at``; what ended later counts.

        Args:
            query: (dimension,) unit vector.
            at: the query's time.
            agent: the speaker who is the agent.
            since: how long ago something was said is counted from here; None: ``at``.

        Returns:
            at most ``personas.cap`` (or ``user_cap``, ``agent_cap``) trait texts by speaker, in the order they were
            learned; speakers without traits are absent.
        """
        chosen: dict[str, tuple[str, ...]] = {}
        now, recency = microseconds(at), self._settings.recency
        known = now if since is None else microseconds(since)
        for speaker in dict.fromkeys(speakers):
            bank, cap = self._banks.get(speaker), self._most_of_agent if speaker == agent else self._most
            best = bank.best(query, now, known, cap, recency) if bank and cap else []
            if best:
                chosen[speaker] = tuple([trait.text for trait in best])
        return chosen

    def channels(self, chosen: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], str]:
        """The least trusted channel of each selected trait that was not said in the chat, by speaker and text."""
        by_trait: dict[tuple[str, str], list[str]] = {}
        for speaker, texts in chosen.items():
            for trait in [trait for text in texts for trait in self._bank(speaker).active(text)]:
                if trait.channel != "chat":
                    by_trait.setdefault((speaker, trait.text), []).append(trait.channel)
        return {named: least_trusted(channels) for named, channels in by_trait.items()}

    def aged(
        self, chosen: Mapping[str, Sequence[str]], at: datetime, *, in_place: bool = False
    ) -> dict[tuple[str, str], str]:
        """Selected traits that tell an age of years ago, with what it is at a time, or with that alone; by speaker and text."""
        traits = [t for speaker, texts in chosen.items() for text in texts for t in self._bank(speaker).active(text)]
        texts = {(t.speaker, t.text): aged(t.text, t.last_at, at, self._reading, in_place=in_place) for t in traits}
        return {named: text for named, text in texts.items() if text != named[1]}

    def near(self, speaker: str, text: str, most: int, least: float) -> list[Trait]:
        """The active traits of a speaker nearest to a text, with a cosine of at least ``least``; the nearest first."""
        bank = self._banks.get(speaker)
        return bank.nearest(self._encoder.encode([text])[0], most, least) if bank else []

    def require(self, speaker: str, speakers: Sequence[str]) -> str:
        """The name of a speaker who takes part in the conversation, as it is written there.

        Raises:
            InputError: nobody has that name; lists the participants.
        """
        everyone = dict.fromkeys([*speakers, *self._banks])
        if (known := as_known(speaker, everyone)) not in everyone:
            raise InputError(
                f"unknown speaker {speaker!r}; this conversation has: {', '.join(everyone) or 'nobody yet'}"
            )
        return known


class SpeakerTraits:
    """The n traits of one speaker in the order they were learned, as columns, so that thousands can be compared at once.

    Attributes:
        traits: (n,) the traits themselves.
    """

    def __init__(self, dimension: int) -> None:
        self.traits: list[Trait] = []
        self._vectors = np.empty((0, dimension), np.float32)
        self._times = np.empty((3, 0), np.int64)  # learned at, last mentioned, holds until; microseconds
        self._flags = np.empty((2, 0), np.bool_)  # active, pinned
        self._by_text: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.traits)

    def add(self, trait: Trait, vector: Vectors) -> None:
        """Append a trait."""
        n = len(self.traits)
        if n == len(self._vectors):
            more = int(n * GROWTH) + 16 - n
            self._vectors = np.pad(self._vectors, ((0, more), (0, 0)))
            self._times = np.pad(self._times, ((0, 0), (0, more)))
            self._flags = np.pad(self._flags, ((0, 0), (0, more)))
        self._vectors[n] = vector
        self._by_text.setdefault(trait.text, []).append(n)
        self.traits.append(trait)
        self.put(n, trait)

    def put(self, row: int, trait: Trait) -> None:
        """Replace the trait of a row by its later state."""
        until = microseconds(trait.holds_until or EPOCH) if trait.holds_until or not trait.active else NEVER
        self.traits[row] = trait
        self._times[:, row] = microseconds(trait.at), microseconds(trait.last_at), until
        self._flags[:, row] = trait.active, trait.pinned

    def cosines(self, vector: Vectors) -> Vectors:
        """(n,) cosine of each trait, past ones included, with a unit vector; equal vectors get equal numbers."""
        cosines: Vectors = np.vecdot(self._vectors[: len(self.traits)], vector)
        return cosines

    def rivals(self, text: str, vector: Vectors, least: float, at: int) -> Iterator[tuple[int, Trait, float]]:
        """Traits that held when a text was said and may repeat it: (row, trait, cosine), in row order.

        Args:
            least: minimum cosine; the same text always counts.
            at: when it was said, in microseconds since the epoch; what was over by then is excluded.
        """
        cosines, holding = self.cosines(vector), self._times[2, : len(self.traits)] > at
        wanted = cosines >= least
        wanted[self._by_text.get(text, [])] = True
        for row in np.flatnonzero(holding & wanted).tolist():
            yield row, self.traits[row], float(cosines[row])

    def best(self, query: Vectors, at: int, known: int, most: int, recency: float) -> list[Trait]:
        """The traits known at one time, not over at another, that are most relevant to a query, in the order they were learned.

        Pinned traits come first; worth is (1 - recency) · cosine + recency · e^(-age / `RECENCY_SECONDS`).

        Args:
            query: (dimension,) unit vector.
            at, known: when they are not over, and when they were known; microseconds since the epoch.
        """
        n = len(self.traits)
        known_from, last_said, holds_until = self._times[:, :n]
        recent = recency * np.exp(np.maximum(known - last_said, 0) / (-1e6 * RECENCY_SECONDS))
        recent[self._flags[1, :n]] = np.inf
        worth = (1 - recency) * self.cosines(query).astype(np.float64) + recent
        rows = np.flatnonzero((known_from <= known) & (holds_until > at))
        chosen: NDArray[np.intp] = np.sort(rows[np.lexsort((-rows, -worth[rows]))[:most]])
        return [self.traits[row] for row in chosen.tolist()]

    def active(self, text: str) -> list[Trait]:
        """The active traits with exactly this text; without any, those that were active."""
        same = self._by_text.get(text, [])
        return [self.traits[row] for row in [row for row in same if self._flags[0, row]] or same]

    def nearest(self, vector: Vectors, most: int, least: float) -> list[Trait]:
        """The active traits nearest to a unit vector, at least that near; the nearest first."""
        cosines = self.cosines(vector)
        rows = np.flatnonzero(self._flags[0, : len(self.traits)] & (cosines >= least))
        nearest: NDArray[np.intp] = rows[np.argsort(-cosines[rows], kind="stable")[:most]]
        return [self.traits[row] for row in nearest.tolist()]


def _ended(trait: Trait, at: datetime, by: str) -> Trait:
    until = trait.holds_until
    otherwise = until if trait.active else trait.otherwise_until
    return replace(trait, holds_until=min(until or at, at), ended_by=by, otherwise_until=otherwise)


def less_trusted(channel: str, other: str) -> bool:
    """Text from a document supersedes nothing said in the chat."""
    return channel != other and least_trusted((channel, other)) == channel
