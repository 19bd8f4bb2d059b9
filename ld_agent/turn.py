"""One turn, LD-Agent's section 2 read top-down: finish what is pending, recall, choose traits, prompt, reply, keep.

What was said is in the store before a turn begins. Learning from the turn is pending work of the next one, so that
nobody waits for it. Knows no SQL, no model and no thread.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ld_agent.answering import NO_COMPLETION, Answering
from ld_agent.backbones.base import Completion, Message
from ld_agent.checks.statements import ForgetRequest, asks_for_facts, forget_request, occurs
from ld_agent.errors import InputError, ReplyStopped
from ld_agent.learning import pending
from ld_agent.memory.quotes import Told, compare, earlier, going_on, in_time_order, passages, quotes, sources_of
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.enabled import Remembered
from ld_agent.memory.when import as_dated
from ld_agent.modules.generator import Generator
from ld_agent.modules.reader import Reader
from ld_agent.modules.replies import ReplyStream, continued, decision, repeatable, reply_text, statements
from ld_agent.modules.situation import Prompted, Situation
from ld_agent.relation import INSTANT, Relation, gone_by, never_held
from ld_agent.revising.forgetting import FORGOTTEN, Forgetting, quoted
from ld_agent.steps import Steps, metered
from ld_agent.text import LONGEST_READ
from ld_agent.types import SAID, Reply, ReplyOptions, Tokens, Utterance, checked_text, iso, utc

INTERRUPTED = "the reply was interrupted"
STOCK_PHRASE = "a stock phrase is used instead"
NO_REPLY = f"the model gave an empty reply; {STOCK_PHRASE}"
UNKNOWN_SCRIPT = "the encoder does not know this script: little is recalled; set language=auto or another encoder.model"
NOT_STATED = "not stated"
READS, EVIDENCE = 4, 12
"""Passages that decide a question where there is no reader, and that may support what a model answers."""
STEADY = 40
"""Number of lines of a session for which a model that follows instructions keeps the same traits, and what was recalled."""
LATEST = 200
"""Number of utterances, about half of them the agent's, whose sentences it does not repeat."""


def checked_reply_time(heard_at: datetime | None, reply_at: datetime | str | None) -> datetime | None:
    """Return when a reply is said: at the given time, or else at that of the utterance; None: now.

    Raises:
        InputError: a reply before its utterance.
    """
    if reply_at is None:
        return heard_at
    at = utc(reply_at, "reply_at")
    if heard_at is not None and at < heard_at:
        raise InputError(f"reply_at={iso(at)} is before the utterance ({iso(heard_at)}); give a later time")
    return at


