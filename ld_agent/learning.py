"""What is learned from a conversation: traits of what was said, and what ends them; the views' own work is done beside it.

A line's traits are extracted, judged by the learned check, dated and merged into the persona banks (`_learned`), in order.
What a model fails at, or an interruption leaves, waits in the store. Knows no prompt of a reply, and no SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ld_agent.checks.changes import ABOUT, ALIKE, changed, ended_by, in_which_slips_are_right, over, put_right
from ld_agent.checks.kept import CHANGES, ENDS, may_last, telling, true_traits, without_passed_on
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.slips import CORRECTING, LATELY
from ld_agent.checks.statements import sentences_of, speaks_of_self
from ld_agent.errors import InputError
from ld_agent.languages.reading import Reading
from ld_agent.memory.persona_bank import NOTHING_LATER, less_trusted
from ld_agent.memory.short_term import ShortTermCache
from ld_agent.memory.views.enabled import attempted
from ld_agent.memory.when import dated, held, only_date
from ld_agent.modules.changed_trait import LONGEST_LINE, changed_trait
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.replies import is_stock_phrase
from ld_agent.relation import Relation, before_it_held
from ld_agent.steps import Steps, side_by_side
from ld_agent.storage.rows import TRAITS
from ld_agent.types import Record, Trait, Utterance, utc

BEFORE = 2
"""Lines before an utterance that are read with it."""
MOST_TOLD = 12
"""Traits, told in the lines before one that corrects a slip, among which that is looked for."""
LEARNED_AT_ONCE = 8
"""Imported lines whose traits are extracted at once."""
CONCERNED = 6
"""A speaker's traits that an utterance may end: those nearest to it."""


def pending(relation: Relation, *, answered: bool = False) -> Steps[None]:
    """Do all pending work concurrently: extract traits, digest closed sessions, observe running ones.

    Utterances waiting for a reply are skipped: a prompt contains what was learned before its utterance and no more,
    whether or not the work was interrupted.

    Args:
        answered: no utterance waits for a reply; include everything that was said.
    """
    relation.settle_language()
    store, key = relation.store, relation.key
    last = store.last_of_each(key)
    unanswered = frozenset(() if answered else (u.id for u in last if u.speaker != relation.agent_name))
    waiting = [u for u in store.unextracted(key) if u.id not in unanswered]
    pieces = [_learned(relation, waiting), *relation.views.pending([u.session for u in last], unanswered)]
    failures = yield from side_by_side(pieces)
    relation.notes += [note for notes in failures for note in notes]


def history(relation: Relation) -> Steps[bool]:
    """A small piece of what is to be learned from imported history, in order of time. It can be ended at any step: what it
    has not stored by then is learned another time.

    Returns:
        whether there was something to learn, and nothing failed: go on.
    """
    waiting = relation.store.unextracted(relation.key, imported=True, most=LEARNED_AT_ONCE)
    sessions = relation.views.history()
    if not waiting and not sessions:
        return False
    failures = yield from side_by_side([_learned(relation, waiting), *sessions])
    return not any(failures)


def session_ended(relation: Relation, cache: ShortTermCache, at: datetime | str | None) -> Steps[list[Record]]:
    """End the running session, as steps; return the records made from it.

    Raises:
        InputError: ``at`` is before its last utterance.
    """
    store = relation.store
    if not cache.utterances:
        return []
    last = cache.utterances[-1]
    if at is not None and utc(at) < last.at:
        raise InputError(f"at={at} is before the session's last utterance ({last.at.isoformat()}); give a later time")
    yield from pending(relation, answered=True)
    relation.refresh()
    with store.writing(relation.key):
        cache.reload()
        if cache.utterances and cache.utterances[-1].session == last.session:
            cache.end()
    yield from pending(relation, answered=True)
    return store.records(relation.key, session=last.session)


