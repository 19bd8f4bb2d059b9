"""Where an endpoint is and by which key it is asked. Opens no connection."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from ld_agent.errors import ModelError

PLACEHOLDER_KEY = "no-key-needed"


def address(url: str) -> tuple[str, str]:
    """The endpoint as it may be shown, without user, password or query, and its host.

    Raises:
        ModelError: it is no http address.
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as exc:
        raise ModelError(f"backbone.base_url is no address ({exc}); write it like http://localhost:8000/v1") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ModelError(f"backbone.base_url={url!r} is no http address; write it like http://localhost:8000/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/"), parts.hostname


def _is_private(host: str) -> bool:
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return number.is_private or number.is_loopback


def key(variable: str, host: str, endpoint: str) -> str:
    """The key that an environment variable holds; a placeholder for a host on this machine or in a private network.

    Raises:
        ModelError: another host needs a key and there is none, or it holds characters that no key has.
    """
    found = os.environ.get(variable, "").strip()
    if not found and _is_private(host):
        return PLACEHOLDER_KEY
    if not found:
        raise ModelError(f"{endpoint} needs a key and the environment variable {variable} holds none; export it")
    if not found.isascii() or not found.isprintable() or " " in found:
        raise ModelError(f"the environment variable {variable} holds characters that no key has; export it anew")
    return found