@dataclass(slots=True)
class Turn:
    """The agent's turn to answer one utterance.

    Attributes:
        heard: u', the utterance to answer; the last one of its session.
        on_text: called with each piece of the reply as it is generated.
        interruptible: a KeyboardInterrupt, such as Ctrl-C, ends the reply as `ReplyStopped` does.
        decision: whether the answer called the utterance worth remembering; "": it was not asked.
        options: overrides of the config for this reply.
        since: `time.perf_counter` when the caller was let in, and then at the end of each step.
        timings_ms: milliseconds by step, since the caller was let in.
    """

    relation: Relation
    cache: ShortTermCache
    heard: Utterance
    on_text: Callable[[str], None] | None = None
    interruptible: bool = False
    options: ReplyOptions = field(default_factory=ReplyOptions)
    since: float = field(default_factory=time.perf_counter)
    remembered: Remembered = field(default_factory=Remembered)
    traits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    quotes: tuple[Utterance, ...] = ()
    notes: list[str] = field(default_factory=list)
    decision: str = ""
    timings_ms: dict[str, float] = field(default_factory=dict)
    _everyone: tuple[str, ...] = field(init=False)
    _spoken: Sequence[str] = ()
    _answering: Answering = field(init=False)
    _prompted: Prompted = field(default_factory=lambda: Prompted(()))
    _seen: list[Completion] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _completion: Completion = NO_COMPLETION
    _said_before: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self._everyone = tuple(dict.fromkeys([self.relation.agent_name, *[u.speaker for u in self.cache.utterances]]))

    def reply(self, at: datetime | None, recorded: str | None = None) -> Steps[Reply]:
        """Answer, as steps.

        Args:
            at: when the reply is said; None: now.
            recorded: stored in memory in place of the generated reply (teacher forcing).
        """
        self._lap("store")
        if (request := self._request()) is not None:
            return (yield from self._forgetting(request, at, recorded))
        answer, interrupted = yield from self._answer()
        said = self._said(answer, interrupted)
        self._lap("generate")
        text = self.options.passed.begun + said if recorded is None else recorded
        kept = self._keep(text, at, interrupted) if text.strip() and not self._completion.calls else None
        self._lap("store")
        return self._reply(said, kept)

    def _answer(self) -> Steps[tuple[str, bool]]:
        """The model's answer, and whether it was interrupted; then, the part generated so far."""
        try:
            situation = yield from self.situation()
            answer = yield from self._generated(situation, self.prompted(situation))
        except (ReplyStopped, KeyboardInterrupt) as exc:
            if isinstance(exc, KeyboardInterrupt) and not self.interruptible:
                raise
            return "".join(self._pieces), True
        return answer, False

    def situation(self, *, answered_here: bool = True) -> Steps[Situation]:
        """Finish pending work and gather everything the reply is made from, equation (5).

        Args:
            answered_here: the agent's model answers, whose answer may be checked.
        """
        relation, config = self.relation, self.relation.resources.config
        yield from pending(relation)
        self.notes += relation.take_notes()
        self._lap("pending")
        query = self._query()
        self._lap("encode")
        asks = yield from self._recall(query)
        self._lap("recall")
        self.traits = self._known(query, asks)
        situation = self._situation()
        situation = replace(situation, asked=answered_here and asks and self._answering.checks(situation))
        follows = relation.check is not None and config.modules.generator.prompting == "direct"
        if situation.asked or (config.memory.quotes and (asks or not follows)):
            situation = self._with_evidence(situation, self._told(situation.context if situation.asked else ()))
        return situation

    def _query(self) -> Query:
        """The memory query: the last utterances of the running session."""
        relation, settings = self.relation, self.relation.resources.config.memory
        text = "\n".join([u.text for u in self.cache.utterances[-settings.query_turns :]])
        if relation.first_unknown_script(self.heard.text):
            self.notes.append(UNKNOWN_SCRIPT)
        if settings.quotes:
            relation.encoder.encode([text, self.heard.text])  # in one batch; quotes are for what was heard alone
        return relation.resources.query(text, self.heard.local_at, self.heard.text)

    def _recall(self, query: Query) -> Steps[bool]:
        """Let every view recall, for small talk only what is near to it, as far as scorers tell; pinned memories are always
        included. Return whether the utterance asks for what was told before.
        """
        relation = self.relation
        self._answering = self._made_to_answer()
        self._spoken = relation.people
        asks = self._answering.asks(self.heard.text, self._spoken, relation.models.language.reading)
        least = relation.resources.config.memory.gamma_talk if relation.check and not asks else None
        remembered = yield from metered(relation.views.recall(query), self._seen)
        near = [r for r in remembered.recalled if least is None or r.terms.get("s_near", least) >= least]
        self.remembered = replace(remembered, recalled=relation.views.with_pinned(near, query.at))
        self.notes += remembered.notes
        return asks

    def _known(self, query: Query, asks: bool) -> dict[str, tuple[str, ...]]:
        """The traits of those here, or asked about; in front of a session they stay for `STEADY` lines, for prompt caches."""
        relation, vector, since = self.relation, query.vector, self.heard.at
        if relation.resources.config.modules.generator.prompting == "direct" and not asks:
            running = self.cache.utterances
            opening = running[(len(running) - 1) // STEADY * STEADY]
            if opening.id != self.heard.id:
                vector = relation.encoder.encode([opening.text])[0]
                since = opening.at - INSTANT if relation.check else opening.at
        people = (*self._everyone, *(one for one in (self._spoken if asks else ()) if occurs(one, self.heard.text)))
        return dict(relation.bank.select(people, vector, self.heard.at, relation.agent_name, since))

    def _situation(self) -> Situation:
        """What is recalled and known, without what was said in earlier sessions."""
        relation, recalled = self.relation, self.remembered.recalled
        running = tuple([u for u in self.cache.utterances if u.id != self.heard.id])
        guidance = relation.views.guidance(recalled, decides=self._decides)
        talk = (relation.agent_name, self.heard, running, recalled, self.traits, self._everyone[1:])
        return Situation(
            *(*talk, guidance.steps, guidance.examples),
            labelled=len(relation.views.views) > 1,
            decides=self._decides,
            instructions=self.options.instructions,
            language=relation.models.language,
            doubted=relation.bank.channels(self.traits),
            aged=relation.bank.aged(self.traits, self.heard.at),
            passed=self.options.passed,
            shown=relation.shown(running[len(running) // STEADY * STEADY :]),
        )

    def _told(self, running: Sequence[Utterance]) -> Told:
        """What was said in the recalled sessions and in the running one, compared with the utterance to answer."""
        relation, resources = self.relation, self.relation.resources
        recalled, encode, reading = self.remembered.recalled, relation.encoder.encode, relation.models.language.reading
        ids = sources_of(recalled, {u.id for u in running})
        said = in_time_order(ids, resources.store.utterances_by_id(relation.key, ids)) if ids else []
        stored = relation.views.said_vectors(recalled) if said else {}
        told = compare(self.heard, relation.agent_name, [*said, *running], encode, reading, stored, self._spoken)
        former = reading.patterns["asks_former"].search(self.heard.text[-LONGEST_READ:])
        return earlier(told, relation.check, encode) if relation.check and told.said and former else told

    def _with_evidence(self, situation: Situation, told: Told) -> Situation:
        """The situation with quotes and, for a checked answer, passages to read: of what was said; an answer hides its source."""
        relation, reading, at = self.relation, self.relation.models.language.reading, self.heard.at
        config = relation.resources.config
        asked, most = situation.asked, max(config.modules.reader.passages, EVIDENCE)
        read = passages(told.without([u.id for u in told.said if u.channel not in SAID]), most) if asked else ()
        self.quotes = self._quotes(told.without([u.id for u in situation.context if asked]), config.memory.quotes)
        now = not reading.patterns["asks_past"].search(self.heard.text[-LONGEST_READ:])
        [quotes], read_from = as_dated([self.quotes], reading, at), as_dated(read, reading, at, in_place=now)
        if ended := relation.ended({u.id for lines in (quotes, *read_from) for u in lines}):
            later = relation.corrections(ended, at)
            situation = replace(situation, ended=gone_by(at, ended), slips=never_held(ended), corrections=later)
            read_from = [going_on(lines, later) for lines in read_from]
        aged = relation.bank.aged(self.traits, at, in_place=True) if asked and now else situation.aged
        return replace(situation, quotes=quotes, passages=(*read_from,), about=told.about, aged=aged)

    def _quotes(self, told: Told, room: int) -> tuple[Utterance, ...]:
        """Utterances relevant to the one to answer, within ``room`` tokens."""
        if not told.said or not room:
            return ()
        backbone = self.relation.models.backbone("generator")
        frame = backbone.count_tokens([Message("user", "")])

        def length(text: str) -> int:  # no tokenizer compresses more: do not count what cannot fit
            return len(text) if len(text) > 16 * room else backbone.count_tokens([Message("user", text)]) - frame

        return quotes(told, length, room)

    def _made_to_answer(self) -> Answering:
        relation, modules = self.relation, self.relation.resources.config.modules
        return Answering(
            Generator(relation.models, modules.generator.prompting),
            relation.encoder.encode,
            modules.generator.grounded,
            Reader(relation.models) if modules.reader.passages else None,
            modules.reader.passages or READS,
            relation.check,
            self._seen,
        )

    def prompted(self, situation: Situation, prompting: str | None = None) -> Prompted:
        """The prompt of the reply; ``prompting``: see `Generator`, None: as configured."""
        generator = Generator(self.relation.models, prompting) if prompting else self._answering.generator
        self._prompted = generator.prompt_for(situation)
        self.notes += self._prompted.notes
        self._lap("prompt")
        return self._prompted

    def _generated(self, situation: Situation, prompted: Prompted) -> Steps[str]:
        """The model's answer; its decision whether the utterance is worth remembering, if any, is noted."""
        self._said_before = before = None if situation.asked else self._not_to_be_repeated()
        answer = yield from self._answering.steps(situation, prompted, self._seeded(), self._listener, before)
        self.notes += (*answer.notes, *answer.completion.notes)
        self._completion = answer.completion
        if self._decides:
            verdict = decision(answer.completion.text)
            self.decision = NOT_STATED if verdict is None else "yes" if verdict else "no"
            if verdict is not None:
                self.relation.views.note_verdict(self.heard, verdict)
        return answer.text

    @property
    def _decides(self) -> bool:
        """Whether the answer also decides if the utterance is worth remembering; one in a client's form has no place for it."""
        return self.relation.views.decides and not self.options.passed.formatted

    def _seeded(self) -> ReplyOptions:
        """The options with a seed: by default each utterance's own, so that a conversation played again has the same replies."""
        seed = zlib.crc32(f"{self.relation.id}/{self.heard.id}".encode())
        return replace(self.options, seed=seed) if self.options.seed is None else self.options

    def _not_to_be_repeated(self) -> frozenset[str] | None:
        """What the agent has said lately and what it has just been told; a small model repeats both.

        None: the reply may state facts that were asked for, again.
        """
        resources, agent = self.relation.resources, self.relation.agent_name
        free = resources.config.modules.generator.repeats or self.options.passed.formatted
        if free or asks_for_facts(self.heard.text[-LONGEST_READ:], self.relation.models.language.reading):
            return None
        lately = resources.store.latest_utterances(self.relation.key, LATEST)
        said = [u.text for u in (*lately, *self.cache.utterances) if u.speaker == agent]
        return repeatable([*said, statements(self.heard.text[:LONGEST_READ])])

    def _listener(self) -> Callable[[str], None] | None:
        """Hear the pieces of one answer: keep them in case of an interruption, and show those that belong to the reply."""
        if self.on_text is None and not self.interruptible:
            return None
        shown = self._shown()
        self._pieces.clear()

        def hear(piece: str) -> None:
            self._pieces.append(piece)
            if shown is not None:
                shown(piece)

        return hear

    def _shown(self) -> ReplyStream | None:
        if self.on_text is None:
            return None
        relation = self.relation
        return ReplyStream(
            relation.agent_name,
            self._everyone[1:],
            self.on_text,
            decides=self._decides,
            said=self._said_before,
            language=relation.models.language,
            passed=self.options.passed,
        )

    def _said(self, answer: str, interrupted: bool) -> str:
        """The reply in an answer; "" only if it was interrupted before the first word."""
        passed, people, said = self.options.passed, self._everyone[1:], answer
        if not passed.formatted:
            said = reply_text(answer, self.relation.agent_name, people, decides=self._decides, said=self._said_before)
        if interrupted:
            self.notes.append(INTERRUPTED)
        elif not said.strip() and not self._completion.calls and not passed.begun:
            said, why = self.relation.models.language.words.speechless, self._completion.why_none("generator")
            self.notes.append(f"{why}; {STOCK_PHRASE}" if why else NO_REPLY)
        return continued(passed, said)

    def _keep(self, text: str, at: datetime | None, interrupted: bool) -> Utterance:
        """Store the reply, after everything that was said while it was generated."""
        store, key = self.relation.store, self.relation.key
        with store.writing(key):
            agent, text = self.relation.agent_name, checked_text(text)
            kept = self.cache.append(agent, text, at, interrupted=interrupted, follows=True)
            store.note_recalled(key, kept.id, [recalled.record.id for recalled in self.remembered.recalled])
            return kept

    def _reply(self, said: str, kept: Utterance | None) -> Reply:
        tokens = Tokens(sum(c.prompt_tokens for c in self._seen), sum(c.completion_tokens for c in self._seen))
        about = (self.remembered.recalled, self.traits, tuple(self.notes), self.timings_ms, tokens)
        prompt = tuple({"role": m.role, "content": m.content} for m in self._prompted.messages)
        explanations, last = self._explanations(), self._completion
        return Reply(said, kept, self.heard, *about, explanations, self.quotes, last.finish, prompt, last.calls)

    def _explanations(self) -> dict[str, dict[str, Any]]:
        """How the recall of each view came about, and what the answer decided for it."""
        explanations = {view: dict(explanation) for view, explanation in self.remembered.explanations.items()}
        for view in self.relation.views.views if self.decision else ():
            if view.decides:
                explanations.setdefault(view.name, {})["decision"] = self.decision
        return explanations

    def _lap(self, step: str) -> None:
        """Add the time since the last lap to that of a step."""
        now = time.perf_counter()
        self.timings_ms[step] = round(self.timings_ms.get(step, 0.0) + 1000 * (now - self.since), 3)
        self.since = now

    def _request(self) -> ForgetRequest | None:
        """What the person asks to forget, in the chat itself; documents ask in vain."""
        forgets = self.relation.resources.config.memory.forgets and self.heard.channel == "chat"
        return forget_request(self.heard.text, self.relation.models.language.reading) if forgets else None

    def _forgetting(self, request: ForgetRequest, at: datetime | None, recorded: str | None) -> Steps[Reply]:
        """Forget what is meant and say so; only that something was forgotten is stored."""
        yield from pending(self.relation)
        self._lap("pending")
        forgetting = Forgetting(self.relation, self.heard, self.cache.thread, self.relation.resources.clock())
        gone = forgetting.carried_out(request)
        self.cache.reload()
        words, found = self.relation.models.language.words, gone or gone is None
        shortened = replace(self.heard, text=words.forget)
        self.heard = next((u for u in self.cache.utterances if u.id == self.heard.id), shortened)
        said = words.forgotten.format(told=quoted(gone)) if gone else words.forgot if found else words.not_found
        kept = self._keep(recorded or (words.forgot if found else said), at, interrupted=False)
        if found:
            forgetting.forget_reply(kept)
            self.notes.append(FORGOTTEN)
        self._show(said)
        return self._reply(said, kept)

    def _show(self, said: str) -> None:
        with suppress(ReplyStopped):
            if self.on_text is not None:
                self.on_text(said)
