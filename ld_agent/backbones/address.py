"""The address, API key and client of an endpoint. Opens no connection."""

from __future__ import annotations

import ipaddress
import os
from typing import Any
from urllib.parse import urlsplit

from ld_agent.errors import ModelError

CONNECT_SECONDS = 10.0
PLACEHOLDER_KEY = "no-key-needed"


def address(url: str) -> tuple[str, str]:
    """Return the endpoint without user, password or query, safe to display, and its host.

    Raises:
        ModelError: the URL is not an http address.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as exc:
        raise ModelError(
            f"backbone.base_url is not a URL ({exc}); expected something like http://localhost:8000/v1"
        ) from exc
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ModelError(
            f"backbone.base_url={url!r} is not an http address; expected something like http://localhost:8000/v1"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/"), parts.hostname


def _is_private(host: str) -> bool:
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return number.is_private or number.is_loopback


def key(variable: str, host: str, endpoint: str) -> str:
    """Return the key from an environment variable, or a placeholder for a local or private host.

    Raises:
        ModelError: a public host needs a key and none is set, or the key has invalid characters.
    """
    value = os.environ.get(variable, "").strip()
    if not value and _is_private(host):
        return PLACEHOLDER_KEY
    if not value:
        raise ModelError(f"{endpoint} needs a key, but the environment variable {variable} is not set; export it")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ModelError(f"the key in the environment variable {variable} has invalid characters; export it again")
    return value


def client(key: str, url: str, timeout: float) -> Any:
    """Return OpenAI's client of an endpoint."""
    import openai

    return openai.AsyncOpenAI(
        api_key=key,
        base_url=url,
        # _call keeps the deadline of an answer: the client's timeout restarts with every keep-alive byte.
        timeout=openai.Timeout(None, connect=min(timeout, CONNECT_SECONDS)),
        # The client's retries cannot be interrupted or told from a timeout, and ignore `Retry-After: 0`.
        max_retries=0,
    )
