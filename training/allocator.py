"""The C library's allocator, told to keep what a training step gives back: the next step wants the same again.

By default every tensor over some megabytes is a mapping of its own, whose pages the kernel clears anew each time; a third of
a step on a CPU went into that. What is kept falls into pieces, though, and a process whose steps are of many sizes grows for as
long as it lives: every now and then all of it is given back.
"""

from __future__ import annotations

import ctypes
import platform

# Parameters of glibc's mallopt
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> bool:
    """Keep freed memory in the process for as long as it lives; returns whether this C library can (glibc can)."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(
        mallopt(parameter, value)
        for parameter, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, 2**31 - 1), (TOP_PAD, 2**28), (ARENA_MAX, 1))
    )


def give_back_freed_memory() -> None:
    """Give the system what is free in this process, between other things too; half a second for some gigabytes."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
