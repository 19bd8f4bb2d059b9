"""Renaming the agent of a stored conversation. Changes who speaks, never what was said."""

from __future__ import annotations

from ld_agent.errors import InputError
from ld_agent.storage.rows import StoredConversation
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
