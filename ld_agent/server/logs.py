"""One log line per request, as text or JSON: route, duration, tenant. Never contains messages, person ids or keys."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("ld_agent.server")
Count = Callable[[str, str, int, float], None]
"""Called with method, route, status and seconds of a request."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OTHER = "other"
"""Stands for every method that a client invents: each would have a row of its own in the metrics for ever."""
FIELDS = ("method", "route", "status", "ms", "key")


class Logged:
    """ASGI middleware that logs and counts each request when its answer has been sent."""

    def __init__(self, app: ASGIApp, count: Count) -> None:
        self._app, self._count = app, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:  # of the server's own tasks only, when it stops and a model does not answer
            log.warning("the server stopped before this was answered")
        except Exception:
            status = status or 500  # it is sent from further out
            raise
        finally:
            seconds = time.perf_counter() - begun
            route = getattr(scope.get("route"), "path", "-")
            method = scope["method"] if scope["method"] in METHODS else OTHER
            self._count(method, route, status, seconds)
            caller = scope.get("state", {}).get("caller")
            values = (method, route, status, round(seconds * 1000, 1), caller.key if caller else "-")
            log.info("request", extra=dict(zip(FIELDS, values, strict=True)))


class Lines(logging.Formatter):
    """Formats a record as one line."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        message, level = record.getMessage(), record.levelname.lower()
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        error = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            values = {"at": at, "level": level, "message": message, **fields}
            return json.dumps(values | ({"error": error} if error else {}), ensure_ascii=False)
        shown = " ".join(f"{name}={value}" for name, value in fields.items())
        return f"{at} {level} {message} {shown}".rstrip() + (f"\n{error}" if error else "")


def configure(as_json: bool) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json))
    for name in ("ld_agent.server", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "ld_agent.server" else logging.WARNING)
