"""Identifies the caller and the person: keys belong to tenants; headers and bodies name persons and threads.

A person's conversation id is ``TENANT/PERSON``, or ``PERSON`` if the server has no keys. Neither part can contain a
slash, so that no tenant can name another tenant's conversation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Path, Request

from ld_agent.errors import InputError
from ld_agent.server.errors import ApiError
from ld_agent.storage.served import SCOPES, ApiKey
from ld_agent.types import checked_name

LONGEST = 200
PERSON_HEADERS = ("x-ld-person", "x-openwebui-user-id")
THREAD_HEADERS = ("x-ld-thread", "x-openwebui-chat-id")
NAME_HEADERS = ("x-ld-name", "x-openwebui-user-name")
TEMPORARY = "local:"
"""Prefix of the ids of Open WebUI's temporary chats, which it does not store itself."""
UNFILLED = "{{"
"""Beginning of an unfilled placeholder, such as LibreChat's, which would make everybody the same person."""
THREAD_METADATA = ("thread", "thread_id", "chat_id", "conversation_id")


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a key, or anyone on this machine if there are no keys.

    Attributes:
        tenant: "" without keys.
        key: the key's prefix, for logs and limits.
        rate: requests per minute; None: the server's default.
    """

    tenant: str
    scopes: tuple[str, ...]
    key: str
    rate: int | None = None

    @classmethod
    def of(cls, key: ApiKey) -> Caller:
        return cls(key.tenant, key.scopes, key.prefix, key.rate)

    @property
    def prefix(self) -> str:
        """The prefix of this tenant's conversation ids."""
        return f"{self.tenant}/" if self.tenant else ""

    def conversation_id(self, person: str) -> str:
        return self.prefix + checked_id(person, "person")

    def person(self, conversation_id: str) -> str:
        return conversation_id.removeprefix(self.prefix)

    def owns(self, conversation_id: str) -> bool:
        return conversation_id.startswith(self.prefix) if self.tenant else "/" not in conversation_id

    def may(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes


LOCAL = Caller("", SCOPES, "local")


@dataclass(frozen=True, slots=True)
class Addressed:
    """The person and thread of a request.

    Attributes:
        person: None: no person is named, and nothing is remembered.
        thread: None: no thread is named.
        name: the person's name in prompts; None: not given.
        whole: the client always sends the whole chat.
    """

    person: str | None
    thread: str | None
    name: str | None
    whole: bool


def _documented(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


PRINTABLE = {"pattern": "^[^/\\x00-\\x1f\\x7f-\\xa0]+$"}
ID: dict[str, Any] = {"minLength": 1, "maxLength": LONGEST, **PRINTABLE}
HEADERS = [
    _documented("X-LD-Person", "The person's id. Default: `user`, or `safety_identifier`.", **ID),
    _documented("X-LD-Thread", "Which of the person's chats this is. Default: `metadata.thread`.", **ID),
    _documented("X-LD-Name", "What a new person is called in prompts, percent-encoded.", maxLength=LONGEST),
    _documented("X-LD-History", "Whether the client always sends the whole chat.", enum=["whole", "new"]),
    _documented("X-OpenWebUI-User-Id", "As X-LD-Person.", **ID),
    _documented("X-OpenWebUI-Chat-Id", "As X-LD-Thread; a temporary chat is not remembered.", **ID),
    _documented("X-OpenWebUI-User-Name", "As X-LD-Name.", maxLength=LONGEST),
]
"""The headers that `addressed` reads, for the OpenAPI document. They are read by hand, since clients send UTF-8 in them."""
MEMORY_HEADER = {
    "X-LD-Memory": {
        "description": "Whether anything is remembered.",
        "schema": {"enum": ["on", "none"], "type": "string"},
    }
}


def checked_id(text: str, what: str) -> str:
    """A person's or thread's id as given by a client; refused if empty, too long, "." or "..", which no URL can have, with a
    slash or control characters, or an unfilled placeholder."""
    if UNFILLED in text:
        problem = f"{text[:60]!r} is a placeholder that the client did not fill in"
    elif not text.strip(" .") or len(text) > LONGEST or "/" in text or not text.isprintable():
        shown = text if len(text) <= 40 else text[:40] + "…"
        problem = f"{shown!r} is not an id; give 1 to {LONGEST} printable characters without a slash"
    else:
        return text
    raise ApiError(400, f"the {what} {problem}", f"invalid_{what}", what)


def addressed(request: Request, user: str | None, metadata: Mapping[str, Any] | None) -> Addressed:
    """The person and thread of a request, from its headers or else its body."""
    person = _header(request, PERSON_HEADERS) or user
    named = next((str(metadata[key]) for key in THREAD_METADATA if metadata and metadata.get(key)), None)
    thread = _header(request, THREAD_HEADERS) or named
    history = (_header(request, ("x-ld-history",)) or "").casefold()
    if history not in ("", "whole", "new"):
        raise ApiError(400, f"X-LD-History is {history!r}; send whole or new, or leave it out", "invalid_history")
    name = _header(request, NAME_HEADERS)
    if request.headers.get("x-openwebui-chat-id", "").startswith(TEMPORARY):
        person = None
    return Addressed(
        None if person is None else checked_id(person, "person"),
        None if thread is None else checked_id(thread, "thread"),
        usable_name(unquote(name or "")) or None,
        history == "whole" or (not history and "x-openwebui-chat-id" in request.headers),
    )


def _header(request: Request, names: tuple[str, ...]) -> str | None:
    for name in names:
        if value := request.headers.get(name):
            try:
                return value.encode("latin-1").decode("utf-8")  # clients send UTF-8, contrary to the standard
            except UnicodeError:
                return value
    return None


def usable_name(name: str) -> str:
    """A name that a client gives a person; "" for one that nobody can have."""
    try:
        return checked_name(name)
    except InputError:
        return ""


def is_loopback(host: str | None) -> bool:
    """Whether a host, with or without port, is this machine."""
    name = host or ""
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.casefold() == "localhost"


def address_of(request: Request) -> str:
    """The address that a request comes from."""
    return request.client.host if request.client else ""


def identified(request: Request) -> Caller:
    """Identify the caller, or refuse: with 401 without a valid key where keys are in use; with 403 where there are none and
    the call comes from another machine, or from another site through a browser on this one."""
    keys = request.app.state.service.keys
    if not keys.in_use():
        origin = request.headers.get("origin", "")
        local = is_loopback(request.headers.get("host")) and is_loopback(address_of(request))
        if not local or (origin and not is_loopback(origin.partition("//")[2])):
            text = (
                "this server has no keys and answers only on its own machine; create a key with `ld-agent keys create`"
            )
            raise ApiError(403, text)
        return LOCAL
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.casefold() == "bearer" else ""
    key = keys.find(token) if token else None
    if key is None:
        text = "no valid API key; send it as `Authorization: Bearer KEY`"
        raise ApiError(401, text, "invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
    return Caller.of(key)


def needs(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """Create a route's dependency: a caller with this scope, within its rate limit."""

    async def admitted(request: Request) -> Caller:
        caller = identified(request)
        request.state.caller = caller
        if not caller.may(scope):
            text = f"this key has the scopes {', '.join(caller.scopes)}, not {scope}; use another key"
            raise ApiError(403, text, "missing_scope")
        request.app.state.rates.count(caller)
        return caller

    return admitted


ChatCaller = Annotated[Caller, Depends(needs("chat"))]
MemoryCaller = Annotated[Caller, Depends(needs("memory"))]
AdminCaller = Annotated[Caller, Depends(needs("admin"))]
Person = Annotated[
    str,
    Path(
        min_length=1, max_length=LONGEST, description="The person's id.", examples=["ann"], json_schema_extra=PRINTABLE
    ),
]
