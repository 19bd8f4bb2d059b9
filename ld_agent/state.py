"""What all threads of one conversation share: the persona bank, the memory, and the pending work on both.

Knows nothing of prompts for replies, of SQL, or of how a model is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from ld_agent.checks.kept import ABOUT, CHANGES, ENDS, changed, may_last, over, telling, true_traits, without_passed_on
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.statements import sentences_of, speaks_of_self
from ld_agent.errors import InputError, StoreError
from ld_agent.languages import AUTO, detected, language
from ld_agent.languages.reading import Reading
from ld_agent.memory.persona_bank import NOTHING_LATER, PersonaBank, less_trusted
from ld_agent.memory.running import recalled_lines
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.memory.views.enabled import EnabledViews, Remembered, attempted
from ld_agent.memory.when import dated, held, only_date
from ld_agent.modules.changed_trait import LONGEST_LINE, changed_trait
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.replies import is_stock_phrase
from ld_agent.running.turnstile import Turnstile
from ld_agent.steps import Steps, side_by_side
from ld_agent.storage.rows import EPOCH, TRAITS
from ld_agent.types import Recalled, Record, Trait, Utterance, utc

if TYPE_CHECKING:
    from ld_agent.memory.views.base import Query, ViewContext
    from ld_agent.running.resources import Resources

BEFORE = 2
"""Lines before an utterance that are read with it."""
LEARNED_AT_ONCE = 8
"""Imported lines whose traits are extracted at once."""
LONGEST_CORRECTION = 200
"""Characters of a line that are shown beside what it ended."""
CONCERNED = 6
"""A speaker's traits that an utterance may end: those nearest to it."""


