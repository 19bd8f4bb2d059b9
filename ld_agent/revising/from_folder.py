"""Carries out what a human changed in a folder of `ld_agent.storage.folder`: edits, then what was forgotten, then additions.

An added line is stored as said, so that it can be quoted and corrected: one of the profile is a trait at once, one of a session
is learned from like imported history. Asks no model.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ld_agent.relation import Relation
from ld_agent.storage.folder import PROFILE, Changes, Item
from ld_agent.storage.rows import Line
from ld_agent.storage.served import Directory
from ld_agent.types import as_known, checked_text, utc

if TYPE_CHECKING:
    from ld_agent.conversation import Conversation

THREAD = "notes"


def carry_out(conversation: Conversation, changes: Changes) -> None:
    """Carry out changes; what went with an earlier one is skipped."""
    relation = conversation.relation
    store, key = relation.store, relation.key
    directory = Directory(store)
    times = [_time(relation, item) for item in changes.added]  # while what was said then is there
    for target, text in changes.edited.items():
        if target.startswith("u") and (said := store.utterances_by_id(key, [target]).get(target)):
            text = text.removeprefix(f"{said.speaker}:").strip()
        if directory.has_memory(key, target):
            conversation.edit(target, text)
    for target in changes.forgotten:
        if directory.has_memory(key, target):
            conversation.forget(target)
    with relation.turnstile.entered(), relation.up_to_date():
        for item, at in zip(changes.added, times, strict=True):
            _add(relation, item, at)


def _add(relation: Relation, item: Item, at: datetime) -> None:
    """Store a line that a human wrote, once."""
    store, key, config = relation.store, relation.key, relation.resources.config
    people = [*store.speakers(key), relation.agent_name, config.agent.user]
    person = store.first_speaker(key, relation.agent_name) or config.agent.user
    of_profile = item.place.startswith(PROFILE)
    name, colon, words = item.text.partition(": ")
    if of_profile:
        speaker, text = as_known(item.under, people), item.text
    elif colon and as_known(name, people) in people:
        speaker, text = as_known(name, people), words
    else:
        speaker, text = person, item.text
    with store.writing(key):
        line = Line(item.source, THREAD, speaker if speaker in people else person, checked_text(text), at)
        if store.add_history(key, [line], config.memory.beta) and of_profile:
            name = f"u{store.counters(key)['utterances']}"
            relation.bank.merge([(store.utterances_by_id(key, [name])[name], [text])])
        store.close_history(key)


def _time(relation: Relation, item: Item) -> datetime:
    """When the session began that a line stands under, one of the folder, or a day that a human wrote; else now."""
    kind, _, number = item.under.partition(" ")
    if kind == "session" and (said := relation.store.session_utterances(relation.key, int(number))):
        return said[0].local_at
    try:
        return utc(datetime.fromisoformat(item.under).astimezone())
    except ValueError:
        return relation.resources.clock()
