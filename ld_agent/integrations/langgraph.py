"""A `BaseStore` of LangGraph over an agent's store: items that outlive a thread, found by the agent's own recall.

    store = MemoryStore(agent)
    graph = builder.compile(store=store)

A namespace is a conversation id, its parts joined by "/": items under ("ann",) belong to Ann's conversation, with the
channel ``tool``, and are deleted with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)
from langgraph.store.memory import InMemoryStore

from ld_agent.agent import Agent
from ld_agent.errors import InputError
from ld_agent.memory.index.long_term import Search
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import scorer
from ld_agent.storage.rows import ITEMS, Draft, StoredConversation
from ld_agent.types import Record

THREAD = "langgraph"
Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored item: a record whose details hold key, value, creation time, minutes to live and whether it is searchable."""

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
    """Keeps items in an agent's store and ranks searches by ``memory.scorer``.

    Searches cover all strings of an item, or those in the fields named by ``index``. An item with a ``ttl`` is removed that
    many minutes, by the agent's clock, after it was written or last read; as in LangGraph's stores on databases.

    Args:
        agent: the agent whose store and recall are used; it is not closed with the graph.
        ttl: LangGraph's settings for items that are put and read without their own.
    """

    supports_ttl = True

    def __init__(self, agent: Agent, ttl: TTLConfig | None = None) -> None:
        self._agent, self.ttl_config = agent, ttl

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
            self._read([item] if item and op.refresh_ttl else [])
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
        resources, key = self._agent.resources, conversation.key
        value = resources.store.redaction.stored(dict(op.value))
        text = _text(value, None if op.index is False else op.index)
        said = conversation.observe(text, channel="tool")
        query = resources.query(said.text, said.at)
        created = before.created if before else said.at.isoformat()
        kept = {"key": op.key, "value": value, "created": created, "searched": op.index is not False}
        kept |= {} if op.ttl is None else {"ttl": op.ttl}
        expires = None if op.ttl is None else said.at + timedelta(minutes=op.ttl)
        written = (said.text, said.at, said.session, query.vector, query.topics, (said.id,))
        resources.store.shelf(key, ITEMS).observe(said, Draft(*written, details=kept, verbatim=True, expires=expires))

    def _read(self, items: Iterable[_Stored]) -> None:
        """Let items that expire live on from now."""
        resources = self._agent.resources
        for item in items:
            if (ttl := item.record.details.get("ttl")) is not None:
                expires = resources.clock() + timedelta(minutes=ttl)
                resources.store.shelf(item.conversation, ITEMS).prolong(item.record.id, expires)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        wanted = self._items(op.namespace_prefix)
        if op.filter:
            wanted = [one for one in wanted if _fits(one.record.details["value"], op.filter)]
        if not op.query:
            page = wanted[op.offset : op.offset + op.limit]
            self._read(page if op.refresh_ttl else [])
            return [SearchItem(**one.fields) for one in page]
        wanted = [one for one in wanted if one.record.details["searched"]]
        by_id = {(one.conversation, one.record.id): one for one in wanted}
        hits = [
            (by_id[key, each], score)
            for key in dict.fromkeys(one.conversation for one in wanted)
            for each, score in self._ranked(key, op.query)
            if (key, each) in by_id
        ]
        hits = sorted(hits, key=lambda hit: -hit[1])[op.offset : op.offset + op.limit]
        self._read([one for one, _ in hits] if op.refresh_ttl else [])
        return [SearchItem(**one.fields, score=score) for one, score in hits]

    def _ranked(self, key: int, text: str) -> Iterator[tuple[str, float]]:
        """The ids of a conversation's searchable items with scores, best first, without the threshold γ."""
        resources = self._agent.resources
        memory, shelf = resources.config.memory, resources.store.shelf(key, ITEMS)
        passages = scorer(memory.scorer).needs_passages
        reading = resources.models.language.reading
        index = resources.indexes.get(
            key, ITEMS, lambda: RecordIndex(shelf, resources.encoder, reading, passages=passages)
        )
        query = resources.query(text, resources.clock())
        search = Search(text, query.vector, query.at, shelf.count(), -1.0, query.topics, memory.tau, memory.scorer)
        for hit in index.search(search):
            yield hit.record.id, hit.score

    def _items(self, prefix: Namespace) -> list[_Stored]:
        """All items below a prefix, in the order they were written."""
        conversations = self._agent.resources.store.conversations()
        below = [one for one in conversations if _namespace(one.id)[: len(prefix)] == prefix]
        return sorted((item for one in below for item in self._of(one)), key=lambda item: item.record.at)

    def _of(self, conversation: StoredConversation) -> list[_Stored]:
        self._agent.expire(conversation)
        records = self._agent.resources.store.records(conversation.key)
        namespace = _namespace(conversation.id)
        return [_Stored(conversation.key, namespace, record) for record in records if record.view == ITEMS]

    def _find(self, namespace: Namespace, key: str) -> _Stored | None:
        conversation = self._agent.resources.store.find_conversation(_id(namespace))
        items = self._of(conversation) if conversation else []
        return next((item for item in reversed(items) if item.key == key), None)

    def _namespaces(self, op: ListNamespacesOp) -> Result:
        """Those that LangGraph's own store lists."""
        store = InMemoryStore()
        store.batch([PutOp(one.namespace, one.key, {}) for one in self._items(())])
        return store.batch([op])[0]


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
    if fields is None or "$" in fields:
        return " ".join(_strings(value)) or whole
    return " ".join(text for field in fields for text in get_text_at_path(value, field)) or whole


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


def _fits(value: Mapping[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether LangGraph's own store finds a value by a filter; a missing field satisfies no comparison."""
    store = InMemoryStore()
    store.put(("item",), "value", dict(value))
    try:
        return bool(store.search(("item",), filter=wanted))
    except TypeError:
        return False
