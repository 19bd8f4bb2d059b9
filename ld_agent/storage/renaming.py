"""Renames the agent of a stored conversation. Changes speakers, but no texts."""

from __future__ import annotations

from ld_agent.errors import InputError
from ld_agent.storage.base import Store, StoredConversation
from ld_agent.types import as_known, checked_name


def rename_agent(store: Store, conversation: StoredConversation, name: str) -> None:
    """Rename the agent of a conversation, also in its utterances and traits.

    Raises:
        InputError: the name is invalid, or belongs to another speaker.
    """
    name = checked_name(name, "agent")
    with store.writing(conversation.key):
        others = [speaker for speaker in store.speakers(conversation.key) if speaker != conversation.agent]
        if as_known(name, others) in others:
            raise InputError(f"{name!r} has spoken in conversation {conversation.id!r}; choose another name")
        store.rename_agent(conversation.key, name)
