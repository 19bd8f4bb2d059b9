"""Files that ship with the package, and files a command writes where its user says: none overwrites a store or an input,
and each is written atomically.

Knows nothing of what the files contain, apart from the first bytes of a SQLite database.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ld_agent.errors import InputError

SQLITE_MAGIC = b"SQLite format 3\0"
COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite appends to a database's name for the files it keeps next to it."""


def shipped_path(relative: str) -> Path:
    """Return the path of a shipped file or folder, such as ``data/samples``: inside the installed package, or next to it."""
    package = Path(__file__).parent
    installed = package / "shipped" / relative
    return installed if installed.exists() else package.parent / relative


def named_path(reference: str) -> Path:
    """Resolve a path in a config: ``shipped:PATH`` is relative to the shipped ``data`` folder."""
    if reference.startswith("shipped:"):
        return shipped_path(f"data/{reference.removeprefix('shipped:')}")
    return Path(reference).expanduser()


def check_output(out: Path, inputs: Iterable[str | Path | None] = (), store: str | Path | None = None) -> None:
    """Refuse an output that would overwrite one of the command's inputs, its store or any SQLite file.

    Files are compared by resolved path and by inode, so that neither a symbolic nor a hard link gets past.

    Args:
        inputs: files the command reads; None is skipped, and so is a name that is not a file (a shipped config's).
        store: the command's store; None or ":memory:": it has none on disk.

    Raises:
        InputError: it would; names both.
    """
    for given in inputs:
        if given is not None and _same(out, Path(given)):
            raise InputError(f"the output {out} is the input {given}; give another file to write to")
    if store is not None and str(store) != ":memory:":
        database = Path(store)
        bases = {database, Path(os.path.realpath(database))}
        for file in (database, *(base.with_name(base.name + end) for base in bases for end in COMPANIONS)):
            if _same(out, file):
                raise InputError(f"the output {out} belongs to the store {database}; give another file to write to")
    for file in (out, Path(os.path.realpath(out))):
        databases = [file, *(Path(str(file).removesuffix(end)) for end in COMPANIONS if file.name.endswith(end))]
        if any(map(is_sqlite, databases)):
            raise InputError(f"the output {out} belongs to a SQLite database; give another file to write to")


def is_sqlite(path: Path) -> bool:
    """Whether a file begins like a SQLite database."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


@contextmanager
def written_atomically(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces ``path`` when the block ends well; otherwise ``path`` stays as it was.

    A symbolic link is followed. A device or a pipe is written to directly.

    Raises:
        InputError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("w", encoding="utf-8", newline="\n") as file:
                yield file
            return
        if target.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        unfinished = target.with_name(f".{uuid.uuid4().hex}.part")
        try:
            with unfinished.open("x", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, unfinished)
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise InputError(f"{path} cannot be written ({exc.strerror}); give a file in a writable folder") from exc


def write_text(path: Path, text: str) -> None:
    """Write a text file, none of a store's, atomically.

    Raises:
        InputError: it cannot be written.
    """
    check_output(path)
    with written_atomically(path) as file:
        file.write(text)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value for people to read; otherwise as `write_text`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write JSON lines; otherwise as `write_text`."""
    write_text(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def drop_unfinished_line(path: Path) -> bool:
    """Remove what a killed program left after the last line break of a file; return whether there was anything."""
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        os.truncate(path, end)
    return end < len(whole)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other) or os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return False
