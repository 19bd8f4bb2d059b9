"""Bulk-loads synthetic conversations into PostgreSQL by COPY, for measurements only.

Needs a superuser: COPY does not work with policies, and triggers and references are disabled while it runs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import psycopg

from ld_agent.errors import StoreError
from ld_agent.storage.address import shown
from ld_agent.storage.postgres_schema import SCHEMA

NUMBERED = {
    "conversation": "conversation_pk_seq",
    "utterance": "utterance_pk",
    "record": "record_pk",
    "trait": "trait_pk",
}
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Header of a binary COPY, without flags or extension."""
INT8, INT2, LENGTH = struct.Struct("!iq").pack, struct.Struct("!ih").pack, struct.Struct("!i").pack


def int8(value: int) -> bytes:
    """A bigint as a field of a binary COPY; the functions below do the same for other types."""
    return INT8(8, value)


def int2(value: int) -> bytes:
    return INT2(2, value)


def text(value: str) -> bytes:
    return data(value.encode())


def jsonb(value: str) -> bytes:
    return data(b"\x01" + value.encode())


def data(value: bytes) -> bytes:
    return LENGTH(len(value)) + value


def vector(big_endian: bytes) -> bytes:
    """A vector as pgvector takes it, given as big-endian float32."""
    return data(struct.pack("!hh", len(big_endian) // 4, 0) + big_endian)


class Loader:
    """Puts rows into the tables of a store that exists.

    Raises:
        StoreError: no server, or not a superuser.
    """

    def __init__(self, address: str) -> None:
        try:
            self._db = psycopg.connect(address)
            self._db.execute(f"SET search_path = {SCHEMA}, public")
            self._db.execute("SET session_replication_role = replica")
            self._db.commit()
        except psycopg.Error as exc:
            reason = " ".join(str(exc).split())
            raise StoreError(f"{shown(address)}: cannot load by COPY ({reason}); give a superuser's address") from exc

    def people(self) -> int:
        """How many conversations are stored."""
        [count] = self._db.execute("SELECT count(*) FROM conversation").fetchone() or (0,)
        return int(count)

    def next_keys(self) -> dict[str, int]:
        """For each table, the primary key of its next row."""
        keys = {}
        for table in NUMBERED:
            [last] = self._db.execute(f"SELECT coalesce(max(pk), 0) FROM {table}".encode()).fetchone() or (0,)
            keys[table] = int(last) + 1
        return keys

    def load(self, tables: Mapping[str, tuple[str, Iterable[bytes]]]) -> None:
        """Store rows of several tables atomically.

        Args:
            tables: by name, the columns separated by spaces, and the rows as concatenated fields.
        """
        for table, (columns, rows) in tables.items():
            names = columns.split()
            count = struct.pack("!h", len(names))
            statement = f"COPY {table} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)"
            with self._db.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                copy.write(
                    SIGNATURE + count + count.join(rows) + struct.pack("!h", -1) if rows else SIGNATURE + b"\xff\xff"
                )
        self._db.commit()

    def finish(self) -> None:
        """Advance the sequences past the last keys, and update the planner's statistics."""
        for table, sequence in NUMBERED.items():
            self._db.execute(f"SELECT setval('{sequence}', greatest((SELECT max(pk) FROM {table}), 1))".encode())
        self._db.commit()
        self._db.autocommit = True
        self._db.execute("VACUUM ANALYZE")
        self._db.autocommit = False

    def size(self) -> dict[str, int]:
        """Bytes of the database, and of its tables that grow, indexes included."""
        parts = "SELECT relid FROM pg_partition_tree(%s) UNION SELECT %s::regclass"
        sizes = {}
        for table in ("utterance", "record", "passage", "trait", "session", "digested"):
            query = f"SELECT sum(pg_total_relation_size(relid)) FROM ({parts}) AS parts"
            [size] = self._db.execute(query.encode(), (table, table)).fetchone() or (0,)
            sizes[table] = int(size or 0)
        [whole] = self._db.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
        return {"database": int(whole), **sizes}

    def close(self) -> None:
        self._db.close()
