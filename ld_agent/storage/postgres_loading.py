"""Loads many made-up conversations into PostgreSQL at once, by COPY: for measurements, not for anything that was said.

Needs a superuser: COPY passes no policy, and the triggers and references are left out while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.types import TypeInfo

from ld_agent.errors import StoreError
from ld_agent.storage.address import shown
from ld_agent.storage.postgres_connection import SCHEMA
from ld_agent.storage.postgres_values import value_adapters

NUMBERS = "pk conversation session number first since through utterances records traits at last_at mentions"
TYPES = dict.fromkeys(NUMBERS.split(), "int8") | dict.fromkeys(("closed", "extracted"), "int2")
"""Of each column that is neither text nor a vector."""
NUMBERED = {
    "conversation": "conversation_pk_seq",
    "utterance": "utterance_pk",
    "record": "record_pk",
    "trait": "trait_pk",
}


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
            vector = TypeInfo.fetch(self._db, "vector")
        except psycopg.Error as exc:
            reason = " ".join(str(exc).split())
            raise StoreError(f"{shown(address)}: cannot load by COPY ({reason}); give a superuser's address") from exc
        assert vector is not None
        self._oids = {"vector": vector.oid}
        value_adapters(vector)(self._db)

    def people(self) -> int:
        """How many conversations are stored."""
        [count] = self._db.execute("SELECT count(*) FROM conversation").fetchone() or (0,)
        return int(count)

    def next_keys(self) -> dict[str, int]:
        """By table, the primary key that its next row is to get."""
        keys = {}
        for table in NUMBERED:
            [last] = self._db.execute(f"SELECT coalesce(max(pk), 0) FROM {table}".encode()).fetchone() or (0,)
            keys[table] = int(last) + 1
        return keys

    def load(self, tables: Mapping[str, tuple[Sequence[str], Iterable[Sequence[Any]]]]) -> None:
        """Store columns and rows of some tables, together or not at all."""
        for table, (columns, rows) in tables.items():
            statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
            with self._db.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                copy.set_types([self._oids.get(column) or TYPES.get(column, "text") for column in columns])
                for row in rows:
                    copy.write_row(row)
        self._db.commit()

    def finish(self) -> None:
        """Go on numbering after the last key, and let the planner know the tables."""
        for table, sequence in NUMBERED.items():
            self._db.execute(f"SELECT setval('{sequence}', greatest((SELECT max(pk) FROM {table}), 1))".encode())
        self._db.commit()
        self._db.autocommit = True
        self._db.execute("VACUUM ANALYZE")

    def size(self) -> dict[str, int]:
        """Bytes of the database, and of its tables that grow, indexes included."""
        parts = "SELECT relid FROM pg_partition_tree(%s) UNION SELECT %s::regclass"
        sizes = {}
        for table in ("utterance", "record", "trait", "session", "digested"):
            query = f"SELECT sum(pg_total_relation_size(relid)) FROM ({parts}) AS parts"
            [size] = self._db.execute(query.encode(), (table, table)).fetchone() or (0,)
            sizes[table] = int(size or 0)
        [whole] = self._db.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
        return {"database": int(whole), **sizes}

    def close(self) -> None:
        self._db.close()
