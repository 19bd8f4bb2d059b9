"""What a process does with a store until it is killed, and what must be true of the store afterwards.

The process tells of each act before and after it, with what the store then holds. Knows nothing of how it is killed.
"""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent_parts import START

from ld_agent.agent import Agent
from ld_agent.conversation import Conversation
from ld_agent.errors import InputError
from ld_agent.storage.exchange import copy_conversation, export_lines, import_lines
from ld_agent.storage.store import Store

ACTS = {
    "say": 8, "end": 2, "edit": 2, "forget": 2, "replace": 1, "pin": 1, "undo": 1, "copy": 1, "import": 1, "delete": 1,
}  # fmt: skip
GAPS = (60, 60, 60, 60, 7_200, 86_400)
LETTERS = "bcdfghjklmnpqrstvwxz"
MOST = 4
"""Conversations at the same time."""
Tell = Callable[..., None]


class Words:
    """Words that no other text has, nor one that begins like them: words of one beginning are taken for forms of one word.

    Args:
        first: of up to 20 who need words of their own.
    """

    def __init__(self, first: int, dice: random.Random) -> None:
        others = ["".join(letters) for letters in itertools.product(LETTERS, repeat=3)]
        dice.shuffle(others)
        self._left = (f"{LETTERS[first]}{other}aboda" for other in others)

    def __call__(self) -> str:
        return next(self._left)


def held(store: Store, name: str) -> dict[str, list[list[str]]]:
    """The utterances and traits of a conversation; {}: there is none."""
    found = store.find_conversation(name)
    if found is None:
        return {}
    said = [[u.id, u.text] for u in store.utterances(found.key)]
    return {"said": said, "traits": sorted([t.id, t.text] for t in store.traits(found.key))}


class Acts:
    """Acts on a store, one after the other, until somebody ends the process.

    Args:
        number: of the process, among those that work on the store.
        tell: writes down what is begun and what is done, at once.
    """

    def __init__(self, agent: Agent, dice: random.Random, number: int, tell: Tell) -> None:
        self._agent, self._dice, self._tell, self._word = agent, dice, tell, Words(number, dice)

    def run(self) -> None:
        while True:
            name = self._chosen()
            self._tell("open", name)
            talk = self._agent.conversation(name)  # which finishes what is pending
            self._tell("did", name, held(self._agent.store, name))
            act = self._dice.choices(list(ACTS), list(ACTS.values()))[0]
            with suppress(InputError):  # nothing to undo
                getattr(self, f"_{act}")(name, talk)
            self._tell("did", name, held(self._agent.store, name))

    def _chosen(self) -> str:
        names = [c.id for c in self._agent.store.conversations()]
        if not names or (len(names) < MOST and self._dice.random() < 0.1):
            return self._word()
        return self._dice.choice(names)

    def _say(self, name: str, talk: Conversation) -> None:
        text = f"I keep {self._word()}."
        self._tell("say", name, text)
        last = self._agent.store.last_utterance(talk.key)
        talk.respond(text, "Maya", (last.at if last else START) + timedelta(seconds=self._dice.choice(GAPS)))

    def _end(self, name: str, talk: Conversation) -> None:
        self._tell("end", name)
        talk.end_session()

    def _target(self, name: str) -> tuple[str, str]:
        """(id, text) of a trait or of somebody's line; ("", ""): there is none."""
        now = held(self._agent.store, name)
        lines = [(i, text) for i, text in [*now["traits"], *now["said"]] if text.startswith("I keep ")]
        return self._dice.choice(lines) if lines else ("", "")

    def _edit(self, name: str, talk: Conversation) -> None:
        target, text = self._target(name)
        if target:
            new = f"I keep {self._word()}."
            self._tell("edit", name, text, new)
            talk.edit(target, new)

    def _forget(self, name: str, talk: Conversation) -> None:
        target, text = self._target(name)
        if target:
            self._tell("forget", name, text)
            talk.forget(target)
            self._tell("forgot", name, text)

    def _replace(self, name: str, talk: Conversation) -> None:
        if last := [u.id for u in talk.running[-2:]]:
            self._tell("replace", name, *last)
            talk.replace(last)

    def _pin(self, name: str, talk: Conversation) -> None:
        target, _ = self._target(name)
        if target.startswith("t"):
            self._tell("pin", name)
            talk.pin(target)

    def _undo(self, name: str, talk: Conversation) -> None:
        self._tell("undo", name)
        talk.undo()

    def _copy(self, name: str, talk: Conversation) -> None:
        names = [self._word() for _ in range(2)]
        self._tell("copy", name, *names)
        copy_conversation(self._agent.store, name, names)
        self._tell("copied", name, *names)

    def _import(self, name: str, talk: Conversation) -> None:
        lines, new = list(export_lines(self._agent.store, name)), self._word()
        self._tell("import", name, new)
        import_lines(self._agent.store, [line.encode() for line in lines], "an export", new)
        self._tell("copied", name, new)

    def _delete(self, name: str, talk: Conversation) -> None:
        if len(self._agent.store.conversations()) >= MOST:
            self._tell("delete", name)
            talk.delete()
            self._tell("deleted", name)


