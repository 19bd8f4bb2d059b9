"""Limits on the size and duration of request bodies, requests per minute and concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ld_agent.server.errors import ApiError
from ld_agent.server.identity import Caller

JSON_METHODS = ("POST", "PUT", "PATCH")
MOST = 2 * 2**20
"""Maximum number of bytes of a body without media."""
MOST_WITH_MEDIA = 16 * 2**20
MEDIA = (b";base64,", b'"input_audio"', b'"file_data"')
DRAINED = 64 * 2**20
"""Bytes of an oversized body that are read and discarded, so that the client receives the error."""


class Bodies:
    """ASGI middleware that reads each body, within its limits, before anything else sees the request.

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
            body = await asyncio.wait_for(self._read(receive), self._patience)
        except TimeoutError:
            refusal = ApiError(408, f"the request did not arrive within {self._patience:g} seconds", "too_slow")
            await _refuse(refusal, scope, receive, send)
        except ApiError as exc:
            await _refuse(exc, scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, _replayed(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None: the client disconnected."""
        parts, size = list[bytes](), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            more, body = message.get("more_body"), b""
            if size <= MOST_WITH_MEDIA:
                parts.append(part)
                body = body if more else b"".join(parts)
            allowed = MOST_WITH_MEDIA if more or any(mark in body for mark in MEDIA) else MOST
            if size > (DRAINED if more else allowed):
                raise ApiError(413, f"the body has more than {allowed} bytes; send less", "body_too_large")
            if not more:
                return body


def _check_content_type(scope: Scope) -> None:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if scope["method"] not in JSON_METHODS or not scope["path"].startswith("/v1/") or not has_body:
        return
    wanted = "application/x-ndjson" if scope["path"].endswith("/import") else "application/json"
    if kind != wanted:
        raise ApiError(415, f"the content type is {kind or 'missing'}; send {wanted}", "wrong_content_type")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, followed by the client's further messages."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse(error.body, error.status, {"Connection": "close"})(scope, receive, send)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Rates:
    """Limits requests per minute of each key: a token bucket that holds a minute's worth and fills evenly.

    Args:
        rate: for keys without their own rate.
        clock: monotonic seconds.
    """

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, _Bucket] = {}

    def count(self, caller: Caller) -> None:
        """Count a request.

        Raises:
            ApiError: 429 with Retry-After: the bucket is empty.
        """
        rate, now = caller.rate or self._rate, self._clock()
        bucket = self._buckets.setdefault(caller.key, _Bucket(rate, now))
        bucket.tokens = min(rate, bucket.tokens + (now - bucket.at) * rate / 60)
        bucket.at = now
        if bucket.tokens < 1:
            seconds = max(1, round((1 - bucket.tokens) * 60 / rate + 0.5))
            raise ApiError(
                429,
                f"more than {rate} requests per minute; try again in {seconds} s",
                "rate_limit_exceeded",
                headers={"Retry-After": str(seconds)},
            )
        bucket.tokens -= 1


class Places:
    """Limits the number of concurrent requests."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def take(self) -> None:
        """Take a slot; release it with `leave`.

        Raises:
            ApiError: 429 with Retry-After: all are taken.
        """
        if self.taken >= self.most:
            raise ApiError(
                429,
                f"{self.most} requests are in progress; try again in a moment",
                "overloaded",
                headers={"Retry-After": "1"},
            )
        self.taken += 1

    def leave(self) -> None:
        self.taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.leave()
