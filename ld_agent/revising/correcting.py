"""Edits and forgets a trait, a record or an utterance, and everything that says the same, so that it does not come back.

A trait is corrected in the lines that say it, a record in the lines that it was made from; then all memories, traits and the
agent's own lines follow. Asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ld_agent.checks.statements import asks
from ld_agent.errors import InputError
from ld_agent.languages.reading import Reading
from ld_agent.memory.corrections import Carried, Correction, content, corrected_lines
from ld_agent.memory.views.stored import dialogue
from ld_agent.memory.when import held
from ld_agent.relation import Relation
from ld_agent.storage.rows import Rewriting
from ld_agent.text import SENTENCE_END
from ld_agent.types import Change, Record, Trait, Utterance

OWN_LINES = 3
"""Number of lines that stand in for a memory of which nothing is left."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a change by hand means."""

    corrections: Sequence[Correction] = ()
    lines: Mapping[str, str] = field(default_factory=dict)  # new texts of utterances, by id
    gone: Sequence[Trait] = ()  # that nobody says any more
    fewer: Sequence[Trait] = ()  # that are said once less


def correct(relation: Relation, target: str, text: str, at: datetime, *, forgotten: bool = False) -> None:
    """Give a trait, a record or an utterance another text; "": it is forgotten.

    Args:
        forgotten: what an utterance no longer says is forgotten, not corrected.

    Raises:
        InputError: there is no such record, trait or utterance.
    """
    store, key, reading = relation.store, relation.key, relation.models.language.reading
    text, forgotten = store.redaction.stored(text), forgotten or not text
    with store.writing(key):
        said = store.utterances(key)
        if target.startswith("u"):
            plan = _utterance(relation, said, target, text, forgotten)
        else:
            plan = (_trait if target.startswith("t") else _record)(relation, said, target, text)
            _change(relation, target, text, at)
        carried = Carried.over(plan.corrections, plan.lines, said, relation.agent_name, reading)
        _carry(relation, carried, plan, target, text, at, forgotten=forgotten)
    relation.changed_by_hand()


def follow(relation: Relation, target: str, text: str, edited: datetime, at: datetime) -> None:
    """Correct an imported line that was edited where it comes from: no change by hand, and one made by hand stays."""
    store, key = relation.store, relation.key
    with store.writing(key):
        if not any(change.target == target for change in store.changes(key)):
            correct(relation, target, text, at)
            store.note_edited(key, at, edited)


def undoable(changes: Sequence[Change]) -> list[Change]:
    """The edits and pins among the latest changes by hand, newest first: what `undo` takes back."""
    latest = [change for change in reversed(changes) if change.at == changes[-1].at]
    return [one for one in latest if (one.action == "edit" and one.before) or one.action in ("pin", "unpin")]


def undo(relation: Relation, at: datetime) -> None:
    """Take back the latest change by hand: give back the texts before an edit, or the pin before it was set or removed.

    Raises:
        InputError: nothing was changed, or the latest change was to forget, which left nothing to give back.
    """
    resources, store, key = relation.resources, relation.store, relation.key
    with store.writing(key):
        changes = store.changes(key)
        taken_back = undoable(changes)
        before = {change.target: change.before for change in taken_back if change.action == "edit"}
        pins = {change.target: change.action == "unpin" for change in taken_back if change.action != "edit"}
        if not taken_back:
            reason = "what was forgotten is gone; tell it again" if changes else "nothing was edited or pinned"
            raise InputError(f"there is nothing to undo: {reason}")
        lines = {target: text for target, text in before.items() if target.startswith("u")}
        records = [replace(r, text=before[r.id]) for r in store.records(key) if r.id in before]
        topics = resources.topics.extract([r.text for r in records])
        records = [replace(record, topics=found) for record, found in zip(records, topics, strict=True)]
        vectors = resources.encoder.encode([r.text for r in records]) if records else ()
        forgot = any(change.action == "forget" for change in changes if change.at == changes[-1].at)
        relearned = list(lines) if forgot else []  # traits that went with it
        since = [trait for trait in _learned_since(relation, lines) if trait not in before]
        store.rewrite(key, Rewriting(lines, list(zip(records, vectors, strict=True)), False, relearned), at)
        for trait_id in since:
            _change(relation, trait_id, "", at)
        for trait in store.traits(key):
            if trait.id in before:
                _change(relation, trait.id, before[trait.id], at)
        for target, pinned in pins.items():
            store.pin(key, target, pinned, at)
    relation.changed_by_hand()


