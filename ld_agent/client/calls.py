"""The requests of the memory API, each with how to parse its answer. Knows no HTTP client: `ld_agent.client` sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter

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

T = TypeVar("T")
PEOPLE = "/v1/memory/people"


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
    return Call("GET", PEOPLE, _listed(PersonSummary, "people"), query)


def person(person_id: str) -> Call[PersonSummary]:
    return Call("GET", _of(person_id), lambda answer: _read(PersonSummary, answer))


def recall(person: str, text: str, at: datetime | str | None, k: int | None) -> Call[list[Recalled]]:
    query = {"text": text} | ({"at": utc(at).isoformat()} if at else {}) | ({"k": k} if k else {})
    return Call("GET", _of(person, "recall"), _recalled, query)


def messages(person: str, text: str, thread: str, at: datetime | str | None) -> Call[Prompt]:
    body = {"text": text, "thread": thread} | ({"at": utc(at).isoformat()} if at else {})
    return Call("POST", _of(person, "messages"), _prompt, body=body)


def observe(person: str, said: Iterable[Said | str], end_session: bool) -> Call[list[Utterance]]:
    given = [Said(one) if isinstance(one, str) else one for one in said]
    utterances = [asdict(s) | {"at": utc(s.at).isoformat() if s.at else None} for s in given]
    body = {"utterances": utterances, "end_session": end_session}
    return Call("POST", _of(person, "observe"), _listed(Utterance, "utterances"), body=body)


def records(person: str, after: str, limit: int) -> Call[list[Record]]:
    query = {"after": after, "limit": limit}
    return Call("GET", _of(person, "records"), _listed(Record, "records"), query)


def traits(person: str, history: bool, as_of: datetime | str | None) -> Call[list[Trait]]:
    query = {"history": history} | ({} if as_of is None else {"as_of": utc(as_of, "as_of").isoformat()})
    return Call("GET", _of(person, "traits"), _traits, query)


def threads(person: str) -> Call[list[ThreadSummary]]:
    return Call("GET", _of(person, "threads"), _listed(ThreadSummary, "threads"))


def sessions(person: str, before: int | None, limit: int) -> Call[list[SessionSummary]]:
    query = {"limit": limit} | ({"before": before} if before is not None else {})
    return Call("GET", _of(person, "sessions"), _listed(SessionSummary, "sessions"), query)


def session(person: str, number: int) -> Call[SessionDetail]:
    return Call("GET", _of(person, "sessions", str(number)), lambda answer: _read(SessionDetail, answer))


def changes(person: str) -> Call[list[Change]]:
    return Call("GET", _of(person, "changes"), _listed(Change, "changes"))


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


def _of(*parts: str) -> str:
    return "/".join([PEOPLE, *(quote(part, safe="") for part in parts)])


# ---- answers


def _nothing(answer: Any) -> None:
    return None


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read(kind: type[T], values: Any) -> T:
    parsed: T = _reader(kind).validate_python(values)  # type: ignore[arg-type]  # a type is hashable
    return parsed


def _listed(kind: type[T], name: str) -> Callable[[Any], list[T]]:
    """How to parse a list of an answer."""
    return lambda answer: [_read(kind, values) for values in answer[name]]


def _recalled(answer: Any) -> list[Recalled]:
    """The numbers of a recall stand beside the fields of its record."""
    return [_read(Recalled, {**values, "record": values}) for values in answer["recalled"]]


def _traits(answer: Any) -> list[Trait]:
    absent = {"source": "", "ended_by": ""}
    return [_read(Trait, values | {k: values[k] or v for k, v in absent.items()}) for values in answer["traits"]]


def _prompt(answer: Any) -> Prompt:
    return _read(Prompt, {**answer, "recalled": _recalled(answer)})
