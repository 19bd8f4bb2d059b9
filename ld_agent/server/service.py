"""The agents of a server: open conversations, one turn at a time in each, and work between turns.

Knows the agent's public interface but no HTTP. A call that has to wait for a conversation's turn waits without a thread,
so that a slow reply to one person holds up nobody else. Nothing runs in the event loop's threads, which finish turns.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ld_agent.agent import Agent
from ld_agent.backbones.quiet import return_free_memory
from ld_agent.conversation import Conversation
from ld_agent.datasets.exports import Export, Message, format_of, read
from ld_agent.datasets.exports.files import SUFFIXES
from ld_agent.errors import DataFileError, InputError, LDAgentError, StoreError
from ld_agent.passed import Aside
from ld_agent.running.collector import Costs
from ld_agent.running.history import Imported, People, check_same_chat, correct_edited, store_history
from ld_agent.server.errors import ApiError
from ld_agent.server.logs import log
from ld_agent.server.shapes import ObserveRequest
from ld_agent.storage.exchange import export_lines, import_lines
from ld_agent.storage.served import Answers, Directory, Keys
from ld_agent.storage.store import Store
from ld_agent.types import Reply, Utterance, checked_name, name_key

T = TypeVar("T")
OPEN = 256
"""Maximum number of open conversations; others are reopened from the store when needed."""
EXPLAINED = 500
"""Number of latest replies that can be explained. Kept only in memory, so that forgotten text does not survive in
them."""
THREADS = 8
"""For turns, which need one only briefly, and as many for the memory, whose work may ask a model."""
AHEAD = timedelta(hours=1)
"""How far a client's clock may be ahead."""
UNPACKED = 2**27
"""Maximum number of bytes of the text files in an uploaded archive."""


@dataclass(frozen=True, slots=True)
class Known:
    """A person who is known, as seen by one caller.

    Attributes:
        id, key: of the conversation.
    """

    service: Service
    id: str
    key: int

    @property
    def person(self) -> str:
        """The id by which callers name the person."""
        return self.id.rpartition("/")[2]

    @property
    def store(self) -> Store:
        return self.service.agent.store

    def session(self, number: int) -> list[Utterance]:
        return self.store.session_utterances(self.key, number) if 0 < number < 2**62 else []

    def exported(self) -> Iterator[str]:
        """The lines of an export that names no tenant."""
        for line in export_lines(self.store, self.id):
            row = json.loads(line) if line.startswith('{"kind": "conversation"') else None
            yield (json.dumps(row | {"id": self.person}, ensure_ascii=False) if row else line) + "\n"


def _opened_history(folder: Path, name: str, content: bytes) -> tuple[str, Callable[[], Iterator[Message]]]:
    """The format of an uploaded history, which has a message, and what reads it."""
    file = folder / (Path(name).name or "history")
    try:
        file.write_bytes(content)
    except (OSError, ValueError):  # the name is "..", too long or has characters that no file's name can have
        file = folder / f"history{file.suffix if file.suffix.casefold() in SUFFIXES else ''}"
        file.write_bytes(content)
    form = format_of(Export(file, most=UNPACKED))
    if next(read(Export(file, most=UNPACKED), form), None) is None:
        raise InputError(f"{file.name} holds no messages; export the chat again")
    return form, lambda: read(Export(file, most=UNPACKED), form)


def nobody(conversation_id: str) -> ApiError:
    return ApiError(404, f"no person {conversation_id.rpartition('/')[2]!r} is known", "person_not_found")


