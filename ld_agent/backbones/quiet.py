"""What libraries do to a process unasked: bars, warnings and long errors on the screen, memory that is freed but kept."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers and retries of the hub client within the block."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    transformers_logging: Any = logging
    hub_logging: Any = hub
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    hub_verbosity = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        hub_logging.set_verbosity(hub_verbosity)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def first_line(exc: BaseException) -> str:
    """Return what an exception says, in one line of at most 200 characters."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0][:200]


def return_free_memory() -> None:
    """Return memory freed but retained by glibc to the system: with many threads, over a hundred megabytes."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