def _learned(relation: Relation, waiting: list[Utterance]) -> Steps[list[str]]:
    """Extract the traits of utterances and merge them into the persona banks."""
    by_id = {u.id: u for u in waiting}

    def learn(items: Sequence[str]) -> Steps[None]:
        utterances = [by_id[item] for item in items]
        answered = [relation.store.answered(relation.key, u) for u in utterances]
        settings = relation.resources.config.modules.extractor
        extractor = Extractor(relation.models, settings.prompting, settings.grounded)
        told = [_told(relation, u) for u in utterances]
        extracted = yield from extractor.steps(told, answered)
        pairs = zip(utterances, extracted, strict=True)
        extracted = [traits if _may_have_traits(relation, u) else () for u, traits in pairs]
        check = relation.check
        learned = list(zip(utterances, told, extracted, answered, strict=True))
        if check is None:
            _merge(relation, [(u, _dated(relation, u, traits, before)) for u, _, traits, before in learned])
            return
        for u, text, traits, before in learned:  # in turn, because a line may end what the one before told
            yield ()  # each line's judgement takes a while, and somebody may wait by now
            true, ended, over_by = _judged(relation, check, u, text, traits)
            right, wrong = _slip(relation, check, u, text)
            now, outdated = yield from _changed(relation, check, u, text)
            if right and right[0] not in text:
                reading = relation.models.language.reading
                true = [t for t in true if not check.corrections.nothing_else(t, wrong[0][0].text, right[0], reading)]
            true, ended = [*dict.fromkeys([*right, *true, *now])], [*wrong, *ended, *outdated]
            written = _dated(relation, u, true, before)
            by_text = {text: over_by[trait] for trait, text in zip(true, written, strict=True) if trait in over_by}
            _merge(relation, [(u, written)], ended, by_text)

    return (yield from attempted(relation.store, relation.key, TRAITS, list(by_id), learn, "for their traits"))


def _dated(relation: Relation, said: Utterance, traits: Sequence[str], before: str) -> tuple[str, ...]:
    """Traits with dates for relative times, because they are read at other times than that of their utterance."""
    return tuple(dated(trait, said.local_at, relation.models.language.reading, [before, said.text]) for trait in traits)


def _judged(
    relation: Relation, check: StatementCheck, said: Utterance, text: str, traits: Sequence[str]
) -> tuple[Sequence[str], Sequence[tuple[Trait, datetime]], Mapping[str, Trait]]:
    """The traits that an utterance supports, its speaker's traits that it ends and when, and the later traits that end those
    of an imported utterance, by text. Writes nothing, as models take time.

    Args:
        text: what the utterance tells.
    """
    if not text.strip():
        return traits, (), {}
    before = relation.store.lines_before(relation.key, said, BEFORE)
    lines = [*((u.speaker, u.text) for u in before), (said.speaker, text)]
    near = relation.bank.near(said.speaker, text, CONCERNED, ABOUT)
    known = [t for t in near if not t.pinned and t.source != said.id and t.last_at <= said.at]
    if known and not may_last(check, text, ENDS):
        known = []
    alike = {trait.id for trait in relation.bank.near(said.speaker, text, CONCERNED, ALIKE)} if known else ()
    claims = [f"{said.speaker}: {trait.text}" for trait in known]
    ended = [known[n] for n in ended_by(check, lines, claims, [trait.id in alike for trait in known])]
    own, reading = _may_have_traits(relation, said), relation.models.language.reading
    true = true_traits(check, lines, traits, reading, ends=bool(ended)) if own else []
    newer = [
        t for t in near if t.last_at > said.at and t.source != said.id and not less_trusted(t.channel, said.channel)
    ]
    pairs = (
        [(trait, later) for trait in true for later in newer] if relation.resources.config.personas.reconcile else []
    )
    after = [([(said.speaker, later.text)], f"{said.speaker}: {trait}") for trait, later in pairs]
    by_start = sorted((pairs[n] for n in over(check, after)), key=lambda pair: pair[1].holds_from or pair[1].at)
    over_at = [(trait, ends_at(check, trait, said, reading)) for trait in ended]
    return true, over_at, dict(reversed(by_start))


def _merge(
    relation: Relation,
    learned: Sequence[tuple[Utterance, Sequence[str]]],
    ended: Sequence[tuple[Trait, datetime]] = (),
    over_by: Mapping[str, Trait] = NOTHING_LATER,
) -> None:
    """Store the traits of utterances with when they hold, and what the last of them ends; atomic.

    Args:
        over_by: the later traits that end those of the last utterance, by text.
    """
    with relation.store.writing(relation.key):
        # What another process has learned counts too; `refresh` would wait for locks that precede the store's.
        if relation.store.version(relation.key) != relation.version:
            relation.bank.drop_mirror()
        reading = relation.models.language.reading
        for trait, at in ended:
            relation.bank.end(trait.id, at, learned[-1][0].id)
        holds = {(u.id, text): held(text, u.local_at, reading) for u, texts in learned for text in texts}
        relation.bank.merge(learned, holds, over_by)


