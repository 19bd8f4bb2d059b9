"""Export and import of a store as JSON lines: everything that was said and remembered, without vectors, independent of
the database. Importing an export and exporting again gives the same bytes. A file cannot prove where it comes from, so an
import takes what it says as it stands, channels included, as a backup must.

Line 1 is ``{"format": "ld_agent.memory", "version": 2}``. Then, conversation by conversation in the order of their ids,
one ``conversation`` line is followed by its ``session``, ``enabled`` (from which session on a view digests), ``digested`` (a
view has digested a session), ``utterance``, ``observed`` (a view has observed an utterance), ``record``, ``trait``, ``change``
(an edit, pin or removal by a person) and ``recall`` (a reply recalled a record) lines in the order of storing; ``kind`` names
each. Times are ISO 8601 in UTC. The last line is ``{"kind": "end", "counts": {KIND: number of lines, ...}}``: a file without
it was truncated. Vectors are recomputed from the texts when the store is next used.

Version 1 had no last line, and no threads, pins or changes. It can still be imported if each conversation has as many
utterances as its first line says. This detects any truncation except after the last utterance of the last conversation,
which only loses records and traits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ld_agent.errors import DataFileError, StoreError
from ld_agent.storage.address import is_address
from ld_agent.storage.importing import HEADER, Import, line_of
from ld_agent.storage.opening import open_store
from ld_agent.storage.rows import COLUMNS, StoredConversation
from ld_agent.storage.store import Store
from ld_agent.types import iso

AHEAD = timedelta(days=1)
"""How far the clock of the machine that made an export may be ahead."""

# ---- export


def export_lines(store: Store, conversation_id: str | None = None) -> Iterator[str]:
    """Lines of the export, without line ends: the whole store, or one conversation.

    Each conversation is read as of one moment, whatever other processes write in between.

    Raises:
        StoreError: no such conversation.
    """
    chosen = store.conversations() if conversation_id is None else [found_conversation(store, conversation_id)]
    yield line_of(HEADER)
    counts: Counter[str] = Counter()
    for conversation in chosen:
        with store.reading():
            rows = list(_conversation_rows(store, conversation))
        counts.update(row["kind"] for row in rows)
        yield from map(line_of, rows)
    yield line_of({"kind": "end", "counts": {kind: counts[kind] for kind in ("conversation", *COLUMNS)}})


def _conversation_rows(store: Store, conversation: StoredConversation) -> Iterator[dict[str, Any]]:
    counters = store.counters(conversation.key)
    if not counters:  # deleted since the list was made
        return
    yield {"kind": "conversation", "id": conversation.id, "agent": conversation.agent} | counters
    for kind in COLUMNS:
        for row in store.rows(conversation.key, kind):
            yield {"kind": kind} | {c: iso(value) if isinstance(value, datetime) else value for c, value in row.items()}


def found_conversation(store: Store, conversation_id: str) -> StoredConversation:
    """Find a conversation.

    Raises:
        StoreError: it is not there; names those that are.
    """
    conversation = store.find_conversation(conversation_id)
    if conversation is None:
        known = ", ".join(c.id for c in store.conversations()[:10]) or "none"
        raise StoreError(f"{store.path} has no conversation {conversation_id!r}; it has: {known}")
    return conversation


# ---- import


def import_file(store: Store, path: Path) -> int:
    """Import every conversation of an export, all of them or none; returns how many.

    Raises:
        DataFileError: a line that is not of the format, or a file that was cut; names file and line.
        StoreError: a conversation of the file is in the store already.
    """
    try:
        with path.open("rb") as lines, store.writing(None):
            return Import(store, path, latest=datetime.now(UTC) + AHEAD).take_all(lines)
    except OSError as exc:
        raise DataFileError(path, None, f"cannot be read ({exc}); give an export of `ld-agent memory export`") from exc


def import_into(place: str | Path, source: Path, redact: str | None = None) -> int:
    """Import into the store at a path or address. A missing file appears when the import has succeeded, and not before.

    Args:
        redact: ``store.redact``.

    Raises: as `import_file`; StoreError also where another process made the file in the meantime.
    """
    path = Path(place)
    if is_address(place) or path.exists():
        with closing(open_store(place, redact)) as store:
            return import_file(store, source)
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}; create it, or give another --store")
    try:
        with TemporaryDirectory(prefix=".import-", dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            with closing(open_store(unfinished, redact)) as store:
                count = import_file(store, source)
            os.link(unfinished, path)  # unlike a rename, it never replaces a file
    except FileExistsError as exc:
        raise StoreError(f"{path} was created by another process during the import; run the command again") from exc
    except OSError as exc:
        raise StoreError(f"{path} cannot be created ({exc.strerror}); give a --store in a writable folder") from exc
    return count


def import_lines(
    store: Store, lines: Iterable[bytes], source: str, conversation_id: str, latest: datetime | None = None
) -> None:
    """Import an export of one conversation under another id, atomically; ``latest`` as for `Import`.

    Raises: as `import_file`; DataFileError also for more or fewer conversations.
    """
    with store.writing(None):
        if (count := Import(store, source, conversation_id, latest).take_all(lines)) != 1:
            raise DataFileError(source, None, f"holds {count} conversations; give an export of one")


# ---- copies


def copy_conversation(store: Store, conversation_id: str, names: Sequence[str]) -> None:
    """Store copies of a conversation under other ids, atomically.

    Raises:
        StoreError: no such conversation, or the new id is already in use.
    """
    lines = [line.encode() for line in export_lines(store, conversation_id)]
    with store.writing(None):
        for name in names:
            Import(store, store.path, name).take_all(lines)


def copy_store(source: Store, target: Store, advanced: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Copy every conversation that the target lacks; return the number copied.

    Each is copied atomically and verified before the next, so that interrupted copies resume. API keys are not copied.

    Args:
        advanced: called with how many conversations are done, of how many.

    Raises:
        StoreError: the target has a conversation with the same id but other content, or the copy differs.
    """
    if source.path == target.path:
        raise StoreError(f"{source.path} is both source and target; give another --to")
    chosen, copied = source.conversations(), 0
    for done, conversation in enumerate(chosen, 1):
        lines = list(export_lines(source, conversation.id))
        with target.writing(None):
            if target.find_conversation(conversation.id) is None:
                Import(target, source.path).take_all(line.encode() for line in lines)
                copied += 1
            if lines != list(export_lines(target, conversation.id)):
                raise StoreError(
                    f"conversation {conversation.id!r} of {target.path} differs from the one in {source.path}; "
                    "delete it there, or copy into another store"
                )
        advanced(done, len(chosen))
    return copied