class Relation:
    """The agent and the people of one conversation.

    Its state in memory (the persona bank, the indexes) mirrors the store and is reloaded after another process, or a
    manual edit, changed the store.

    Attributes:
        key: the conversation's key in the store.
        turnstile: lets one caller in at a time.
        models: the agent's, with the prompts of the conversation's language.
        encoder, check: the agent's; the check is None if it does not know that language.
        complete, acomplete: ask a model.
        revision: increases whenever the threads' mirrors may be out of date.
    """

    def __init__(self, resources: Resources, conversation_id: str, agent_name: str) -> None:
        self.resources, self.id = resources, conversation_id
        config, self._store = resources.config, resources.store
        stored = self._store.open_conversation(conversation_id, agent_name)
        self.key, self.agent_name = stored.key, stored.agent
        self._version: Hashable = self._store.version(self.key)  # read first, so that later writes are noticed
        self._edits = self._store.edits(self.key)
        self.revision = 0
        shared = self._store.turn_lock(self.key)
        self.turnstile = Turnstile(f"conversation {conversation_id!r}", config.agent.busy == "wait", shared)
        self.complete, self.acomplete = resources.asking.complete, resources.asking.acomplete
        self.models, self._settled = resources.models, config.language != AUTO
        self.encoder = resources.encoder
        self.check = resources.check_for(self.models.language.code)
        self._script_noted = False
        self.bank = PersonaBank(
            self._store, self.key, self.encoder, config.personas, self.models.language.reading, resources.progress
        )
        self.bank.seed(self.agent_name, config.agent.persona, EPOCH)
        self.views = self._views()
        self._notes = self.views.enable()
        self._settle_language()
        self._store.retry(self.key, once=True)  # retry what failed while a model was unavailable

    def _views(self) -> EnabledViews:
        return EnabledViews(self.resources.config.memory.views, self.context())

    def context(self) -> ViewContext:
        """What its views are made from, in its own language."""
        return self.resources.view_context(self.key, self.agent_name, self.models)

    def _settle_language(self) -> None:
        """With ``language: auto``, adopt the language of the first utterance that has letters. Later ones do not count, so
        that a conversation that is reopened keeps its language."""
        if self._settled:
            return
        said = (u.text for u in self._store.session_utterances(self.key, 1) if u.speaker != self.agent_name)
        code = next(filter(None, (detected([text]) for text in said)), None)
        if code is None:
            return
        self._settled = True
        if code != self.models.language.code:
            self.models = self.models.speaking(language(code))
            self.check = self.resources.check_for(code)
            self.views = self._views()

    def first_unknown_script(self, text: str) -> bool:
        """Whether a text is the first in a script that the encoder does not know."""
        if self._script_noted or self.encoder.knows_script(text):
            return False
        self._script_noted = True
        return True

    def recalled(self, query: Query, k: int | None = None) -> Steps[Remembered]:
        """What all views recall: at most ``k`` records each, or as configured and within the budget of a prompt."""
        if k is None:
            return self.views.recall(query)
        context = self.context()
        settings = context.settings.model_copy(update={"k": k})
        views = EnabledViews(self.resources.config.memory.views, replace(context, settings=settings))
        return views.recall(query, within_budget=False)

    def recalled_lines(self, query: Query, k: int | None = None) -> list[Recalled]:
        """What people said in the running sessions of all threads, as far as it is relevant to a query."""
        settings, said = self.resources.config.memory, self._store.open_utterances(self.key, None)
        most = settings.k if k is None else k
        return recalled_lines(query, said, self.agent_name, self.encoder, most, settings.least_cosine)

    def ended(self, ids: Collection[str]) -> list[Trait]:
        """The traits of utterances that somebody's later words have ended, or will end on a day to come."""
        return [t for t in self.bank.traits(history=True) if t.ended_by and t.source in ids]

    def corrections(self, ended: Sequence[Trait]) -> dict[str, str]:
        """What people said later that ended traits, by the ids of the utterances that told these; see `ended`."""
        later = self._store.utterances_by_id(self.key, [t.ended_by for t in ended]) if ended else {}
        return {t.source: later[t.ended_by].text[:LONGEST_CORRECTION] for t in ended if t.ended_by in later}

    def shown(self, running: Sequence[Utterance]) -> dict[str, Sequence[Record]] | None:
        """By line of a running session, what was recalled for the reply that follows it; None: as published, it leaves with
        its turn."""
        if self.check is None:
            return None
        agent = self.agent_name
        lines = {reply.id: line.id for line, reply in pairwise(running) if reply.speaker == agent != line.speaker}
        recalled = self._store.recalled_by(self.key, [*lines]) if lines else {}
        return {lines[reply]: records for reply, records in recalled.items()}

    @contextmanager
    def up_to_date(self) -> Iterator[None]:
        """Pick up what other processes have stored; use inside the turnstile.

        Raises:
            StoreError: the conversation was deleted.
        """
        self.expire()
        self.refresh()
        try:
            yield
        except BaseException:
            self._version = None  # an interrupted write may have left the mirrors out of date
            raise

    def refresh(self) -> None:
        """Drop mirrors that another process has made out of date. Do not call this in a transaction.

        Raises:
            StoreError: the conversation was deleted.
        """
        version = self._store.version(self.key)
        if version is None:
            raise StoreError(f"conversation {self.id!r} was deleted; reopen it with Agent.conversation")
        if version == self._version:
            return
        self._store.check_encoder(self.encoder.name, self.encoder.dimension)
        self.bank.drop_mirror()
        if self._store.edits(self.key) != self._edits:
            self.changed_by_hand()
        self.revision += 1
        self._version = version

    def expire(self) -> None:
        """Remove what has expired; use inside the turnstile. Whoever comes in next notices."""
        if self._store.expire(self.key):
            self._version = None
            self.resources.indexes.drop(self.key)

    def changed_by_hand(self) -> None:
        """Drop every mirror after something was edited, pinned or forgotten by hand."""
        self.revision += 1
        self._edits = self._store.edits(self.key)
        self.bank.drop_mirror()
        self.resources.indexes.drop(self.key)
        self.views = self._views()

    def take_notes(self) -> list[str]:
        """Return and clear the notes about pending work since the last reply."""
        notes, self._notes = self._notes, []
        return list(dict.fromkeys(notes))

    # ---- pending work

    def pending(self, *, answered: bool = False) -> Steps[None]:
        """Do all pending work concurrently: extract traits, digest closed sessions, observe running ones.

        Utterances waiting for a reply are skipped: a prompt contains what was learned before its utterance and no more,
        whether or not the work was interrupted.

        Args:
            answered: no utterance waits for a reply; include everything that was said.
        """
        self._settle_language()
        store, key = self._store, self.key
        last = store.last_of_each(key)
        unanswered = frozenset(() if answered else (u.id for u in last if u.speaker != self.agent_name))
        waiting = [u for u in store.unextracted(key) if u.id not in unanswered]
        pieces = [self._learned(waiting), *self.views.pending([u.session for u in last], unanswered)]
        failures = yield from side_by_side(pieces)
        self._notes += [note for notes in failures for note in notes]

    def history(self) -> Steps[bool]:
        """A small piece of what is to be learned from imported history, in order of time. It can be ended at any step: what it
        has not stored by then is learned another time.

        Returns:
            whether there was something to learn, and nothing failed: go on.
        """
        waiting = self._store.unextracted(self.key, imported=True, most=LEARNED_AT_ONCE)
        sessions = self.views.history()
        if not waiting and not sessions:
            return False
        failures = yield from side_by_side([self._learned(waiting), *sessions])
        return not any(failures)

    def _dated(self, said: Utterance, traits: Sequence[str], before: str) -> tuple[str, ...]:
        """Traits with dates for relative times, because they are read at other times than that of their utterance."""
        return tuple(dated(trait, said.local_at, self.models.language.reading, [before, said.text]) for trait in traits)

    def _judged(
        self, check: StatementCheck, said: Utterance, traits: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[tuple[Trait, datetime]], Mapping[str, Trait]]:
        """The traits that an utterance supports, its speaker's traits that it ends and when, and the later traits that end those
        of an imported utterance, by text. Writes nothing, as models take time.
        """
        if not (text := self._told(said)).strip():
            return traits, (), {}
        lines = [*self._before(said), (said.speaker, text)]
        near = self.bank.near(said.speaker, text, CONCERNED, ABOUT)
        known = [t for t in near if not t.pinned and t.source != said.id and t.last_at <= said.at]
        ends = bool(known) and may_last(check, text, ENDS)
        told = telling(lines[-1:], said.speaker) if ends else []  # a question ends nothing
        claims = [(told, f"{said.speaker}: {trait.text}") for trait in known] if told else []
        ended = [known[n] for n in over(check, claims)]
        true = true_traits(check, lines, traits, self.models.language.reading, ends=bool(ended))
        newer = [
            t for t in near if t.last_at > said.at and t.source != said.id and not less_trusted(t.channel, said.channel)
        ]
        pairs = (
            [(trait, later) for trait in true for later in newer] if self.resources.config.personas.reconcile else []
        )
        claims = [([(said.speaker, later.text)], f"{said.speaker}: {trait}") for trait, later in pairs]
        by_start = sorted((pairs[n] for n in over(check, claims)), key=lambda pair: pair[1].holds_from or pair[1].at)
        over_at = [(trait, ends_at(check, trait, said, self.models.language.reading)) for trait in ended]
        return true, over_at, dict(reversed(by_start))

    def _merge(
        self,
        learned: Sequence[tuple[Utterance, Sequence[str]]],
        ended: Sequence[tuple[Trait, datetime]] = (),
        over_by: Mapping[str, Trait] = NOTHING_LATER,
    ) -> None:
        """Store the traits of utterances with when they hold, and what the last of them ends; atomic.

        Args:
            over_by: the later traits that end those of the last utterance, by text.
        """
        with self._store.writing(self.key):
            # What another process has learned counts too; `refresh` would wait for locks that precede the store's.
            if self._store.version(self.key) != self._version:
                self.bank.drop_mirror()
            reading = self.models.language.reading
            for trait, at in ended:
                self.bank.end(trait.id, at, learned[-1][0].id)
            holds = {(u.id, text): held(text, u.local_at, reading) for u, texts in learned for text in texts}
            self.bank.merge(learned, holds, over_by)

    def _changed(self, check: StatementCheck, said: Utterance) -> Steps[tuple[list[str], list[tuple[Trait, datetime]]]]:
        """What becomes of the trait that an utterance may change, the nearest one or else the one told right before: the trait as
        it is now if there is one, and whether it ends the old one."""
        asked = not check.verbatim and self._may_have_traits(said)
        text = " ".join(told for _, told in telling([(said.speaker, self._told(said))], said.speaker)) if asked else ""
        if not text.strip() or len(text) > LONGEST_LINE:
            return [], []
        before = {u.id for u in self._said_before(said) if u.speaker == said.speaker}
        recent = [trait for trait in self.bank.traits(said.speaker) if trait.source in before]
        known = (*self.bank.near(said.speaker, text, CONCERNED, ABOUT), *reversed(recent))
        old = next((t for t in known if not t.pinned and t.source != said.id and t.last_at <= said.at), None)
        if old is None or not may_last(check, text, CHANGES):
            return [], []
        new = yield from changed_trait(self.models, old.text, text)
        keeps, ends = changed(check, text, old.text, new) if new else (False, False)
        return [new] * keeps, [(old, said.at)] * ends

    def _before(self, said: Utterance) -> list[tuple[str, str]]:
        """What was said right before an utterance in its session."""
        return [(u.speaker, u.text) for u in self._said_before(said)]

    def _said_before(self, said: Utterance) -> list[Utterance]:
        number = int(said.id.removeprefix("u"))
        ids = [f"u{n}" for n in range(max(number - BEFORE, 1), number)]
        before = self._store.utterances_by_id(self.key, ids)
        return [u for i in ids if (u := before.get(i)) is not None and u.session == said.session]

    def _may_have_traits(self, said: Utterance) -> bool:
        """Whether an utterance may give its speaker traits: "Your son Jakob is four!" gives the agent no son."""
        reading = self.models.language.reading
        return said.speaker != self.agent_name or any(speaks_of_self(s, reading) for s in sentences_of(said.text))

    def _told(self, said: Utterance) -> str:
        """What an utterance tells in its speaker's words; "" for a stock phrase."""
        stock = is_stock_phrase(said, self.agent_name, self.models.language)
        return "" if stock else without_passed_on(said.text)

    def _learned(self, waiting: list[Utterance]) -> Steps[list[str]]:
        """Extract the traits of utterances and merge them into the persona banks."""
        by_id = {u.id: u for u in waiting}

        def learn(items: Sequence[str]) -> Steps[None]:
            utterances = [by_id[item] for item in items]
            answered = [self._store.answered(self.key, u) for u in utterances]
            settings = self.resources.config.modules.extractor
            extractor = Extractor(self.models, settings.prompting, settings.grounded)
            extracted = yield from extractor.steps([self._told(u) for u in utterances], answered)
            if self.resources.config.personas.attribution:
                pairs = zip(utterances, extracted, strict=True)
                extracted = [traits if self._may_have_traits(u) else () for u, traits in pairs]
            check = self.check
            learned = list(zip(utterances, extracted, answered, strict=True))
            if check is None:
                self._merge([(u, self._dated(u, traits, before)) for u, traits, before in learned])
                return
            for u, traits, before in learned:  # in turn, because a line may end what the one before told
                yield ()  # each line's judgement takes a while, and somebody may wait by now
                true, ended, over_by = self._judged(check, u, traits)
                now, outdated = yield from self._changed(check, u)
                true, ended = [*dict.fromkeys([*true, *now])], [*ended, *outdated]
                written = self._dated(u, true, before)
                by_text = {text: over_by[trait] for trait, text in zip(true, written, strict=True) if trait in over_by}
                self._merge([(u, written)], ended, by_text)

        return (yield from attempted(self._store, self.key, TRAITS, list(by_id), learn, "for their traits"))