def _changed(
    relation: Relation, check: StatementCheck, said: Utterance, told: str
) -> Steps[tuple[list[str], list[tuple[Trait, datetime]]]]:
    """What becomes of the trait that an utterance may change, the nearest one or else the one told right before: the trait as
    it is now if there is one, and whether it ends the old one."""
    tuned = relation.resources.config.modules.extractor.adapter is not None  # writes traits and answers nothing else
    asked = not tuned and _may_have_traits(relation, said)
    text = " ".join(part for _, part in telling([(said.speaker, told)], said.speaker)) if asked else ""
    if not text.strip() or len(text) > LONGEST_LINE:
        return [], []
    before = _told_before(relation, said, BEFORE)
    recent = [trait for trait in relation.bank.traits(said.speaker) if trait.source in before]
    known = (*relation.bank.near(said.speaker, text, CONCERNED, ABOUT), *reversed(recent))
    old = next((t for t in known if not t.pinned and t.source != said.id and t.last_at <= said.at), None)
    if old is None or not may_last(check, text, CHANGES):
        return [], []
    new = yield from changed_trait(relation.models, old.text, text)
    keeps, ends = changed(check, text, old.text, new) if new else (False, False)
    return [new] * keeps, [(old, said.at)] * ends


def _slip(
    relation: Relation, check: StatementCheck, said: Utterance, text: str
) -> tuple[list[str], list[tuple[Trait, datetime]]]:
    """What an utterance corrects of what its speaker said a moment ago, as it is right, and the trait that was wrong, which
    ends before it was told: it never held."""
    if check.corrections.log_odds(text) < CORRECTING or not _may_have_traits(relation, said):
        return [], []
    before = _told_before(relation, said, LATELY)
    told = [t for t in relation.bank.traits(said.speaker) if t.source in before and not t.pinned][-MOST_TOLD:]
    reading = relation.models.language.reading
    slip = check.corrections.slip([t.text for t in told], text, relation.encoder.encode, reading)
    if slip is None:
        return [], []
    wrong = told[slip.place]
    right = put_right(check, [(said.speaker, wrong.text), (said.speaker, text)], slip, reading)
    return right, [(wrong, before_it_held(wrong))] if right else []


def _told_before(relation: Relation, said: Utterance, most: int) -> set[str]:
    """The ids of what the speaker said in some lines right before an utterance."""
    return {u.id for u in relation.store.lines_before(relation.key, said, most) if u.speaker == said.speaker}


def _may_have_traits(relation: Relation, said: Utterance) -> bool:
    """Whether an utterance may give its speaker traits: "Your son Jakob is four!" gives the agent no son, unless as published."""
    reading, attributed = relation.models.language.reading, relation.resources.config.personas.attribution
    other = not attributed or said.speaker != relation.agent_name
    return other or any(speaks_of_self(s, reading) for s in sentences_of(said.text))


def _told(relation: Relation, said: Utterance) -> str:
    """What an utterance tells in its speaker's words, as they meant it in the end; "" for a stock phrase."""
    if is_stock_phrase(said, relation.agent_name, relation.models.language):
        return ""
    text, check, reading = without_passed_on(said.text), relation.check, relation.models.language.reading
    if check is None:
        return text
    [(_, meant)] = in_which_slips_are_right(check, [(said.speaker, text)], relation.encoder.encode, reading)
    return meant


def ends_at(check: StatementCheck, trait: Trait, said: Utterance, reading: Reading) -> datetime:
    """When a trait ends that an utterance ends: on the only date of a sentence that ends it ("I'm moving to Bristol on 4 May."),
    if the trait was told before that date and has none itself, or else as it is said."""
    for sentence in () if trait.holds_from or trait.holds_until else sentences_of(said.text):
        period = only_date(sentence, said.local_at, reading)
        told = telling([(said.speaker, sentence)], said.speaker)
        if period is None or trait.last_at > period[0] or not told:
            continue
        if over(check, [(told, f"{said.speaker}: {trait.text}")]):
            return period[0]
    return said.at