class Service:
    """Serves agents over one store. A person's memory is shared by all of them.

    Args:
        agents: by the model names used by clients, each created with ``background=True``, so that it learns between
            turns. The first handles everything except replies.
    """

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self.agents = dict(agents)
        self.model, self.agent = next(iter(self.agents.items()))
        self.config = self.agent.config
        self.costs = Costs()
        for agent in self.agents.values():
            agent.resources.asking.costs = self.costs
        self.ready = self.ending = False
        self.count_tokens: Callable[[int, int], None] = lambda prompt, completion: None
        store = self.agent.resources.store
        self.keys, self.answers, self.directory = Keys(store, apart=True), Answers(store), Directory(store)
        self.explained: OrderedDict[tuple[str, str], Reply] = OrderedDict()
        self.exchanges: OrderedDict[tuple[str, str], tuple[Aside, ...]] = OrderedDict()
        self._open: OrderedDict[tuple[str, str, str], Conversation] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(THREADS, "ld-agent-turn")
        self._memory_threads = ThreadPoolExecutor(THREADS, "ld-agent-memory")
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- lifecycle

    async def warm_up(self) -> None:
        """Load the models, then finish work left pending by an earlier run."""
        for agent in self.agents.values():
            await asyncio.to_thread(agent.warm_up)
        self.ready = True
        log.info("ready: the models are loaded")
        for conversation_id in await asyncio.to_thread(self.directory.unfinished):
            await self._tidied(conversation_id, "")

    async def tidy(self) -> None:
        """Periodically end sessions whose pause has exceeded β, so that they are remembered before anyone returns, finish
        work left pending by other servers, and remove what has expired. Conversations in use are skipped.
        """
        while True:
            await asyncio.sleep(self.config.server.tidy)
            before = self.agent.clock() - timedelta(seconds=self.config.memory.beta)
            with suppress(StoreError):  # the next round tries again
                overdue = await asyncio.to_thread(self.directory.overdue, before)
                left = await asyncio.to_thread(lambda: self.directory.unfinished(set_aside=False))
                for conversation_id, thread in [*overdue, *((name, "") for name in left)]:
                    await self._tidied(conversation_id, thread)
                for stored in await asyncio.to_thread(self.agent.store.expired):
                    await asyncio.to_thread(self.agent.expire, stored)
            await asyncio.to_thread(return_free_memory)

    async def _tidied(self, conversation_id: str, thread: str) -> None:
        with suppress(LDAgentError):  # counted where it failed, and still pending
            stored = await asyncio.to_thread(self.agent.store.find_conversation, conversation_id)
            if stored is not None:
                now = self.agent.clock()
                conversation = await asyncio.to_thread(self._opened, conversation_id, thread, self.model)
                await self._remembering(lambda: conversation.resume(now, waits=False))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something that continues if the client leaves; `close` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end_replies(self) -> None:
        """End every reply where it is; what was generated so far is kept."""
        self.ending = True

    async def close(self) -> None:
        """Finish running turns and release everything; pending work is finished at the next start."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        self._threads.shutdown(wait=True)
        self._memory_threads.shutdown(wait=True)
        for agent in self.agents.values():
            agent.close(end_sessions=False)
        self.keys.close()

    # ---- conversations

    async def brief(self, work: Callable[[], T]) -> T:
        """Run a part of a turn that asks no model in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def briefly_inside(self, conversation: Conversation, work: Callable[[], T]) -> T:
        """`brief`, once nobody else is inside a conversation."""
        return await conversation.relation.turnstile.alent(work, self.brief)

    async def inside(self, conversation: Conversation, work: Callable[[], T]) -> T:
        """Run a function, which may ask a model, in a thread once nobody else is inside a conversation."""
        return await conversation.relation.turnstile.alent(work, self._remembering)

    async def _remembering(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._memory_threads, work)

    def lock(self, conversation_id: str) -> asyncio.Lock:
        """The lock held while a request is compared with the store and answered."""
        return self._locks.setdefault(conversation_id, asyncio.Lock())

    async def open(self, conversation_id: str, thread: str, model: str = "") -> Conversation:
        """Open a conversation, new or stored, with the agent of a model or the first; pending work waits for its next turn."""
        opened_as = conversation_id, thread, model or self.model
        conversation = self._open.get(opened_as)
        if conversation is None or not await asyncio.to_thread(self.agent.store.is_stored, conversation.key):
            conversation = await asyncio.to_thread(self._opened, *opened_as)
            self._open[opened_as] = conversation
        self._open.move_to_end(opened_as)
        while len(self._open) > OPEN:
            self._open.popitem(last=False)
        return conversation

    def _opened(self, conversation_id: str, thread: str, model: str) -> Conversation:
        stored = self.agent.store.find_conversation(conversation_id)
        return self.agents[model].conversation(
            conversation_id, thread=thread, agent_name=stored.agent if stored else None, resume=False
        )

    async def known(self, conversation_id: str) -> Known:
        """The person of an existing conversation, or a 404."""
        stored = await asyncio.to_thread(self.agent.store.find_conversation, conversation_id)
        if stored is None:
            raise nobody(conversation_id)
        return Known(self, stored.id, stored.key)

    # ---- changes

    def check_time(self, at: datetime | None, what: str = "") -> None:
        """Refuse a time to come: what is said next in a thread is never before what was said last."""
        if at is not None and at > self.agent.clock() + AHEAD:
            text = f"{what}at={at.isoformat()} is in the future; give when it was said"
            raise ApiError(400, text, "future_time", "at")

    async def observe(self, conversation_id: str, given: ObserveRequest) -> list[Utterance]:
        """Store utterances, then learn from them in the background. An error says how many were stored before it."""
        for number, said in enumerate(given.utterances, 1):
            self.check_time(said.at, f"utterance {number}: ")
        stored: list[Utterance] = []
        threads = list(dict.fromkeys(said.thread for said in given.utterances))
        open_in = {thread: await self.open(conversation_id, thread) for thread in threads}

        def observe() -> None:
            for said in given.utterances:
                conversation = open_in[said.thread]
                is_reply = said.speaker == conversation.agent_name and said.channel == "observe"
                channel = "chat" if is_reply else said.channel
                stored.append(conversation.observe(said.text, said.speaker, said.at, channel=channel))

        try:
            await self.inside(open_in[threads[0]], observe)
        except InputError as exc:
            raise ApiError(400, f"utterance {len(stored) + 1}: {exc}; {len(stored)} were stored", "refused") from exc
        if given.end_session:
            for thread in threads:
                await self.inside(open_in[thread], open_in[thread].end_session)
        else:
            open_in[threads[0]].learn_later()
        return stored

    async def change(self, whose: Known, target: str, change: Callable[[Conversation], None]) -> None:
        """Change a record, trait or utterance, or raise a 404; "" as the target is any."""
        if target and not await asyncio.to_thread(self.directory.has_memory, whose.key, target):
            raise ApiError(404, f"no record, trait or utterance {target[:40]!r}", "memory_not_found")
        conversation = await self.open(whose.id, "")
        await self.inside(conversation, lambda: change(conversation))
        self.unexplain(whose.id)

    async def import_export(self, conversation_id: str, lines: Sequence[bytes], restores: bool = False) -> int:
        """Import an export of one conversation as a person who must not exist yet, atomically; returns its key.

        Args:
            restores: it is this store's own, whose times are right whatever the clock says now.
        """
        store, latest = self.agent.store, None if restores else self.agent.clock() + AHEAD
        await self._check_new(conversation_id)
        try:
            await asyncio.to_thread(import_lines, store, lines, "the file", conversation_id, latest)
        except (DataFileError, StoreError) as exc:
            await self._check_new(conversation_id)  # another import may have been faster
            if isinstance(exc, StoreError):
                raise
            raise ApiError(400, str(exc), "invalid_export") from exc
        return (await self.known(conversation_id)).key

    async def _check_new(self, conversation_id: str) -> None:
        if await asyncio.to_thread(self.agent.store.find_conversation, conversation_id):
            person = conversation_id.rpartition("/")[2]
            raise ApiError(409, f"{person!r} already exists; delete that person first", "person_exists")

    async def import_history(self, conversation_id: str, me: str, name: str, content: bytes) -> None:
        """Store a history that another program exported, whose owner is called ``me``; it is learned in the background.

        Nobody comes to be by a file without a message; an error says how many messages were stored before it.
        """
        imported = Imported()
        with TemporaryDirectory() as folder:
            try:
                stored = await asyncio.to_thread(self.agent.store.find_conversation, conversation_id)
                if name_key(checked_name(me)) == name_key(stored.agent if stored else self.config.agent.name):
                    raise InputError(f"{me!r} is the agent's name; give the name that you have in the file")
                form, messages = await asyncio.to_thread(_opened_history, Path(folder), name, content)
                conversation = await self.open(conversation_id, "")
                people = People(me, conversation.agent_name, form, conversation.speakers)
                await asyncio.to_thread(check_same_chat, self.agent.store, conversation_id, messages(), people)
                to = (self.agent.store, (conversation_id, conversation.agent_name), messages(), people)
                try:
                    await self.inside(conversation, lambda: store_history(*to, self.config.memory.beta, imported))
                    await self.inside(conversation, lambda: correct_edited(conversation, imported))
                finally:
                    conversation.learn_later()
            except InputError as exc:
                kept = f"; {imported.stored} messages before that were stored" if imported.stored else ""
                raise ApiError(400, str(exc).replace(f"{folder}/", "") + kept, "invalid_history") from exc

    async def delete(self, conversation_id: str, copy: list[bytes] | None = None) -> None:
        """Delete a conversation after its current turn; ``copy`` takes the lines of an export of it as it was."""
        async with self.lock(conversation_id):
            whose = await self.known(conversation_id)
            conversation = await self.open(conversation_id, "")

            def delete() -> None:
                if copy is not None:
                    copy.extend(line.encode() for line in whose.exported())
                conversation.delete()

            await self.inside(conversation, delete)
            for key in [key for key in self._open if key[0] == conversation_id]:
                del self._open[key]
            self.unexplain(conversation_id)

    # ---- explanations

    def explain(self, conversation_id: str, reply: Reply) -> None:
        """Keep the explanation of a reply, for the page."""
        if reply.utterance is not None:
            self.explained[conversation_id, reply.utterance.id] = reply
            while len(self.explained) > EXPLAINED:
                self.explained.popitem(last=False)

    def unexplain(self, conversation_id: str) -> None:
        """Drop all explanations of a conversation after something in it was changed, forgotten or deleted."""
        for kept in (self.explained, self.exchanges):
            for key in [key for key in kept if key[0] == conversation_id]:
                del kept[key]

    def keep_exchange(self, conversation_id: str, thread: str, asides: tuple[Aside, ...]) -> None:
        """Keep the calls of tools and their results since a thread's last line, for a client that sends further results alone;
        none: that line is answered.
        """
        self.exchanges.pop((conversation_id, thread), None)
        if asides:
            self.exchanges[conversation_id, thread] = asides
            while len(self.exchanges) > EXPLAINED:
                self.exchanges.popitem(last=False)
