"""A `Session` of the OpenAI Agents SDK over a conversation.

The session's items are the running session of the conversation's thread. Items from before a long pause are no longer
in the session but are recalled as memories: add `ld_agent.integrations.remembered.remembered` to the agent's
instructions.

    session = ConversationSession(agent.conversation("ann", thread="web"))
    await Runner.run(assistant, "I keep forty hives.", session=session)
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents.memory.session import SessionABC

from ld_agent.backbones.reasoning import text_of, without_reasoning
from ld_agent.conversation import Conversation
from ld_agent.types import Utterance


class ConversationSession(SessionABC):
    """Keeps the messages of user and assistant; tool calls and their results are not remembered.

    Args:
        conversation: the thread to use.
        person: what the user is called in the conversation; None: ``agent.user``.
    """

    def __init__(self, conversation: Conversation, person: str | None = None) -> None:
        self._conversation, self._person = conversation, person
        self.session_id = f"{conversation.id}/{conversation.thread}"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        said = self._conversation.running
        return [self._item(u) for u in (said if limit is None else said[max(len(said) - limit, 0) :])]

    async def add_items(self, items: list[Any]) -> None:
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> Any | None:
        last = self._conversation.running[-1:]
        await asyncio.to_thread(self._conversation.replace, [u.id for u in last])
        return self._item(last[0]) if last else None

    async def clear_session(self) -> None:
        await asyncio.to_thread(lambda: self._conversation.replace([u.id for u in self._conversation.running]))

    def _add(self, items: list[Any]) -> None:
        for item in items:
            role, text = item.get("role"), text_of(item.get("content")) or ""
            if role == "assistant":
                text = without_reasoning(text)
            if role in ("user", "assistant") and text.strip():
                speaker = self._conversation.agent_name if role == "assistant" else self._person
                self._conversation.observe(text, speaker)
        self._conversation.learn_later()

    def _item(self, said: Utterance) -> dict[str, str]:
        role = "assistant" if said.speaker == self._conversation.agent_name else "user"
        return {"role": role, "content": said.text}
