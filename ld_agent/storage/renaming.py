"""Renaming the agent of a stored conversation. Changes who speaks, never what was said."""

from __future__ import annotations

from ld_agent.errors import InputError
from ld_agent.storage.base import StoredConversation
from ld_agent.storage.sqlite import Store
from ld_agent.types import checked_name


def rename_agent(store: Store, conversation: StoredConversation, name: str) -> None:
    """Give the agent of a conversation another name, in its utterances and traits too.

    Raises:
        InputError: an unusable name, or that of someone else who has spoken.
    """
    checked_name(name, "agent")
    values = (name, conversation.key, conversation.agent)
    with store.db.transaction():
        if name != conversation.agent and name in store.speakers(conversation.key):
            raise InputError(f"{name!r} has spoken in conversation {conversation.id!r}; choose another name")
        store.db.execute("UPDATE conversation SET agent = ? WHERE pk = ? AND agent = ?", values)
        store.db.execute("UPDATE utterance SET speaker = ? WHERE conversation = ? AND speaker = ?", values)
        store.db.execute("UPDATE trait SET speaker = ? WHERE conversation = ? AND speaker = ?", values)
        # Passages are derived and name their speakers; they are made again where they are missing.
        records = "SELECT pk FROM record WHERE conversation = ?"
        store.db.execute(f"DELETE FROM passage WHERE record IN ({records})", (conversation.key,))
        store.db.execute("DELETE FROM snapshot WHERE conversation = ?", (conversation.key,))
        store.db.execute(
            "DELETE FROM speaker WHERE conversation = ?1 AND name = ?2", (conversation.key, conversation.agent)
        )
        store.db.execute(
            "INSERT OR IGNORE INTO speaker SELECT conversation, speaker, min(pk) FROM utterance "
            "WHERE conversation = ? AND speaker = ? GROUP BY speaker",
            (conversation.key, name),
        )
        store.db.execute("UPDATE conversation SET edits = edits + 1 WHERE pk = ?", (conversation.key,))
