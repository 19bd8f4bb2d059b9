"""The place of a store: a file, or a server's address, with or without its password. Pure."""

from __future__ import annotations

import re
from pathlib import Path

SCHEMES = ("postgresql://", "postgres://")


def is_address(path: str | Path) -> bool:
    """Whether a store's path is a server's address rather than a file."""
    return str(path).startswith(SCHEMES)


def shown(address: str | Path) -> str:
    """A store's path without password, safe for messages and logs."""
    if not is_address(address):
        return str(address)
    scheme, _, rest = str(address).partition("://")
    rest = re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1…", rest)
    netloc, slash, path = rest.partition("/")
    if "@" not in netloc:  # a "/", "?" or "#" of a password that is not percent-encoded ends the host's part too early
        netloc, slash, path = (rest, "", "") if re.search(r"^[^/?@:]*:[^@]*@", rest) else (netloc, slash, path)
    user, at, host = netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{colon and ':…'}{at}{host}{slash}{path}"
