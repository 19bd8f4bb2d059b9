"""The place of a store, a file or a ``postgresql://`` address, and the store opened there by the right engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ld_agent.errors import StoreError
from ld_agent.storage.address import is_address, shown
from ld_agent.storage.redaction import Secrets

if TYPE_CHECKING:
    from ld_agent.storage.postgres.store import PostgresStore
    from ld_agent.storage.store import Store


def open_store(path: str | Path, redact: str | None = None) -> Store:
    """Open a store, or create it.

    Args:
        redact: ``store.redact``.

    Raises:
        StoreError: it cannot be opened, or the engine of its address is not installed.
    """
    if not str(path).strip():
        raise StoreError("the store has no name: nothing would be kept; give a file or a postgresql:// address")
    if is_address(path):
        store: Store = _postgres(path)(str(path))
    else:
        from ld_agent.storage.sqlite.store import SQLiteStore

        store = SQLiteStore(path)
    if redact is not None:
        store.redaction = Secrets()
    return store


def existing_store(path: str | Path) -> Store:
    """Open an existing store; inspecting one never creates it.

    Raises:
        StoreError: as `open_store`, or there is none.
    """
    if is_address(path):
        return _postgres(path)(str(path), create=False)
    if not Path(path).is_file():
        raise StoreError(f"no memory file {path}; give the --store of an earlier chat or run")
    return open_store(path)


def schema_version(path: str | Path) -> str | None:
    """Which version of how many a store is in, read without changing it; None: there is none.

    Raises:
        StoreError: it is not a store, or cannot be read.
    """
    if is_address(path):
        versions = _postgres(path).schema_version(str(path))
    else:
        from ld_agent.storage.sqlite.connection import version_of

        versions = version_of(Path(path).absolute()) if Path(path).exists() else None
    return "version {} of {}".format(*versions) if versions else None


def _postgres(address: str | Path) -> type[PostgresStore]:
    try:
        from ld_agent.storage.postgres.store import PostgresStore
    except ImportError as exc:
        raise StoreError(
            f"{shown(address)}: PostgreSQL needs further packages ({exc}); run: pip install 'ld_agent[postgres]'"
        ) from exc
    return PostgresStore
