"""Who is calling, and about whom: keys lead to tenants, headers and bodies name persons and threads.

A person's conversation in the store is ``TENANT/PERSON``, or just ``PERSON`` where the server needs no keys. Neither part
can contain a slash, so that no tenant can name a conversation of another.
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
from ld_agent.storage.served import SCOPES
from ld_agent.types import checked_name

LONGEST = 200
PERSON_HEADERS = ("x-ld-person", "x-openwebui-user-id")
THREAD_HEADERS = ("x-ld-thread", "x-openwebui-chat-id")
NAME_HEADERS = ("x-ld-name", "x-openwebui-user-name")
THREAD_METADATA = ("thread", "thread_id", "chat_id", "conversation_id")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever holds a key, or whoever is on this machine where there are no keys.

    Attributes:
        tenant: "" without keys.
        key: the key's prefix, for logs and limits.
        rate: requests a minute; None: the server's default.
    """

    tenant: str
    scopes: tuple[str, ...]
    key: str
    rate: int | None = None

    @property
    def prefix(self) -> str:
        """What the ids of this tenant's conversations begin with."""
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
    """Whom a request is about.

    Attributes:
        person: None: nobody is named, and nothing is remembered.
        thread: None: none is named.
        name: what the person is called in prompts; None: not said.
        whole: the client always sends the whole chat.
    """

    person: str | None
    thread: str | None
    name: str | None
    whole: bool


def checked_id(text: str, what: str) -> str:
    """A person's or thread's id as given by a client.

    Raises:
        ApiError: it is empty, too long, or has a slash or control characters.
    """
    if not text.strip() or len(text) > LONGEST or "/" in text or not text.isprintable():
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise ApiError(
            400, f"the {what} {shown!r} is not an id; give 1 to {LONGEST} printable characters without a slash",
            f"invalid_{what}", what,
        )  # fmt: skip
    return text


def addressed(request: Request, user: str | None, metadata: Mapping[str, Any] | None) -> Addressed:
    """Whom a request is about, from its headers or else from its body."""
    person = _header(request, PERSON_HEADERS) or user
    named = next((str(metadata[key]) for key in THREAD_METADATA if metadata and metadata.get(key)), None)
    thread = _header(request, THREAD_HEADERS) or named
    history = (_header(request, ("x-ld-history",)) or "").casefold()
    if history not in ("", "whole", "new"):
        raise ApiError(400, f"X-LD-History is {history!r}; send whole or new, or leave it out", "invalid_history")
    name = _header(request, NAME_HEADERS)
    return Addressed(
        None if person is None else checked_id(person, "person"),
        None if thread is None else checked_id(thread, "thread"),
        None if name is None else _usable_name(unquote(name)),
        history == "whole" or (not history and "x-openwebui-chat-id" in request.headers),
    )


def _header(request: Request, names: tuple[str, ...]) -> str | None:
    for name in names:
        if value := request.headers.get(name):
            try:
                return value.encode("latin-1").decode("utf-8")  # clients send UTF-8, whatever the standard says
            except UnicodeError:
                return value
    return None


def _usable_name(name: str) -> str | None:
    try:
        return checked_name(name)
    except InputError:
        return None


def _is_loopback(host: str | None) -> bool:
    """Whether a host, with or without a port, is this machine."""
    name = host or ""
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.casefold() == "localhost"


def identified(request: Request) -> Caller:
    """Who is calling.

    Raises:
        ApiError: 401 without a valid key where keys are in use; 403 where there are none and the call comes from another
            machine, or from another site through a browser on this one.
    """
    keys = request.app.state.service.keys
    if not keys.in_use():
        origin = request.headers.get("origin", "")
        client = request.client.host if request.client else ""
        local = _is_loopback(request.headers.get("host")) and _is_loopback(client)
        if not local or (origin and not _is_loopback(origin.partition("//")[2])):
            raise ApiError(
                403, "this server has no keys and answers on its own machine only; make one with `ld-agent keys create`"
            )
        return LOCAL
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.casefold() == "bearer" else ""
    found = keys.find(token) if token else None
    if found is None:
        raise ApiError(
            401, "no valid API key; send it as `Authorization: Bearer KEY`", "invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip
    return Caller(found.tenant, found.scopes, found.prefix, found.rate)


def needs(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """The dependency of a route: the caller, who has the scope and keeps to the rate."""

    async def admitted(request: Request) -> Caller:
        caller = identified(request)
        request.state.caller = caller
        if not caller.may(scope):
            raise ApiError(
                403,
                f"this key has the scopes {', '.join(caller.scopes)}, not {scope}; use another key",
                "missing_scope",
            )
        request.app.state.rates.count(caller)
        return caller

    return admitted


ChatCaller = Annotated[Caller, Depends(needs("chat"))]
MemoryCaller = Annotated[Caller, Depends(needs("memory"))]
AdminCaller = Annotated[Caller, Depends(needs("admin"))]
Person = Annotated[str, Path(min_length=1, max_length=LONGEST, description="The person's id.", examples=["ann"])]