@dataclass
class Known:
    """What is known of a store: what was acknowledged by the processes that worked on it.

    Attributes:
        held: by conversation, `held` after its last act.
        forgotten: by conversation, the words that must be nowhere in it.
        deleted: words of deleted conversations.
        gone_now: words that no row had when it was last checked.
    """

    held: dict[str, dict[str, list[list[str]]]] = field(default_factory=dict)
    forgotten: dict[str, set[str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    gone_now: set[bytes] = field(default_factory=set)

    def heard(self, lines: list[list[Any]]) -> list[Any]:
        """Take in what a process told; returns the act that it had begun, if it was in one."""
        begun: list[Any] = []
        for what, name, *more in lines:
            begun = [] if what == "did" else [what, name, *more]
            if what == "did" and more[0]:
                self.held[name] = more[0]
            elif what == "forgot":
                self.forgotten.setdefault(name, set()).add(_word(more[0]))
            elif what == "copied":
                self._copied(name, more)
            elif what == "deleted":
                self.gone(name)
        return begun

    def learned(self, store: Store) -> None:
        """Take in what finished work has changed.

        Raises:
            AssertionError: it changed what was said.
        """
        for name, before in self.held.items():
            now = held(store, name)
            said = now["said"][: len(before["said"])], now["said"][len(before["said"]) :]
            assert said[0] == before["said"], ("finished work changed what was said", name)
            assert len(said[1]) <= 1, ("more than a reply was said", said[1])
            self.held[name] = now
        self._check_absent(store, list(self.held))

    def _copied(self, name: str, copies: list[str]) -> None:
        for copy in copies:
            self.held[copy], self.forgotten[copy] = self.held[name], set(self.forgotten.get(name, ()))

    def gone(self, name: str) -> None:
        self.deleted |= {_word(text) for _, text in self.held.pop(name, {"said": []})["said"]} - {""}
        self.forgotten.pop(name, None)

    def check(self, store: Store, begun: list[Any]) -> None:
        """Compare a store with what is known of it, and take in what the last act has done.

        Raises:
            AssertionError: something is lost, twice, half done or back.
        """
        act, name, *more = begun or ["", ""]
        if act in ("copy", "import") and store.find_conversation(more[0]) is not None:
            self._copied(name, more)  # all of them are compared below
        if act in ("delete", "deleted") and store.find_conversation(name) is None:
            self.gone(name)
        kept = {c.id: c for c in store.conversations()}
        names = list(kept)
        fresh = {name} if act == "open" else set[str]()
        assert set(self.held) - fresh <= set(names) <= set(self.held) | fresh, ("conversations", names, [*self.held])
        for conversation in names:
            now, before = held(store, conversation), self.held.get(conversation, {"said": [], "traits": []})
            said = [u for u in store.utterances(kept[conversation].key) if u.speaker != kept[conversation].agent]
            texts = [u.text for u in said if u.text.startswith("I keep ")]
            assert len(set(texts)) == len(texts), ("twice", texts)
            if conversation == name and now != before:
                self._check_act(act, now, before, more, everything(store, name))
            else:
                assert now == before, ("changed", conversation, before, now)
            self.held[conversation] = now
        self._check_absent(store, names)

    def _check_act(self, act: str, now: Any, before: Any, more: list[Any], rows: str) -> None:
        if act in ("open", "say", "end"):  # pending work is done in any part of a turn
            said, new = now["said"], now["said"][len(before["said"]) :]
            assert said[: len(before["said"])] == before["said"], ("lost", before, now)
            assert [text for _, text in new[:1]] in ([], more[:1]), ("something else was said", new, more)
            assert len(new) <= (2 if act == "say" else 0), ("more was said", new)
            assert all(trait in now["traits"] for trait in before["traits"]), ("lost", before, now)
        elif act == "edit":
            texts = str(now)
            assert _word(more[1]) in texts, ("half edited", more, now)
            assert _word(more[0]) not in texts, ("half edited", more, now)
        elif act in ("forget", "forgot"):
            assert _word(more[0]) not in rows, ("half forgotten", more, now)
        elif act == "replace":
            kept = [said for said in before["said"] if said[0] not in more]
            assert now["said"] == kept, ("half replaced", more, before, now)
        else:
            assert act in ("undo", "pin"), ("changed", act, before, now)

    def _check_absent(self, store: Store, names: list[str]) -> None:
        for name, words in self.forgotten.items():
            rows = everything(store, name) if words else ""
            assert not (back := [word for word in words if word in rows]), ("forgotten, and back", name, back)
        self.gone_now = self._gone(store, names)

    def _gone(self, store: Store, names: list[str]) -> set[bytes]:
        words = self.deleted.union(*self.forgotten.values())
        living = "".join(everything(store, name) for name in names) if words else ""
        return {word.encode() for word in words if word not in living}

    def check_bytes(self, path: Path) -> None:
        """Look for what was deleted or forgotten in the files of a store that is closed.

        Raises:
            AssertionError: some of it is there.
        """
        for file in path.parent.glob(f"{path.name}*"):
            content = file.read_bytes()
            assert not (back := [w for w in self.gone_now if w in content]), ("gone, and in the file", file.name, back)


def _word(text: str) -> str:
    return text.rpartition(" ")[2].rstrip(".") if text.startswith("I keep ") else ""


def everything(store: Store, name: str) -> str:
    """Every row of every table that belongs to a conversation."""
    found = store.find_conversation(name)
    db = store.db.acting_for("*/")
    if store.path.startswith("postgresql:"):
        tables = [row[0] for row in db.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'ld_agent'")]
        owned = "SELECT 1 FROM information_schema.columns WHERE table_name = ? AND column_name = 'conversation'"
    else:
        tables = [row[0] for row in db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        owned = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'conversation'"
    parts = [
        str(db.rows(f"SELECT * FROM {table} WHERE conversation = ?", (found.key,)))
        for table in tables
        if found and db.row(owned, (table,))
    ]
    return "\n".join(parts)


def finished(agent: Agent) -> None:
    """Answer what waits, finish the pending work of every conversation, and check that it was done once.

    Raises:
        AssertionError: something was learned twice, or not at all.
    """
    store = agent.store
    for conversation in store.conversations():
        talk = agent.conversation(conversation.id)
        if talk.running and talk.running[-1].speaker == "Maya":
            talk.reply()
        talk.resume()
        key = conversation.key
        assert store.unextracted(key) == [], ("not learned", store.unextracted(key))
        assert store.shelf(key, "events").undigested() == [], "not digested"
        records = [record.session for record in store.records(key) if record.view == "events"]
        assert len(records) == len(set(records)), ("a session has two records", records)
        traits = [(trait.speaker, trait.text) for trait in store.traits(key)]
        assert len(traits) == len(set(traits)), ("a trait is there twice", traits)
        ids = [int(u.id[1:]) for u in store.utterances(key)]
        assert ids == sorted(set(ids)), ids


def sound(store: Store) -> None:
    if isinstance(getattr(store.db, "_db", None), sqlite3.Connection):
        assert store.db.row("PRAGMA integrity_check") == ("ok",)
        assert store.db.rows("PRAGMA foreign_key_check") == []


def told(lines: str) -> list[list[Any]]:
    """What was written down; a last line that was cut is none."""
    return [json.loads(line) for line in lines.split("\n")[:-1]]
