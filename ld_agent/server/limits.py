"""Limits on the size and duration of request bodies, requests per minute and concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ld_agent.errors import LDAgentError
from ld_agent.server.errors import SOON, ApiError, response_to
from ld_agent.server.identity import Caller, identified
from ld_agent.server.logins import NotLoggedInError

JSON_METHODS = ("POST", "PUT", "PATCH")
MOST = 16 * 2**20
"""Maximum number of bytes of a body."""
MOST_OF_STRANGER = 2**16
"""The same of a form by somebody who is not logged in."""
DRAINED = 64 * 2**20
"""Bytes of an oversized body that are read and discarded, so that the client receives the error."""
ATTEMPTS = 20
"""Attempts to log in, per minute and address."""
BUCKETS = 10_000
"""Keys and addresses whose requests are counted, before those that sent none for a minute are forgotten."""


class Bodies:
    """ASGI middleware that reads each body, within its limits, before anything else sees the request but its key.

    Args:
        patience: seconds for the whole body.
    """

    def __init__(self, app: ASGIApp, patience: float) -> None:
        self._app, self._patience = app, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _check_content_type(scope)
            limit = _limit(scope) if scope["method"] in JSON_METHODS else (MOST, None)
            body = await asyncio.wait_for(self._read(receive, *limit), self._patience)
        except (TimeoutError, ApiError, LDAgentError, NotLoggedInError) as exc:
            slow = ApiError(408, f"the request did not arrive within {self._patience:g} seconds", "too_slow")
            response = await response_to(Request(scope), slow if isinstance(exc, TimeoutError) else exc)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, _replayed(body, receive), send)

    async def _read(self, receive: Receive, most: int, refusal: Exception | None) -> bytes | None:
        """The body; None: the client disconnected. One with more bytes is refused, by an exception of its own if given."""
        parts, size, more = list[bytes](), 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size <= most:
                parts.append(part)
            elif not more or size > DRAINED:
                raise refusal or ApiError(413, f"the body has more than {most} bytes; send less", "body_too_large")
        return b"".join(parts)


def _limit(scope: Scope) -> tuple[int, Exception | None]:
    """The limit of a body, and how to refuse a larger one if not as too large; a stranger is refused before it takes memory, or
    has little."""
    request = Request(scope)
    if scope["path"].startswith("/v1/"):
        identified(request)
        return MOST, None
    try:
        request.app.state.logins.find(request)
    except ApiError:
        return MOST_OF_STRANGER, None
    except NotLoggedInError as exc:  # often of a session that has just ended, with a file to import
        return MOST_OF_STRANGER, None if scope["path"] == "/login" else exc
    return MOST, None


def _check_content_type(scope: Scope) -> None:
    headers = Headers(scope=scope)
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if scope["method"] not in JSON_METHODS or not scope["path"].startswith("/v1/") or not has_body:
        return
    wanted = "application/x-ndjson" if scope["path"].endswith("/import") else "application/json"
    if kind != wanted:
        raise ApiError(415, f"the content type is {kind or 'missing'}; send {wanted}", "wrong_content_type")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, followed by the client's further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


class Rates:
    """Limits requests per minute of each key: a token bucket that holds a minute's worth and fills evenly.

    Args:
        rate: for keys without their own rate.
        clock: monotonic seconds.
    """

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def count(self, caller: Caller) -> None:
        """Count a request, or refuse it if the bucket is empty."""
        self.count_of(caller.key, caller.rate)

    def count_of(self, whom: str, rate: int | None = None) -> None:
        """`count` by any name."""
        rate, now = rate or self._rate, self._clock()
        if len(self._buckets) > BUCKETS:  # those that are full again say nothing
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < 60}
        tokens, at = self._buckets.get(whom, (rate, now))
        tokens = min(rate, tokens + (now - at) * rate / 60)
        self._buckets[whom] = tokens - 1 if tokens >= 1 else tokens, now
        if tokens < 1:
            seconds = max(1, round((1 - tokens) * 60 / rate + 0.5))
            text = f"more than {rate} requests per minute; try again in {seconds} s"
            raise ApiError(429, text, "rate_limit_exceeded", headers={"Retry-After": str(seconds)})


class Places:
    """Limits the number of concurrent requests."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def take(self) -> None:
        """Take a slot, to be released with `leave`, or refuse if all are taken."""
        if self.taken >= self.most:
            text = f"{self.most} requests are in progress; try again in a moment"
            raise ApiError(429, text, "overloaded", headers=SOON)
        self.taken += 1

    def leave(self) -> None:
        self.taken -= 1