def _learned_since(relation: Relation, lines: Mapping[str, str]) -> list[str]:
    """The traits learned from lines as they stand that are not in their earlier texts."""
    store, reading = relation.store, relation.models.language.reading
    now = store.utterances_by_id(relation.key, list(lines))
    learned = store.personas(relation.key).learned_from(list(lines))
    return [
        t.id
        for t in learned
        if t.mentions <= 1 and t.source in now and _nearer(t.text, [now[t.source].text], lines[t.source], reading)
    ]


def _change(relation: Relation, target: str, text: str, at: datetime) -> None:
    store, key = relation.store, relation.key
    if not text:
        store.forget(key, target, at)
        return
    trait = next((trait for trait in store.traits(key) if trait.id == target), None)
    store.edit(key, target, text, relation.resources.encoder.encode([text])[0], at)
    if trait and trait.source:
        store.personas(key).update(_with_period_of(relation, trait, text))


def _with_period_of(relation: Relation, trait: Trait, text: str) -> Trait:
    """A trait with when it holds as its new text says, and no longer as its text before said; what a line ended stays ended."""
    said = relation.store.utterances_by_id(relation.key, [trait.source]).get(trait.source)
    at, reading = said.local_at if said else trait.at, relation.models.language.reading
    (began, over), (begins, ends) = (held(one, at, reading) for one in (trait.text, text))
    since, until = trait.holds_from, trait.holds_until if trait.active else trait.otherwise_until
    since, until = begins or (None if since == began else since), ends or (None if until == over else until)
    trait = replace(trait, holds_from=since, planned_by="" if ends else trait.planned_by)
    return replace(trait, holds_until=until) if trait.active else replace(trait, otherwise_until=until)


def _trait(relation: Relation, said: Sequence[Utterance], target: str, text: str) -> _Plan:
    store, key = relation.store, relation.key
    trait = next((trait for trait in store.traits(key) if trait.id == target), None)
    if trait is None:
        return _Plan()  # which `Store.edit` refuses
    sources = frozenset([trait.source] if trait.source else ())
    kept = tuple(t.text for t in store.personas(key).learned_from(list(sources)) if t.active and t.id != target)
    correction = Correction(trait.text, relation.models.language.reading, text, trait.speaker, sources, kept)
    names = list(dict.fromkeys(u.speaker for u in said))
    return _Plan([correction], corrected_lines(correction, said, relation.agent_name, names))


def _record(relation: Relation, said: Sequence[Utterance], target: str, text: str) -> _Plan:
    """A record is corrected only in the lines that it was made from."""
    record = next((record for record in relation.store.records(relation.key) if record.id == target), None)
    if record is None:
        return _Plan()
    made_from = [u for u in said if u.id in set(record.sources)]
    names = list(dict.fromkeys(u.speaker for u in said))
    corrections = _differences(record.text, text, relation.models.language.reading)
    corrections = [c for c in corrections if c.new or not text]  # a shorter memory forgets nothing
    lines: dict[str, str] = {}
    for correction in corrections:
        current = [replace(u, text=lines.get(u.id, u.text)) for u in made_from if lines.get(u.id) != ""]
        lines |= corrected_lines(replace(correction, reworded=True), current, relation.agent_name, names)
    return _Plan(corrections, lines)


