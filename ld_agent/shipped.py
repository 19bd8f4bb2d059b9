"""Locate the files shipped with the package: inside it when installed, next to it in a checkout."""

from __future__ import annotations

from pathlib import Path


def shipped_path(relative: str) -> Path:
    """Return the path of a shipped file or folder, such as ``configs/agent`` or ``data/samples``."""
    package = Path(__file__).parent
    installed = package / "shipped" / relative
    return installed if installed.exists() else package.parent / relative


def named_path(reference: str) -> Path:
    """Resolve a path in a config: ``shipped:PATH`` is relative to the shipped ``data`` folder."""
    if reference.startswith("shipped:"):
        return shipped_path(f"data/{reference.removeprefix('shipped:')}")
    return Path(reference).expanduser()
