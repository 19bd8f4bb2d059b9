"""Login sessions of the page: a key is exchanged for a cookie, and every form carries a token unknown to other
sites."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from email.parser import HeaderParser
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.responses import Response

from ld_agent.server.errors import ApiError
from ld_agent.server.identity import LOCAL, Caller, identified
from ld_agent.storage.served import ApiKey, Keys

COOKIE = "ld_agent_session"
SECONDS = 8 * 3600
LONGEST_HEAD = 4096
"""Bytes of a part's headers."""


class NotLoggedInError(Exception):
    """A page was requested without a session."""


@dataclass(frozen=True, slots=True)
class Login:
    """One browser's session. It ends with its key."""

    caller: Caller
    csrf: str
    ends: float


class Logins:
    """The sessions of this process; they end with a restart."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._sessions: dict[str, Login] = {}
        self._local = Login(LOCAL, secrets.token_urlsafe(), float("inf"))

    def begin(self, key: ApiKey, response: Response, secure: bool) -> None:
        """Log in with a valid key."""
        now = time.monotonic()
        self._sessions = {token: login for token, login in self._sessions.items() if login.ends > now}
        token = secrets.token_urlsafe(32)
        self._sessions[token] = Login(Caller.of(key), secrets.token_urlsafe(), now + SECONDS)
        response.set_cookie(COOKIE, token, max_age=SECONDS, httponly=True, samesite="strict", secure=secure)

    def end(self, request: Request, response: Response) -> None:
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        response.delete_cookie(COOKIE)

    def find(self, request: Request) -> Login:
        """The session of a request, unless there is none, it has ended, or its key was revoked or may not see the memory."""
        if not self._keys.in_use():
            identified(request)
            return self._local
        login = self._sessions.get(request.cookies.get(COOKIE, ""))
        if login is None or login.ends < time.monotonic() or not self._keys.valid(login.caller.key):
            raise NotLoggedInError
        if not login.caller.may("memory"):
            raise ApiError(403, "this key may not see the memory; log in with one that has the scope memory")
        return login


async def fields_of(request: Request) -> dict[str, str]:
    body, kind = await request.body(), request.headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        return await asyncio.to_thread(_parts, kind, body)
    return dict(parse_qsl(body.decode("utf-8", "replace")))


def _parts(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a form with a file, the file's name as "filename"; bytes that are not UTF-8 become surrogates.

    Only heads are parsed: a content is taken as it stands, whatever its type.
    """
    fields = dict[str, str]()
    boundary = HeaderParser().parsestr(f"Content-Type: {kind}").get_boundary() or ""
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1", "replace"))[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        named = HeaderParser().parsestr(head[:LONGEST_HEAD].decode("utf-8", "replace").lstrip())
        name = named.get_param("name", header="content-disposition")
        fields[str(name)] = content.decode("utf-8", "surrogateescape")
        if filename := named.get_filename():
            fields["filename"] = filename
    return fields


async def form_of(request: Request, login: Login) -> dict[str, str]:
    """The fields of a form, which must have been rendered in this session."""
    fields = await fields_of(request)
    if not secrets.compare_digest(fields.get("csrf", "").encode("utf-8", "replace"), login.csrf.encode()):
        raise ApiError(403, "this form is out of date; reload the page and try again", "invalid_csrf_token")
    return fields
