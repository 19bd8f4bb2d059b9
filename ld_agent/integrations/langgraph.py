"""A `BaseStore` of LangGraph over an agent's store: items that outlive a thread, found by the agent's own recall.

    store = MemoryStore(agent)
    graph = builder.compile(store=store)

A namespace is a conversation id, its parts joined by "/": items under ("ann",) belong to Ann's conversation, with the
channel ``tool``, and are deleted with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from ld_agent.agent import Agent
from ld_agent.errors import InputError
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.storage.base import Draft
from ld_agent.types import Record

SHELF = "items"
THREAD = "langgraph"
Namespace = tuple[str, ...]
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": eq,
    "$ne": ne,
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored item: a record whose details hold key, value, creation time and whether it is searchable."""

    conversation: int
    namespace: Namespace
    record: Record

    @property
    def key(self) -> str:
        return str(self.record.details["key"])

    @property
    def created(self) -> str:
        return str(self.record.details["created"])

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "value": self.record.details["value"],
            "key": self.key,
            "namespace": self.namespace,
            "created_at": datetime.fromisoformat(self.created),
            "updated_at": self.record.at,
        }


class MemoryStore(BaseStore):
    """Keeps items in an agent's store and ranks searches by ``memory.scorer``; items do not expire.

    Searches cover all strings of an item, or those in the fields named by ``index``.

    Args:
        agent: the agent whose store and recall are used; it is not closed with the graph.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations in order; each sees the writes of earlier ones.

        Raises:
            InputError: a value that is not JSON.
        """
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _done(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            item = self._find(op.namespace, op.key)
            return Item(**item.fields) if item else None
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise InputError(f"{type(op).__name__} is not an operation of a store")

    def _put(self, op: PutOp) -> None:
        """Write an item; the text of its previous version is removed from the conversation."""
        before = self._find(op.namespace, op.key)
        if op.value is None and before is None:
            return
        conversation = self._agent.conversation(_id(op.namespace), thread=THREAD, resume=False)
        if before is not None:
            conversation.replace(list(before.record.sources), finished=True)
        if op.value is None:
            return
        text = _text(op.value, None if op.index is False else op.index)
        said = conversation.observe(text, channel="tool")
        resources, key = self._agent.resources, conversation.key
        query = resources.query(said.text, said.at)
        created = before.created if before else said.at.isoformat()
        kept = {"key": op.key, "value": dict(op.value), "created": created, "searched": op.index is not False}
        draft = Draft(
            said.text, said.at, said.session, query.vector, query.topics, (said.id,), details=kept, verbatim=True
        )
        resources.store.shelf(key, SHELF).observe(said, draft)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        wanted = [one for one in self._items(op.namespace_prefix) if _fits(one.record.details["value"], op.filter)]
        if not op.query:
            return [SearchItem(**one.fields) for one in wanted[op.offset : op.offset + op.limit]]
        wanted = [one for one in wanted if one.record.details["searched"]]
        by_id = {(one.conversation, one.record.id): one for one in wanted}
        items = [
            SearchItem(**by_id[key, each].fields, score=score)
            for key in dict.fromkeys(one.conversation for one in wanted)
            for each, score in self._ranked(key, op.query)
            if (key, each) in by_id
        ]
        items.sort(key=lambda item: -(item.score or 0.0))
        return items[op.offset : op.offset + op.limit]

    def _ranked(self, key: int, text: str) -> Iterator[tuple[str, float]]:
        """The ids of a conversation's searchable items with scores, best first, without the threshold γ."""
        resources = self._agent.resources
        memory, shelf = resources.config.memory, resources.store.shelf(key, SHELF)
        passages = SCORERS[memory.scorer].needs_passages
        reading = resources.models.language.reading
        index = resources.indexes.get(
            key, SHELF, lambda: RecordIndex(shelf, resources.encoder, reading, passages=passages)
        )
        query = resources.query(text, resources.clock())
        search = Search(text, query.vector, query.at, shelf.count(), -1.0, query.topics, memory.tau, memory.scorer)
        for hit in index.search(search):
            yield hit.record.id, hit.score

    def _items(self, prefix: Namespace) -> list[_Stored]:
        """All items below a prefix, in the order they were written."""
        store, items = self._agent.resources.store, list[_Stored]()
        for stored in store.conversations():
            namespace = _namespace(stored.id)
            if namespace[: len(prefix)] == prefix:
                records = [record for record in store.records(stored.key) if record.view == SHELF]
                items += [_Stored(stored.key, namespace, record) for record in records]
        return sorted(items, key=lambda one: one.record.at)

    def _find(self, namespace: Namespace, key: str) -> _Stored | None:
        stored = self._agent.resources.store.find_conversation(_id(namespace))
        records = self._agent.resources.store.records(stored.key) if stored else []
        items = [_Stored(stored.key, namespace, r) for r in records if r.view == SHELF] if stored else []
        return next((one for one in reversed(items) if one.key == key), None)

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        there = sorted({one.namespace for one in self._items(())})
        fitting = [one for one in there if all(_matches(one, wanted) for wanted in op.match_conditions or ())]
        short = dict.fromkeys(one[: op.max_depth] for one in fitting)
        return list(short)[op.offset : op.offset + op.limit]


def _id(namespace: Namespace) -> str:
    return "/".join(quote(part, safe=" ") for part in namespace)


def _namespace(conversation_id: str) -> Namespace:
    return tuple(unquote(part) for part in conversation_id.split("/"))


def _text(value: Mapping[str, Any], fields: list[str] | None) -> str:
    """What a value says: its strings, or those under some fields ("content", "facts.home"); the whole as JSON without any."""
    try:
        whole = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as exc:
        raise InputError(f"a value must be JSON: {exc}") from exc
    parts: list[Any] = [value] if fields is None or "$" in fields else [_under(value, field) for field in fields]
    return " ".join(_strings(parts)) or whole


def _under(value: Any, field: str) -> Any:
    for name in field.split("."):
        value = value.get(name.removesuffix("[*]")) if isinstance(value, Mapping) else None
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


def _fits(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value matches a filter: fields equal a plain value or satisfy an operator such as ``{"$gte": 3}``."""
    for field, condition in (wanted or {}).items():
        compared = condition if isinstance(condition, Mapping) and all(c in _COMPARISONS for c in condition) else None
        if compared is None:
            if value.get(field) != condition:
                return False
            continue
        try:
            if not all(_COMPARISONS[sign](value.get(field), other) for sign, other in compared.items()):
                return False
        except TypeError:  # a missing field satisfies no comparison
            return False
    return True


def _matches(namespace: Namespace, wanted: MatchCondition) -> bool:
    path = tuple(wanted.path)
    part = namespace[: len(path)] if wanted.match_type == "prefix" else namespace[-len(path) :]
    return len(part) == len(path) and all(p in ("*", n) for n, p in zip(part, path, strict=True))


__all__ = ["MemoryStore"]
