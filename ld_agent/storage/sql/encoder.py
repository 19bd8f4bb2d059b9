"""The encoder of a store's vectors: registered once; vectors of others are rejected. Knows vectors, not records."""

from __future__ import annotations

import json

from ld_agent.errors import EncoderMismatchError
from ld_agent.storage.columns import Vector, json_text, vector_bytes
from ld_agent.storage.database import EVERYONE, Database


class NotedEncoder:
    """The part of a store that guards its vectors; see `ld_agent.storage.base.Store`."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._encoder: str | None = None

    def check_encoder(self, name: str, dimension: int) -> None:
        wanted = json_text({"dimension": dimension, "name": name})
        if self._noted() is None:
            self.db.acting_for(EVERYONE).execute(
                "INSERT INTO meta VALUES ('encoder', ?) ON CONFLICT DO NOTHING", (wanted,)
            )
        self._require(wanted)
        self._encoder = wanted

    def change_encoder(self, name: str, dimension: int) -> None:
        db = self.db.acting_for(EVERYONE)
        with db.transaction(alone=True):
            db.execute("DELETE FROM meta WHERE key = 'encoder'")
            for derived in ("passage", "snapshot"):
                db.execute(f"DELETE FROM {derived}")
            for table in ("record", "trait"):
                db.execute(f"UPDATE {table} SET vector = NULL")
            self.check_encoder(name, dimension)

    def without_vector(self) -> list[tuple[str, int, str]]:
        return [
            (table, pk, text)
            for table in ("record", "trait")
            for pk, text in self.db.acting_for(EVERYONE).rows(
                f"SELECT pk, text FROM {table} WHERE vector IS NULL ORDER BY pk"
            )
        ]

    def require_same_encoder(self) -> None:
        """Raise `EncoderMismatchError` if another process has changed the store's encoder."""
        if self._encoder is not None:
            self._require(self._encoder)

    def blob(self, vector: Vector | None) -> bytes | None:
        """A vector of the store's encoder as a statement parameter."""
        if vector is None:
            return None
        self.require_same_encoder()
        return vector_bytes(vector)

    def _noted(self) -> str | None:
        row = self.db.row("SELECT value FROM meta WHERE key = 'encoder'")
        return row[0] if row else None

    def _require(self, wanted: str) -> None:
        stored = self._noted()
        if stored is not None and stored != wanted:
            known, given = json.loads(stored), json.loads(wanted)
            path = self.db.path
            raise EncoderMismatchError(
                f"{path} was encoded by {known['name']} ({known['dimension']} dimensions), the config names "
                f"{given['name']} ({given['dimension']}); run `ld-agent memory reindex --store {path}` with this "
                f"config, or set encoder.model={known['name']}"
            )
