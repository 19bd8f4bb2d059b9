"""An OpenAI client that remembers: what is known of a person goes into the prompt of each chat, and the turn is stored.

    client = ld_agent.remembering(OpenAI(), person="ann")

Knows the client's ``chat.completions`` with ``create``, ``parse`` and ``stream``; nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Self, TypeVar

from openai import AsyncOpenAI, AsyncStream, BaseModel, OpenAI, Stream
from openai.types.chat import ChatCompletion

from ld_agent.agent import Agent
from ld_agent.backbones.client_message import ClientMessage
from ld_agent.config import load_config
from ld_agent.conversation import Conversation
from ld_agent.errors import LDAgentError
from ld_agent.integrations.remembered import last_line, lines_of, remembered, speaker_of

Client = TypeVar("Client", OpenAI, AsyncOpenAI)
Call = Callable[..., Any]
log = logging.getLogger("ld_agent")
LONGEST_WAIT = 5.0  # seconds, for a turn to be stored whose stream was left


def remembering(client: Client, person: str, store: str | Path | Agent | None = None) -> Client:
    """Return a copy of a client whose chats remember a person; the client itself stays as it is.

    What is remembered joins the system message, as data. Once the model has answered, the person's messages since its last
    one and the answer are stored. ``responses`` and other methods are the client's own.

    Args:
        client: an `OpenAI` or `AsyncOpenAI`; the copy shares its connections and takes the same arguments.
        person: whose memory: a conversation's id.
        store: where it is kept, or an agent, which stays open. None: ``store.path`` of the config ``default``. What is not an
            agent gets one that learns in the background and is closed with the copy.

    Raises:
        InputError: an empty ``person``.
        StoreError: the store cannot be opened.
    """
    if isinstance(store, Agent):
        return _wrapped(type(client).copy(client), _Memory(store, person))
    settings = [] if store is None else [f"store.path={store}"]
    agent = Agent.from_config(load_config("default", settings), background=True)
    try:
        copy = _wrapped(type(client).copy(client), _Memory(agent, person))
    except LDAgentError:
        agent.close()
        raise
    _closing(copy, agent)
    return copy


def _wrapped(client: Client, memory: _Memory) -> Client:
    """The same client with other methods."""
    completions, asynchronous = client.chat.completions, isinstance(client, AsyncOpenAI)
    for name in ("create", "parse"):
        if call := getattr(completions, name, None):
            vars(completions)[name] = memory.around_async(call) if asynchronous else memory.around(call)
    if hasattr(completions, "parse"):  # otherwise an older package, where beta's differ
        vars(client.beta)["chat"] = client.chat
    copy = type(client).copy
    vars(client).update(dict.fromkeys(("copy", "with_options"), lambda **new: _wrapped(copy(client, **new), memory)))
    return client


class _Memory:
    """What a client knows of one person."""

    def __init__(self, agent: Agent, person: str) -> None:
        self._agent, self._person, self.one_at_a_time = agent, person, threading.Lock()
        self._conversation = self.conversation

    @property
    def conversation(self) -> Conversation:
        """The open one, or a new one if it was deleted."""
        self._conversation = self._agent.conversation(self._person, resume=False)
        return self._conversation

    def listening(self, stream: _Listener) -> _Listener:
        """A stream whose text the agent stores before it closes."""
        self._agent.unfinished.add(stream)
        return stream

    def around(self, call: Call) -> Call:
        @wraps(call)
        def remembers(**given: Any) -> Any:
            if not isinstance(given.get("messages"), Iterable):
                return call(**given)
            turn = _Turn(self, given)
            return turn.heard(call(**turn.sent))

        return remembers

    def around_async(self, call: Call) -> Call:
        @wraps(call)
        async def remembers(**given: Any) -> Any:
            if not isinstance(given.get("messages"), Iterable):
                return await call(**given)
            turn = await asyncio.to_thread(_Turn, self, given)
            answer = await call(**turn.sent)
            return await asyncio.to_thread(turn.heard, answer)

        return remembers


class _Turn:
    """One call.

    Attributes:
        sent: its arguments, with what is remembered.
    """

    def __init__(self, memory: _Memory, given: Mapping[str, Any]) -> None:
        self._memory, self._said, self._begun, self._stored = memory, list[ClientMessage](), "", False
        messages = [*given["messages"]]
        self.sent = {**given, "messages": messages}
        try:
            lines = lines_of(map(_as_mapping, messages))
            while lines and lines[-1].role == "assistant":
                self._begun = lines.pop().text + self._begun
            self._said = _since_the_last_answer(lines)
            if (asked := last_line(lines, "user")) and (known := remembered(memory.conversation, asked.text)):
                self.sent["messages"] = _with(messages, known)
        except LDAgentError as exc:
            log.warning("a chat goes on without memory: %s", exc)

    def heard(self, answer: Any) -> Any:
        """The answer, whose text is stored; a stream's once it has ended or is closed."""
        if isinstance(answer, ChatCompletion):
            message = answer.choices[0].message if answer.choices else None
            self.store(getattr(message, "content", None) or getattr(message, "refusal", None) or "")
        elif isinstance(answer, Stream):
            return self._memory.listening(_Heard(answer, self.store))
        elif isinstance(answer, AsyncStream):
            return self._memory.listening(_AsyncHeard(answer, self.store))
        elif parse := getattr(answer, "parse", None):  # of a raw response
            vars(answer)["parse"] = self._parsing(parse)
        return answer

    def _parsing(self, parse: Call) -> Call:
        if not inspect.iscoroutinefunction(parse):
            return lambda **how: self.heard(parse(**how))

        async def parsed(**how: Any) -> Any:
            return await asyncio.to_thread(self.heard, await parse(**how))

        return parsed

    def store(self, text: str) -> None:
        """Store what was said, once. The answer is there, so a failure is logged."""
        with self._memory.one_at_a_time:
            if self._stored:
                return
            self._stored = True
            try:
                conversation = self._memory.conversation
                for line in self._said:
                    conversation.observe(line.text, speaker_of(line, conversation))
                if text.strip():
                    conversation.observe(self._begun + text, conversation.agent_name)
                conversation.learn_later()
            except LDAgentError as exc:
                log.warning("a turn was not stored: %s", exc)