def gone_by(at: datetime, ended: Sequence[Trait]) -> dict[str, str]:
    """What utterances told that no longer holds at a time, by their ids."""
    over: dict[str, str] = {}
    for trait in ended:
        if trait.holds_until is None or trait.holds_until <= at:
            over[trait.source] = f"{over.get(trait.source, '')} {trait.text}".strip()
    return over


def ends_at(check: StatementCheck, trait: Trait, said: Utterance, reading: Reading) -> datetime:
    """When a trait ends that an utterance ends: on the only date of a sentence that ends it ("I'm moving to Bristol on 4 May."),
    if the trait was told before that date and has none itself, or else as it is said."""
    for sentence in () if trait.holds_from or trait.holds_until else sentences_of(said.text):
        period = only_date(sentence, said.local_at, reading)
        claim = telling([(said.speaker, sentence)], said.speaker), f"{said.speaker}: {trait.text}"
        if period is not None and trait.last_at <= period[0] and claim[0] and over(check, [claim]):
            return period[0]
    return said.at


def session_ended(relation: Relation, cache: ShortTermCache, at: datetime | str | None) -> Steps[list[Record]]:
    """End the running session, as steps; return the records made from it.

    Raises:
        InputError: ``at`` is before its last utterance.
    """
    store = relation.resources.store
    if not cache.utterances:
        return []
    last = cache.utterances[-1]
    if at is not None and utc(at) < last.at:
        raise InputError(f"at={at} is before the session's last utterance ({last.at.isoformat()}); give a later time")
    yield from relation.pending(answered=True)
    relation.refresh()
    with store.writing(relation.key):
        cache.reload()
        if cache.utterances and cache.utterances[-1].session == last.session:
            cache.end()
    yield from relation.pending(answered=True)
    return store.records(relation.key, session=last.session)
