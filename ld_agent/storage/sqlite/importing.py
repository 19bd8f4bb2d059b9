"""Import into a SQLite file that may not exist yet: a failed import leaves no new file."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from ld_agent.errors import StoreError
from ld_agent.storage.exchange import import_file
from ld_agent.storage.sqlite.store import Store


def import_into_file(path: Path, source: Path) -> int:
    """Import into the store in a file. Where there is none, it appears when the import has succeeded, and not before.

    Raises: as `import_file`; StoreError also where another process made the store in the meantime.
    """
    if path.exists():
        with closing(Store(path)) as store:
            return import_file(store, source)
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}; create it, or give another --store")
    try:
        with TemporaryDirectory(prefix=".import-", dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            with closing(Store(unfinished)) as store:
                count = import_file(store, source)
            os.link(unfinished, path)  # unlike a rename, it never replaces a file
    except FileExistsError as exc:
        raise StoreError(f"{path} was created by another process during the import; run the command again") from exc
    except OSError as exc:
        raise StoreError(f"{path} cannot be created ({exc.strerror}); give a --store in a writable folder") from exc
    return count
