"""Returns memory that was freed but is retained by the C library to the system. Knows nothing else."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def return_free_memory() -> None:
    """Return memory freed but retained by glibc to the system: with many threads, over a hundred megabytes."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
