"""The store in a PostgreSQL database. `ld_agent.storage.store` has the statements."""

from __future__ import annotations

from ld_agent.storage.database import TurnLock
from ld_agent.storage.postgres.connection import CONNECTIONS, WAIT_SECONDS, PostgresConnection, schema_version
from ld_agent.storage.postgres.turns import ConversationLock
from ld_agent.storage.store import Store


class PostgresStore(Store):
    """See `ld_agent.storage.store.Store`. Any number of processes on any number of machines may use one database.

    Args: as `PostgresConnection`.

    Raises:
        StoreError: see `PostgresConnection`.
    """

    db: PostgresConnection
    schema_version = staticmethod(schema_version)

    def __init__(
        self, address: str, wait_seconds: float = WAIT_SECONDS, connections: int = CONNECTIONS, create: bool = True
    ) -> None:
        super().__init__(PostgresConnection(address, wait_seconds, connections, create))

    def turn_lock(self, key: int) -> TurnLock:
        return ConversationLock(self.db.turns, key, self.db.errors)

    def delete_conversation(self, key: int) -> None:
        """Remove every row of a conversation. PostgreSQL reclaims the space at the next vacuum."""
        with self.db.transaction(key):
            self.db.of(key).execute("DELETE FROM conversation WHERE pk = ?", (key,))
        self.db.written.pop(key, None)
