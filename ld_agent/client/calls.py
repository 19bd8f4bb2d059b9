"""The requests of the memory API, each with how to parse its answer. Knows no HTTP client: `ld_agent.client` sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

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
    return Call("GET", PEOPLE, lambda j: [_person(p) for p in j["people"]], query)


def person(person_id: str) -> Call[PersonSummary]:
    return Call("GET", _of(person_id), _person)


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


def threads(person: str) -> Call[list[ThreadSummary]]:
    return Call("GET", _of(person, "threads"), lambda j: [_thread(t) for t in j["threads"]])


def sessions(person: str, before: int | None, limit: int) -> Call[list[SessionSummary]]:
    query = {"limit": limit} | ({"before": before} if before is not None else {})
    return Call("GET", _of(person, "sessions"), lambda j: [_session(s) for s in j["sessions"]], query)


def session(person: str, number: int) -> Call[SessionDetail]:
    return Call("GET", _of(person, "sessions", str(number)), _session_detail)


def changes(person: str) -> Call[list[Change]]:
    return Call("GET", _of(person, "changes"), lambda j: [_change(c) for c in j["changes"]])


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


def _person(values: Mapping[str, Any]) -> PersonSummary:
    return PersonSummary(**(dict(values) | {"last_at": utc(values["last_at"]) if values["last_at"] else None}))


def _thread(values: Mapping[str, Any]) -> ThreadSummary:
    return ThreadSummary(values["name"], values["utterances"], utc(values["last_at"]))


def _session(values: Mapping[str, Any]) -> SessionSummary:
    return SessionSummary(
        values["number"], values["thread"], values["closed"], values["utterances"], utc(values["start"]),
        utc(values["end"]),
    )  # fmt: skip


def _session_detail(values: Mapping[str, Any]) -> SessionDetail:
    return SessionDetail(
        values["number"], tuple(_utterance(u) for u in values["utterances"]),
        tuple(_record(r) for r in values["records"]),
    )  # fmt: skip


def _change(values: Mapping[str, Any]) -> Change:
    return Change(values["target"], values["action"], utc(values["at"]), values["before"])


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