class _Listener:
    """A stream of chunks as the client gave it; its text is passed on at its end, or if it is closed or left before."""

    def __init__(self, stream: Any, store: Callable[[str], None]) -> None:
        self._stream, self._store, self._read = stream, store, list[str]()
        self._left = weakref.finalize(self, _store_left, store, self._read)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _ends(self, chunk: Any) -> bool:
        first = [choice for choice in chunk.choices if choice.index == 0]
        deltas = [choice.delta for choice in first]
        self._read += [getattr(d, "content", None) or getattr(d, "refusal", None) or "" for d in deltas]
        return any(choice.finish_reason for choice in first)

    def finish(self) -> None:
        """Store what was read, if it was any, now that nobody reads on or the agent closes."""
        if any(self._read):
            self._finish()

    def _finish(self) -> None:
        if self._left.detach():
            self._store("".join(self._read))


class _Heard(_Listener):
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        chunk = next(self._stream, None)
        if chunk is None or self._ends(chunk):
            self._finish()
        if chunk is None:
            raise StopIteration
        return chunk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self.finish()


class _AsyncHeard(_Listener):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self._stream, None)
        if chunk is None or self._ends(chunk):
            await asyncio.to_thread(self._finish)
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._stream.close()
        await asyncio.to_thread(self.finish)


def _store_left(store: Callable[[str], None], read: Sequence[str]) -> None:
    """Store what was read of a stream that nobody closed; in a thread, as the collector's own may hold a lock."""
    if not any(read):
        return
    storing = threading.Thread(target=store, args=("".join(read),), name="ld_agent-left")
    try:
        storing.start()
    except RuntimeError:  # the program ends
        store("".join(read))
    else:
        storing.join(LONGEST_WAIT)


def _as_mapping(message: Any) -> Mapping[str, Any]:
    """A message as JSON; {} for what the endpoint will refuse."""
    given = message.to_dict() if isinstance(message, BaseModel) else message
    return given if isinstance(given, Mapping) else {}


def _since_the_last_answer(lines: Sequence[ClientMessage]) -> list[ClientMessage]:
    """What people said since the model's or a tool's last message."""
    since: list[ClientMessage] = []
    for line in lines:
        if line.role in ("assistant", "tool"):
            since.clear()
        elif line.role == "user" and line.text.strip():
            since.append(line)
    return since


def _with(messages: Sequence[Any], known: str) -> list[Any]:
    """Messages whose system's ends with what is known."""
    first = _as_mapping(messages[0])
    if first.get("role") not in ("system", "developer"):
        return [{"role": "system", "content": known}, *messages]
    content = first.get("content") or ""
    added: Any = [*content, {"type": "text", "text": known}]
    if isinstance(content, str):
        added = f"{content}\n\n{known}" if content else known
    return [{**first, "content": added}, *messages[1:]]


def _closing(client: OpenAI | AsyncOpenAI, agent: Agent) -> None:
    """Let a client close an agent with itself."""
    close: Call = client.close

    def both() -> None:
        close()
        agent.close()

    async def both_async() -> None:
        await close()
        await asyncio.to_thread(agent.close)

    vars(client)["close"] = both_async if isinstance(client, AsyncOpenAI) else both
