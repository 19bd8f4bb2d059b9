"""Where the files that travel with the package are: inside it when installed, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path


def shipped_path(relative: str) -> Path:
    """Return the path of a shipped file or folder, such as ``configs/agent`` or ``data/samples``."""
    package = Path(__file__).parent
    installed = package / "shipped" / relative
    return installed if installed.exists() else package.parent / relative


def named_path(reference: str) -> Path:
    """The path that a config names: ``shipped:PATH``, what came with the package under ``data``, or a path as it stands."""
    if reference.startswith("shipped:"):
        return shipped_path(f"data/{reference.removeprefix('shipped:')}")
    return Path(reference).expanduser()
