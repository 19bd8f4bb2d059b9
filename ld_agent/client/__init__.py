"""The memory of a running ``ld-agent serve`` from Python: `MemoryClient`, and `AsyncMemoryClient` for coroutines.

Requests and how to parse their answers are defined once, in `ld_agent.client.calls`; both clients only send them. Needs
httpx.

    memory = MemoryClient("http://127.0.0.1:8321", key="lda_…")
    memory.observe("ann", ["I keep bees."])
    memory.recall("ann", "What does she keep?")
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ld_agent.client import calls
from ld_agent.client.calls import Call, Said, SessionDetail
from ld_agent.errors import LDAgentError
from ld_agent.types import (
    Change,
    PersonSummary,
    Prompt,
    Recalled,
    Record,
    SessionSummary,
    ThreadSummary,
    Trait,
    Utterance,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncMemoryClient", "MemoryClient", "Said", "ServerError", "SessionDetail"]

T = TypeVar("T")


class ServerError(LDAgentError):
    """The server refused a request or could not be reached; ``status`` is 0 for the latter."""

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


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
        return self.ask(calls.people(after, containing, limit))

    def person(self, person: str) -> PersonSummary:
        return self.ask(calls.person(person))

    def recall(self, person: str, text: str, at: datetime | str | None = None, k: int | None = None) -> list[Recalled]:
        return self.ask(calls.recall(person, text, at, k))

    def messages(self, person: str, text: str, thread: str = "", at: datetime | str | None = None) -> Prompt:
        return self.ask(calls.messages(person, text, thread, at))

    def observe(self, person: str, said: Iterable[Said | str], *, end_session: bool = False) -> list[Utterance]:
        return self.ask(calls.observe(person, said, end_session))

    def records(self, person: str, after: str = "", limit: int = 100) -> list[Record]:
        return self.ask(calls.records(person, after, limit))

    def traits(self, person: str, *, history: bool = False, as_of: datetime | str | None = None) -> list[Trait]:
        return self.ask(calls.traits(person, history, as_of))

    def threads(self, person: str) -> list[ThreadSummary]:
        return self.ask(calls.threads(person))

    def sessions(self, person: str, before: int | None = None, limit: int = 100) -> list[SessionSummary]:
        return self.ask(calls.sessions(person, before, limit))

    def session(self, person: str, number: int) -> SessionDetail:
        return self.ask(calls.session(person, number))

    def changes(self, person: str) -> list[Change]:
        return self.ask(calls.changes(person))

    def edit(self, person: str, target: str, text: str) -> None:
        self.ask(calls.change(person, target, text, None))

    def pin(self, person: str, target: str, pinned: bool = True) -> None:
        self.ask(calls.change(person, target, None, pinned))

    def forget(self, person: str, target: str) -> None:
        self.ask(calls.forget(person, target))

    def delete(self, person: str) -> None:
        self.ask(calls.delete(person))

    def export(self, person: str) -> str:
        return self.ask(calls.export(person))

    def import_person(self, person: str, exported: str) -> dict[str, int]:
        return self.ask(calls.import_person(person, exported))

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
        return await self.ask(calls.people(after, containing, limit))

    async def person(self, person: str) -> PersonSummary:
        return await self.ask(calls.person(person))

    async def recall(
        self, person: str, text: str, at: datetime | str | None = None, k: int | None = None
    ) -> list[Recalled]:
        return await self.ask(calls.recall(person, text, at, k))

    async def messages(self, person: str, text: str, thread: str = "", at: datetime | str | None = None) -> Prompt:
        return await self.ask(calls.messages(person, text, thread, at))

    async def observe(self, person: str, said: Iterable[Said | str], *, end_session: bool = False) -> list[Utterance]:
        return await self.ask(calls.observe(person, said, end_session))

    async def records(self, person: str, after: str = "", limit: int = 100) -> list[Record]:
        return await self.ask(calls.records(person, after, limit))

    async def traits(self, person: str, *, history: bool = False, as_of: datetime | str | None = None) -> list[Trait]:
        return await self.ask(calls.traits(person, history, as_of))

    async def threads(self, person: str) -> list[ThreadSummary]:
        return await self.ask(calls.threads(person))

    async def sessions(self, person: str, before: int | None = None, limit: int = 100) -> list[SessionSummary]:
        return await self.ask(calls.sessions(person, before, limit))

    async def session(self, person: str, number: int) -> SessionDetail:
        return await self.ask(calls.session(person, number))

    async def changes(self, person: str) -> list[Change]:
        return await self.ask(calls.changes(person))

    async def edit(self, person: str, target: str, text: str) -> None:
        await self.ask(calls.change(person, target, text, None))

    async def pin(self, person: str, target: str, pinned: bool = True) -> None:
        await self.ask(calls.change(person, target, None, pinned))

    async def forget(self, person: str, target: str) -> None:
        await self.ask(calls.forget(person, target))

    async def delete(self, person: str) -> None:
        await self.ask(calls.delete(person))

    async def export(self, person: str) -> str:
        return await self.ask(calls.export(person))

    async def import_person(self, person: str, exported: str) -> dict[str, int]:
        return await self.ask(calls.import_person(person, exported))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# ---- transport


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _sent(call: Call[Any]) -> dict[str, Any]:
    if isinstance(call.body, str):
        return {"content": call.body.encode(), "headers": {"Content-Type": "application/x-ndjson"}}
    return {"params": dict(call.query)} | ({} if call.body is None else {"json": call.body})


def _answer(call: Call[T], response: httpx.Response) -> T:
    if response.is_success:
        is_json = response.headers.get("content-type", "").startswith("application/json")
        try:
            return call.read(response.json() if is_json else response.text)
        except (ValueError, KeyError, TypeError) as exc:
            what = f"{call.method} {call.path} was answered with something else than the client expects"
            raise ServerError(f"{what}; use the server's version of ld_agent", response.status_code) from exc
    try:
        error = response.json()["error"]
        raise ServerError(error["message"], response.status_code, error.get("code"))
    except (ValueError, KeyError, TypeError) as exc:
        what = f"{call.method} {call.path} was answered with status {response.status_code}"
        raise ServerError(f"{what}; is this the address of `ld-agent serve`?", response.status_code) from exc


def _unreachable(exc: Exception) -> ServerError:
    return ServerError(f"the server cannot be reached ({exc}); check its address and that it runs", 0)