def _utterance(relation: Relation, said: Sequence[Utterance], target: str, text: str, forgotten: bool) -> _Plan:
    """An utterance takes with it only what no other line says."""
    utterance = next((u for u in said if u.id == target), None)
    if utterance is None:
        raise InputError(f"{target!r} is not an utterance of this conversation")
    names, reading = list(dict.fromkeys(u.speaker for u in said)), relation.models.language.reading
    agent, others = relation.agent_name, [u for u in said if u.id != target and u.speaker != relation.agent_name]

    def said_elsewhere(statement: str) -> bool:
        statement_there = Correction(statement, reading, speaker=utterance.speaker)
        return bool(corrected_lines(statement_there, others, agent, names))

    differences = [replace(c, speaker=utterance.speaker) for c in _differences(utterance.text, text, reading)]
    corrections = [c for c in differences if not said_elsewhere(c.old)]
    learned = relation.store.personas(relation.key).learned_from([target]) if forgotten else []
    learned = [t for t in learned if _nearer(t.text, [c.old for c in differences], text, reading)]
    gone = [t for t in learned if t.mentions <= 1 and not said_elsewhere(t.text)]
    fewer = [replace(t, mentions=max(t.mentions - 1, 1)) for t in learned if t not in gone]
    return _Plan(corrections, {target: text}, gone, fewer)


def _differences(before: str, after: str, reading: Reading) -> list[Correction]:
    """The sentences of a text that are not in another, with what stands in their place."""
    old, new = (list(filter(None, map(str.strip, SENTENCE_END.split(text)))) for text in (before, after))
    gone, come = [s for s in old if s not in new], [s for s in new if s not in old]

    def shared(one: str, other: str) -> int:
        return len(content(one, reading) & content(other, reading))

    alike = [max(come, key=lambda new: shared(new, old), default="") for old in gone]
    pairs = zip(gone, come if len(gone) == len(come) else alike, strict=True)
    return [
        Correction(old, reading, new if 2 * shared(new, old) >= len(content(new, reading)) else "")
        for old, new in pairs
    ]


def _nearer(trait: str, gone: Sequence[str], kept: str, reading: Reading) -> bool:
    """Whether a trait has more words of the sentences that are gone than of those that are kept."""
    words = content(trait, reading)
    return not kept or len(words & content(" ".join(gone), reading)) > len(words & content(kept, reading))


def in_own_words(relation: Relation, record: Record, after: Mapping[str, str]) -> Record:
    """A memory of which nothing is left but its sources, as what people said in them.

    Args:
        after: new texts of utterances, by id.
    """
    if record.text or not record.sources:
        return record
    lines = relation.store.utterances_by_id(relation.key, record.sources)
    said = [replace(u, text=after.get(u.id, u.text)) for u in map(lines.get, record.sources) if u is not None]
    said = [u for u in said if u.speaker != relation.agent_name and not asks(u.text)][:OWN_LINES]
    return replace(record, text=dialogue(said), fallback=True)


def _carried_to(trait: Trait, carried: Carried) -> str:
    """A trait, corrected; it stays where only something was added to what it says."""
    return carried.text(trait.text, trait.last_at, lambda correction: trait.text if correction.adds else "")


def _carry(
    relation: Relation, carried: Carried, plan: _Plan, target: str, text: str, at: datetime, *, forgotten: bool
) -> None:
    """Store the corrected lines, records and traits."""
    resources, store, key = relation.resources, relation.store, relation.key
    [topics] = resources.topics.extract([text]) if text else [()]
    records = [(record, carried.record(record, topics)) for record in store.records(key)]
    records = [(old, replace(new, text=text) if new.id == target else new) for old, new in records]
    changed = [in_own_words(relation, new, carried.after) for old, new in records if new != old]
    vectors = resources.encoder.encode([new.text for new in changed]) if changed else ()
    relearned = [] if target.startswith("t") or forgotten else [i for i, line in plan.lines.items() if line]
    rewriting = Rewriting(carried.after, list(zip(changed, vectors, strict=True)), forgotten, relearned)
    store.rewrite(key, rewriting, at)
    gone = {trait.id for trait in plan.gone}
    for trait in plan.fewer:
        store.personas(key).update(trait)
    for trait in store.traits(key):
        new = "" if trait.id in gone else _carried_to(trait, carried)
        if trait.id != target and new != trait.text:
            _change(relation, trait.id, new, at)
