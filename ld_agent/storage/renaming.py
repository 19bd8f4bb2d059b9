"""Renaming the agent of a stored conversation. Changes who speaks, never what was said."""

from __future__ import annotations

from ld_agent.errors import InputError
from ld_agent.storage.base import Store, StoredConversation
from ld_agent.types import checked_name


def rename_agent(store: Store, conversation: StoredConversation, name: str) -> None:
    """Give the agent of a conversation another name, in its utterances and traits too.

    Raises:
        InputError: an unusable name, or that of someone else who has spoken.
    """
    checked_name(name, "agent")
    with store.writing(conversation.key):
        if name != conversation.agent and name in store.speakers(conversation.key):
            raise InputError(f"{name!r} has spoken in conversation {conversation.id!r}; choose another name")
        store.rename_agent(conversation.key, name)
