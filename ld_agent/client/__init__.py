"""The memory of a running ``ld-agent serve`` from Python. Needs httpx; knows no store and no model.

    memory = MemoryClient("http://127.0.0.1:8321", key="lda_…")
    memory.observe("ann", ["I keep bees."])
    memory.recall("ann", "What does she keep?")

Coroutines call it in a thread: ``await asyncio.to_thread(memory.recall, "ann", "What does she keep?")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter

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
    utc,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["MemoryClient", "Said", "ServerError", "SessionDetail"]

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
class SessionDetail:
    """What was said in one session, and the memories made from it."""

    number: int
    utterances: tuple[Utterance, ...]
    records: tuple[Record, ...]


class MemoryClient:
    """The memory of a server.

    Args:
        url: the server's address.
        key: an API key with the scope ``memory``; None if the server needs none.
        http: the httpx client to use, for instance one with other timeouts.

    Raises (every method): ServerError.
    """

    def __init__(self, url: str, key: str | None = None, *, http: httpx.Client | None = None) -> None:
        import httpx

        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = http or httpx.Client(base_url=url, headers=headers, timeout=60)

    # ---- reading

    def people(self, after: str = "", containing: str = "", limit: int = 100) -> list[PersonSummary]:
        query = {"after": after, "containing": containing, "limit": limit}
        return self._read(list[PersonSummary], PEOPLE, "people", query)

    def person(self, person: str) -> PersonSummary:
        return self._read(PersonSummary, _of(person))

    def recall(self, person: str, text: str, at: datetime | str | None = None, k: int | None = None) -> list[Recalled]:
        query = {"text": text} | _time(at) | ({"k": k} if k else {})
        return self._read(list[Recalled], _of(person, "recall"), "recalled", query)

    def messages(self, person: str, text: str, thread: str = "", at: datetime | str | None = None) -> Prompt:
        body = {"text": text, "thread": thread} | _time(at)
        return self._parsed(Prompt, self._ask("POST", _of(person, "messages"), json=body))

    def records(self, person: str, after: str = "", limit: int = 100) -> list[Record]:
        return self._read(list[Record], _of(person, "records"), "records", {"after": after, "limit": limit})

    def traits(self, person: str, *, history: bool = False, as_of: datetime | str | None = None) -> list[Trait]:
        query = {"history": history} | ({} if as_of is None else {"as_of": utc(as_of, "as_of").isoformat()})
        return self._read(list[Trait], _of(person, "traits"), "traits", query)

    def threads(self, person: str) -> list[ThreadSummary]:
        return self._read(list[ThreadSummary], _of(person, "threads"), "threads")

    def sessions(self, person: str, before: int | None = None, limit: int = 100) -> list[SessionSummary]:
        query = {"limit": limit} | ({"before": before} if before is not None else {})
        return self._read(list[SessionSummary], _of(person, "sessions"), "sessions", query)

    def session(self, person: str, number: int) -> SessionDetail:
        return self._read(SessionDetail, _of(person, "sessions", str(number)))

    def changes(self, person: str) -> list[Change]:
        return self._read(list[Change], _of(person, "changes"), "changes")

    def export(self, person: str) -> str:
        return str(self._ask("GET", _of(person, "export")).text)

    # ---- changing

    def observe(self, person: str, said: Iterable[Said | str], *, end_session: bool = False) -> list[Utterance]:
        given = [Said(one) if isinstance(one, str) else one for one in said]
        body = {"utterances": [asdict(one) | _time(one.at) for one in given], "end_session": end_session}
        response = self._ask("POST", _of(person, "observe"), json=body)
        return self._parsed(list[Utterance], response, "utterances")

    def edit(self, person: str, target: str, text: str) -> None:
        self._ask("PATCH", _of(person, "memories", target), json={"text": text})

    def pin(self, person: str, target: str, pinned: bool = True) -> None:
        self._ask("PATCH", _of(person, "memories", target), json={"pinned": pinned})

    def forget(self, person: str, target: str) -> None:
        self._ask("DELETE", _of(person, "memories", target))

    def undo(self, person: str) -> None:
        self._ask("POST", _of(person, "undo"))

    def delete(self, person: str) -> None:
        self._ask("DELETE", _of(person))

    def import_person(self, person: str, exported: str) -> dict[str, int]:
        sent = {"content": exported.encode(), "headers": {"Content-Type": "application/x-ndjson"}}
        return self._parsed(dict[str, int], self._ask("POST", _of(person, "import"), **sent), "counts")

    # ---- transport

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, **sent: Any) -> httpx.Response:
        import httpx

        try:
            response = self._http.request(method, path, **sent)
        except httpx.HTTPError as exc:
            raise ServerError(f"the server cannot be reached ({exc}); check its address and that it runs", 0) from exc
        if response.is_success:
            return response
        try:
            error = response.json()["error"]
            raise ServerError(error["message"], response.status_code, error.get("code"))
        except (ValueError, KeyError, TypeError) as exc:
            what = f"{method} {path} was answered with status {response.status_code}"
            raise ServerError(f"{what}; is this the address of `ld-agent serve`?", response.status_code) from exc

    def _read(self, kind: type[T], path: str, name: str = "", query: Mapping[str, Any] | None = None) -> T:
        return self._parsed(kind, self._ask("GET", path, params=query), name)

    def _parsed(self, kind: type[T], response: httpx.Response, name: str = "") -> T:
        """An answer, or what stands under a name in it, as a type."""
        try:
            answer = _with_records(response.json())
            value: T = _reader(kind).validate_python(answer[name] if name else answer)  # type: ignore[arg-type]
            return value
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            request = response.request
            what = f"{request.method} {request.url.path} was answered with something else than the client expects"
            raise ServerError(f"{what}; use the server's version of ld_agent", response.status_code) from exc


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _with_records(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as the types of this package have it: what was recalled has a record, and what is null there is "" here."""
    if "recalled" in answer:
        answer = answer | {"recalled": [{**values, "record": values} for values in answer["recalled"]]}
    if isinstance(answer.get("traits"), list):
        empty = ("source", "ended_by")
        answer = answer | {"traits": [t | {name: t[name] or "" for name in empty} for t in answer["traits"]]}
    return answer


def _time(at: datetime | str | None) -> dict[str, str]:
    return {"at": utc(at).isoformat()} if at else {}


def _of(*parts: str) -> str:
    return "/".join([PEOPLE, *(quote(part, safe="") for part in parts)])
