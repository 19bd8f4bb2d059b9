"""The memory of a running ``ld-agent serve`` from Python: `MemoryClient`, and `AsyncMemoryClient` for coroutines.

Requests and how to parse their answers are defined once, as `Call`s; both clients only send them. Needs httpx.

    memory = MemoryClient("http://127.0.0.1:8321", key="lda_…")
    memory.observe("ann", ["I keep bees."])
    memory.recall("ann", "What does she keep?")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import quote

from ld_agent.errors import LDAgentError
from ld_agent.types import PersonSummary, Prompt, Recalled, Record, Trait, Utterance, utc

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
PEOPLE = "/v1/memory/people"


class ServerError(LDAgentError):
    """The server refused a request or could not be reached; ``status`` is 0 for the latter."""

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Said:
    """Something that was said.

    Attributes:
        speaker: None means the person.
        channel: where it came from: ``observe``, ``import``, ``tool`` or ``document``.
    """

    text: str
    speaker: str | None = None
    at: datetime | str | None = None
    thread: str = ""
    channel: str = "observe"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how to parse its answer."""

    method: str
    path: str
    read: Callable[[Any], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


# ---- requests


def people(after: str, containing: str, limit: int) -> Call[list[PersonSummary]]:
    query = {"after": after, "containing": containing, "limit": limit}
    return Call("GET", PEOPLE, lambda j: [_person(p) for p in j["people"]], query)


def recall(person: str, text: str, at: datetime | str | None, k: int | None) -> Call[list[Recalled]]:
    query = {"text": text} | ({"at": utc(at).isoformat()} if at else {}) | ({"k": k} if k else {})
    return Call("GET", _of(person, "recall"), lambda j: [_recalled(r) for r in j["recalled"]], query)


def messages(person: str, text: str, thread: str, at: datetime | str | None) -> Call[Prompt]:
    body = {"text": text, "thread": thread} | ({"at": utc(at).isoformat()} if at else {})
    return Call("POST", _of(person, "messages"), _prompt, body=body)


def observe(person: str, said: Iterable[Said | str], end_session: bool) -> Call[list[Utterance]]:
    given = [Said(one) if isinstance(one, str) else one for one in said]
    utterances = [
        {
            "text": s.text,
            "speaker": s.speaker,
            "thread": s.thread,
            "channel": s.channel,
            "at": utc(s.at).isoformat() if s.at else None,
        }
        for s in given
    ]
    body = {"utterances": utterances, "end_session": end_session}
    return Call("POST", _of(person, "observe"), lambda j: [_utterance(u) for u in j["utterances"]], body=body)


def records(person: str, after: str, limit: int) -> Call[list[Record]]:
    query = {"after": after, "limit": limit}
    return Call("GET", _of(person, "records"), lambda j: [_record(r) for r in j["records"]], query)


def traits(person: str, history: bool) -> Call[list[Trait]]:
    return Call("GET", _of(person, "traits"), lambda j: [_trait(t) for t in j["traits"]], {"history": history})


def change(person: str, target: str, text: str | None, pinned: bool | None) -> Call[None]:
    body = {name: value for name, value in (("text", text), ("pinned", pinned)) if value is not None}
    return Call("PATCH", _of(person, "memories", target), _nothing, body=body)


def forget(person: str, target: str) -> Call[None]:
    return Call("DELETE", _of(person, "memories", target), _nothing)


def delete(person: str) -> Call[None]:
    return Call("DELETE", _of(person), _nothing)


def export(person: str) -> Call[str]:
    return Call("GET", _of(person, "export"), str)


def import_person(person: str, exported: str) -> Call[dict[str, int]]:
    return Call("POST", _of(person, "import"), lambda j: dict(j["counts"]), body=exported)


class MemoryClient:
    """The memory of a server, for threads.

    Args:
        url: the server's address.
        key: an API key with the scope ``memory``; None if the server needs none.
        http: the httpx client to use, for instance one with other timeouts.

    Raises (every method): ServerError.
    """

    def __init__(self, url: str, key: str | None = None, *, http: httpx.Client | None = None) -> None:
        import httpx

        self._http = http or httpx.Client(base_url=url, headers=_headers(key), timeout=60)

    def ask(self, call: Call[T]) -> T:
        """Send a call and parse its answer."""
        import httpx

        try:
            response = self._http.request(call.method, call.path, **_sent(call))
        except httpx.HTTPError as exc:
            raise _unreachable(exc) from exc
        return _answer(call, response)

    def people(self, after: str = "", containing: str = "", limit: int = 100) -> list[PersonSummary]:
        return self.ask(people(after, containing, limit))

    def recall(self, person: str, text: str, at: datetime | str | None = None, k: int | None = None) -> list[Recalled]:
        return self.ask(recall(person, text, at, k))

    def messages(self, person: str, text: str, thread: str = "", at: datetime | str | None = None) -> Prompt:
        return self.ask(messages(person, text, thread, at))

    def observe(self, person: str, said: Iterable[Said | str], *, end_session: bool = False) -> list[Utterance]:
        return self.ask(observe(person, said, end_session))

    def records(self, person: str, after: str = "", limit: int = 100) -> list[Record]:
        return self.ask(records(person, after, limit))

    def traits(self, person: str, *, history: bool = False) -> list[Trait]:
        return self.ask(traits(person, history))

    def edit(self, person: str, target: str, text: str) -> None:
        self.ask(change(person, target, text, None))

    def pin(self, person: str, target: str, pinned: bool = True) -> None:
        self.ask(change(person, target, None, pinned))

    def forget(self, person: str, target: str) -> None:
        self.ask(forget(person, target))

    def delete(self, person: str) -> None:
        self.ask(delete(person))

    def export(self, person: str) -> str:
        return self.ask(export(person))

    def import_person(self, person: str, exported: str) -> dict[str, int]:
        return self.ask(import_person(person, exported))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncMemoryClient:
    """`MemoryClient` for coroutines."""

    def __init__(self, url: str, key: str | None = None, *, http: httpx.AsyncClient | None = None) -> None:
        import httpx

        self._http = http or httpx.AsyncClient(base_url=url, headers=_headers(key), timeout=60)

    async def ask(self, call: Call[T]) -> T:
        """Send a call and parse its answer."""
        import httpx

        try:
            response = await self._http.request(call.method, call.path, **_sent(call))
        except httpx.HTTPError as exc:
            raise _unreachable(exc) from exc
        return _answer(call, response)

    async def people(self, after: str = "", containing: str = "", limit: int = 100) -> list[PersonSummary]:
        return await self.ask(people(after, containing, limit))

    async def recall(
        self, person: str, text: str, at: datetime | str | None = None, k: int | None = None
    ) -> list[Recalled]:
        return await self.ask(recall(person, text, at, k))

    async def messages(self, person: str, text: str, thread: str = "", at: datetime | str | None = None) -> Prompt:
        return await self.ask(messages(person, text, thread, at))

    async def observe(self, person: str, said: Iterable[Said | str], *, end_session: bool = False) -> list[Utterance]:
        return await self.ask(observe(person, said, end_session))

    async def records(self, person: str, after: str = "", limit: int = 100) -> list[Record]:
        return await self.ask(records(person, after, limit))

    async def traits(self, person: str, *, history: bool = False) -> list[Trait]:
        return await self.ask(traits(person, history))

    async def edit(self, person: str, target: str, text: str) -> None:
        await self.ask(change(person, target, text, None))

    async def pin(self, person: str, target: str, pinned: bool = True) -> None:
        await self.ask(change(person, target, None, pinned))

    async def forget(self, person: str, target: str) -> None:
        await self.ask(forget(person, target))

    async def delete(self, person: str) -> None:
        await self.ask(delete(person))

    async def export(self, person: str) -> str:
        return await self.ask(export(person))

    async def import_person(self, person: str, exported: str) -> dict[str, int]:
        return await self.ask(import_person(person, exported))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# ---- transport


def _of(*parts: str) -> str:
    return "/".join([PEOPLE, *(quote(part, safe="") for part in parts)])


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _sent(call: Call[Any]) -> dict[str, Any]:
    if isinstance(call.body, str):
        return {"content": call.body.encode(), "headers": {"Content-Type": "application/x-ndjson"}}
    return {"params": dict(call.query)} | ({} if call.body is None else {"json": call.body})


def _answer(call: Call[T], response: httpx.Response) -> T:
    if response.is_success:
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return call.read(response.json() if is_json else response.text)
    try:
        error = response.json()["error"]
        raise ServerError(error["message"], response.status_code, error.get("code"))
    except (ValueError, KeyError, TypeError) as exc:
        what = f"{call.method} {call.path} was answered with status {response.status_code}"
        raise ServerError(f"{what}; is this the address of `ld-agent serve`?", response.status_code) from exc


def _unreachable(exc: Exception) -> ServerError:
    return ServerError(f"the server cannot be reached ({exc}); check its address and that it runs", 0)


def _nothing(answer: Any) -> None:
    return None


def _person(values: Mapping[str, Any]) -> PersonSummary:
    return PersonSummary(**(dict(values) | {"last_at": utc(values["last_at"]) if values["last_at"] else None}))


def _utterance(values: Mapping[str, Any]) -> Utterance:
    return Utterance(values["id"], values["speaker"], values["text"], utc(values["at"]), values["session"],
                     values.get("channel", "chat"), values.get("interrupted", False))  # fmt: skip


def _record(values: Mapping[str, Any]) -> Record:
    return Record(
        values["id"], values["view"], values["text"], utc(values["at"]), values["session"], tuple(values["topics"]),
        tuple(values["sources"]), values["fallback"], pinned=values["pinned"],
        channel=values["channel"], said_by=tuple(values["said_by"]),
    )  # fmt: skip


def _recalled(values: Mapping[str, Any]) -> Recalled:
    return Recalled(
        _record(values), values["s_sem"], values["s_top"], values["decay"], values["score"], tuple(values["overlap"]),
        dict(values["terms"]),
    )  # fmt: skip


def _trait(values: Mapping[str, Any]) -> Trait:
    return Trait(
        values["id"], values["speaker"], values["text"], utc(values["at"]), values["source"] or "",
        utc(values["last_at"]), values["mentions"], values["superseded_by"], values["pinned"],
        values["channel"],
    )  # fmt: skip


def _prompt(values: Mapping[str, Any]) -> Prompt:
    return Prompt(
        list(values["messages"]), _utterance(values["heard"]), tuple(_recalled(r) for r in values["recalled"]),
        {name: tuple(texts) for name, texts in values["traits"].items()}, tuple(values["notes"]),
    )  # fmt: skip
