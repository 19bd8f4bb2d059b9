"""Where a store lies: a file, or a ``postgresql://`` address. Opens it with the engine that it names; knows no SQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from ld_agent.errors import StoreError

if TYPE_CHECKING:
    from ld_agent.storage.sql_store import SQLStore

SCHEMES = ("postgresql://", "postgres://")


def is_address(path: str | Path) -> bool:
    """Whether a store's path is a server's address rather than a file."""
    return str(path).startswith(SCHEMES)


def shown(address: str | Path) -> str:
    """A store's path as messages and logs may show it: without its password."""
    if not is_address(address):
        return str(address)
    try:
        parts = urlsplit(str(address))
    except ValueError:
        return str(address).partition("://")[0] + "://…"
    user, at, host = parts.netloc.rpartition("@")
    query = re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1…", parts.query)
    name, colon, _ = user.partition(":")
    return urlunsplit(parts._replace(netloc=f"{name}{colon and ':…'}{at}{host}", query=query))


def open_store(path: str | Path) -> SQLStore:
    """Open a store, or create it.

    Raises:
        StoreError: it cannot be opened, or the engine of its address is not installed.
    """
    if is_address(path):
        return _postgres(str(path), create=True)
    from ld_agent.storage.sqlite import Store

    return Store(path)


def existing_store(path: str | Path) -> SQLStore:
    """Open a store that is there; looking into one never creates it.

    Raises:
        StoreError: as `open_store`, or there is none.
    """
    if is_address(path):
        return _postgres(str(path), create=False)
    if not Path(path).is_file():
        raise StoreError(f"no memory file {path}; give the --store of an earlier chat or run")
    return open_store(path)


def _postgres(address: str, create: bool) -> SQLStore:
    try:
        from ld_agent.storage.postgres import PostgresStore
    except ImportError as exc:
        raise StoreError(
            f"{shown(address)}: PostgreSQL needs further packages ({exc}); run: pip install 'ld_agent[postgres]'"
        ) from exc
    return PostgresStore(address, create=create)
