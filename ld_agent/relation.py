"""What all threads of one conversation share: the persona bank and the memory. What fills both is in `learning.py`.

Knows nothing of prompts for replies, of SQL, or of how a model is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from ld_agent.errors import StoreError
from ld_agent.languages import AUTO, detected, language
from ld_agent.memory.persona_bank import PersonaBank
from ld_agent.memory.running import recalled_lines
from ld_agent.memory.views.base import Query, ViewContext
from ld_agent.memory.views.enabled import EnabledViews, Remembered
from ld_agent.memory.when import as_dated
from ld_agent.running.resources import Resources
from ld_agent.running.turnstile import Turnstile
from ld_agent.steps import Steps
from ld_agent.storage.rows import EPOCH
from ld_agent.types import Recalled, Record, Trait, Utterance

INSTANT = timedelta(microseconds=1)
"""Before it was told, what never held ends."""


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
        version: of the store, when the mirrors were read; None: they may be out of date.
        notes: about pending work since the last reply.
        revision: increases whenever the threads' mirrors may be out of date.
    """

    def __init__(self, resources: Resources, conversation_id: str, agent_name: str) -> None:
        self.resources, self.id = resources, conversation_id
        config, self.store = resources.config, resources.store
        stored = self.store.open_conversation(conversation_id, agent_name)
        self.key, self.agent_name = stored.key, stored.agent
        self.version: Hashable = self.store.version(self.key)  # read first, so that later writes are noticed
        self._edits = self.store.edits(self.key)
        self.revision = 0
        shared = self.store.turn_lock(self.key)
        self.turnstile = Turnstile(f"conversation {conversation_id!r}", config.agent.busy == "wait", shared)
        self.complete, self.acomplete = resources.asking.complete, resources.asking.acomplete
        self.models, self._settled = resources.models, config.language != AUTO
        self.encoder = resources.encoder
        self.check = resources.check_for(self.models.language.code)
        self._script_noted = False
        self.bank = PersonaBank(
            self.store, self.key, self.encoder, config.personas, self.models.language.reading, resources.progress
        )
        self.bank.seed(self.agent_name, config.agent.persona, EPOCH)
        self.views = self._views()
        self.notes = self.views.enable()
        self.settle_language()
        self.store.retry(self.key, once=True)  # retry what failed while a model was unavailable

    def _views(self) -> EnabledViews:
        return EnabledViews(self.resources.config.memory.views, self.context())

    def context(self) -> ViewContext:
        """What its views are made from, in its own language."""
        return self.resources.view_context(self.key, self.agent_name, self.models)

    def settle_language(self) -> None:
        """With ``language: auto``, adopt the language of the first utterance that has letters. Later ones do not count, so
        that a conversation that is reopened keeps its language."""
        if self._settled:
            return
        said = (u.text for u in self.store.session_utterances(self.key, 1) if u.speaker != self.agent_name)
        code = next(filter(None, (detected([text]) for text in said)), None)
        if code is None:
            return
        self._settled = True
        if code != self.models.language.code:
            self.models = self.models.speaking(language(code))
            self.check = self.resources.check_for(code)
            self.views = self._views()

    @property
    def people(self) -> Sequence[str]:
        """The agent, and everyone who has spoken in any session."""
        return list(dict.fromkeys([self.agent_name, *self.store.speakers(self.key)]))

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
        settings, said = self.resources.config.memory, self.store.open_utterances(self.key, None)
        most = settings.k if k is None else k
        return recalled_lines(query, said, self.agent_name, self.encoder, most, settings.least_cosine)

    def ended(self, ids: Collection[str]) -> list[Trait]:
        """The traits of utterances that somebody's later words have ended, or will end on a day to come, and those of these words
        in turn."""
        found, told = list[Trait](), {*ids}
        over = [t for t in self.bank.traits(history=True) if _end_said_in(t)] if ids else []
        while more := [t for t in over if t.source in told and t not in found]:
            found += more
            told |= {_end_said_in(t) for t in more}
        return found

    def corrections(self, ended: Sequence[Trait], at: datetime) -> dict[str, tuple[Utterance, ...]]:
        """What had been said by a time that ended these traits, or will, oldest first and dated, by the ids of what told them."""
        later = self.store.utterances_by_id(self.key, [_end_said_in(t) for t in ended])
        by_source: dict[str, dict[str, Utterance]] = {}
        for trait in ended:
            if (said := later.get(_end_said_in(trait))) is not None and said.at <= at:
                by_source.setdefault(trait.source, {})[said.id] = said
        in_order = [sorted(said.values(), key=lambda one: one.at) for said in by_source.values()]
        return dict(zip(by_source, as_dated(in_order, self.models.language.reading, at), strict=True))

    def shown(self, running: Sequence[Utterance]) -> dict[str, Sequence[Record]] | None:
        """By line of a running session, what was recalled for the reply that follows it; None: as published, it leaves with
        its turn."""
        if self.check is None:
            return None
        agent = self.agent_name
        lines = {reply.id: line.id for line, reply in pairwise(running) if reply.speaker == agent != line.speaker}
        recalled = self.store.recalled_by(self.key, [*lines]) if lines else {}
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
            self.version = None  # an interrupted write may have left the mirrors out of date
            raise

    def refresh(self) -> None:
        """Drop mirrors that another process has made out of date. Do not call this in a transaction.

        Raises:
            StoreError: the conversation was deleted.
        """
        version = self.store.version(self.key)
        if version is None:
            raise StoreError(f"conversation {self.id!r} was deleted; reopen it with Agent.conversation")
        if version == self.version:
            return
        self.store.check_encoder(self.encoder.name, self.encoder.dimension)
        self.bank.drop_mirror()
        if self.store.edits(self.key) != self._edits:
            self.changed_by_hand()
        self.revision += 1
        self.version = version

    def expire(self) -> None:
        """Remove what has expired; use inside the turnstile. Whoever comes in next notices."""
        if self.store.expire(self.key):
            self.version = None
            self.resources.indexes.drop(self.key)

    def changed_by_hand(self) -> None:
        """Drop every mirror after something was edited, pinned or forgotten by hand."""
        self.revision += 1
        self._edits = self.store.edits(self.key)
        self.bank.drop_mirror()
        self.resources.indexes.drop(self.key)
        self.views = self._views()

    def take_notes(self) -> list[str]:
        """Return and clear the notes about pending work since the last reply."""
        notes, self.notes = self.notes, []
        return list(dict.fromkeys(notes))


def _end_said_in(trait: Trait) -> str:
    """The id of the utterance that said that a trait ended, or will; "": none did."""
    return trait.ended_by or trait.planned_by


def never_held(ended: Sequence[Trait]) -> dict[str, str]:
    """Slips, taken back a moment later, by the ids of the utterances that told them."""
    return {trait.source: trait.text for trait in ended if trait.holds_until == before_it_held(trait)}


def before_it_held(trait: Trait) -> datetime:
    """The end of a slip: it never held, also not on the day that it names."""
    return min(trait.at, trait.holds_from or trait.at) - INSTANT


def gone_by(at: datetime, ended: Sequence[Trait]) -> dict[str, str]:
    """What utterances told that no longer holds at a time, by their ids."""
    over: dict[str, str] = {}
    for trait in ended:
        if trait.holds_until is None or trait.holds_until <= at:
            over[trait.source] = f"{over.get(trait.source, '')} {trait.text}".strip()
    return over
