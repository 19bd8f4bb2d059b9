"""Converts values to PostgreSQL and back: encodes what SQLite can store and PostgreSQL cannot.

A text may contain NUL, which PostgreSQL refuses: it is stored as U+001A followed by 0, and U+001A itself as U+001A
followed by 1. A vector is passed as packed little-endian float32 and stored as pgvector's type. That type has no empty
vector; a one-dimensional one represents it, since no encoder has a single dimension.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from psycopg import Connection
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo
from psycopg.types.string import TextBinaryLoader

ESCAPE = "\x1a"
PLACEHOLDER = re.compile(r"\?(\d*)")
HINT = re.compile(r" INDEXED BY \w+|(?<= )\+(?=conversation\b)")
"""Hints that keep SQLite on the right index; here the conversation selects the partition."""


class PackedVector(bytes):
    """A packed float32 vector to be stored as pgvector's type."""


def statement(sql: str) -> str:
    """Convert shared SQL to PostgreSQL's placeholders, and remove SQLite's hints."""
    counter = iter(range(1, sql.count("?") + 1))
    return PLACEHOLDER.sub(lambda match: f"${match[1] or next(counter)}", HINT.sub("", sql))


def bound(value: Any) -> Any:
    """Convert a value of the shared SQL for PostgreSQL: flags become numbers, NUL in texts is escaped."""
    if isinstance(value, str):
        if "\0" in value or ESCAPE in value:
            return value.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
        return value
    if isinstance(value, bool):
        return int(value)
    return [bound(element) for element in value] if isinstance(value, list) else value


class _TextLoader(TextBinaryLoader):
    def load(self, data: Any) -> Any:
        text = super().load(data)
        if isinstance(text, str) and ESCAPE in text:
            return re.sub(f"{ESCAPE}([01])", lambda match: "\0" if match[1] == "0" else ESCAPE, text)
        return text


class _VectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> bytes:
        content = bytes(data)
        if content[:2] == b"\x00\x01":
            return b""
        return np.frombuffer(content, ">f4", offset=4).astype("<f4").tobytes()


def value_adapters(vector: TypeInfo) -> Callable[[Connection[Any]], None]:
    """Return the adapters that a connection needs for these values; ``vector`` is pgvector's type in the database."""

    class VectorDumper(Dumper):
        format = Format.BINARY
        oid = vector.oid

        def dump(self, obj: PackedVector) -> bytes:
            values = np.frombuffer(obj or b"\0\0\0\0", "<f4")
            return struct.pack(">HH", len(values), 0) + values.astype(">f4").tobytes()

    def adapt(connection: Connection[Any]) -> None:
        connection.adapters.register_dumper(PackedVector, VectorDumper)
        connection.adapters.register_loader(vector.oid, _VectorLoader)
        for name in ("text", "varchar"):
            connection.adapters.register_loader(name, _TextLoader)

    return adapt
