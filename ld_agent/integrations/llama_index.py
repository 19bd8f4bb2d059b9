"""A memory block of LlamaIndex over a conversation.

memory = Memory.from_defaults(memory_blocks=[ConversationBlock(conversation=agent.conversation("ann"))])
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock

from ld_agent.backbones.reasoning import without_reasoning
from ld_agent.conversation import Conversation
from ld_agent.integrations.remembered import remembered

CHANNELS = {"user": "chat", "assistant": "chat", "tool": "tool", "function": "tool"}


class ConversationBlock(BaseMemoryBlock[str]):
    """Recalls memories relevant to the last user message, and learns from messages that leave the short-term memory."""

    name: str = "ld_agent"
    conversation: Any
    person: str | None = None

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = next((m.content for m in reversed(messages or []) if m.role.value == "user" and m.content), None)
        return await asyncio.to_thread(remembered, self.conversation, asked) if asked else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._observe, messages)

    def _observe(self, messages: list[ChatMessage]) -> None:
        conversation: Conversation = self.conversation
        for message in messages:
            channel, text = CHANNELS.get(message.role.value), message.content or ""
            if message.role.value == "assistant":
                text = without_reasoning(text)
            if channel and text.strip():
                speaker = conversation.agent_name if message.role.value == "assistant" else self.person
                conversation.observe(text, speaker, channel=channel)
        conversation.learn_later()
