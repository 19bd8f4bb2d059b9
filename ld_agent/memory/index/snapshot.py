"""Serializes the numbers of an index, to store them and load them at the next start. Plain arrays; nothing is executed.

Knows arrays and lists of numbers by word, but not their meaning.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""


def as_array(texts: Iterable[str]) -> NDArray[np.uint8]:
    """Texts without line breaks as one array of bytes."""
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def as_texts(packed: NDArray[np.uint8]) -> list[str]:
    """The texts of `as_array`; none of them is empty."""
    return packed.tobytes().decode().split("\n") if len(packed) else []


def packed(lists: Mapping[str, array[int]], name: str, kind: str = "I") -> Arrays:
    """Lists of numbers by word as three arrays.

    Args:
        kind: type code of the lists, the same for `array` and numpy.
    """
    ends = np.cumsum([0, *map(len, lists.values())], dtype=np.int64)
    numbers = np.frombuffer(b"".join(values.tobytes() for values in lists.values()), kind)
    return {f"{name}.words": as_array(lists), f"{name}.ends": ends, f"{name}.numbers": numbers}


def unpacked(arrays: Arrays, name: str, kind: str = "I") -> dict[str, array[int]]:
    """The lists of `packed`."""
    numbers, ends = arrays[f"{name}.numbers"], arrays[f"{name}.ends"].tolist()
    raw, size = numbers.tobytes(), numbers.itemsize
    return {
        word: array(kind, raw[start * size : end * size])
        for word, start, end in zip(as_texts(arrays[f"{name}.words"]), ends, ends[1:], strict=False)
    }


def to_bytes(arrays: Arrays) -> bytes:
    """Arrays as bytes."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def from_bytes(data: bytes) -> Arrays:
    """The arrays of `to_bytes`.

    Raises:
        ValueError: other bytes.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, EOFError, KeyError) as exc:
        raise ValueError(f"not an index snapshot ({exc})") from exc
