"""Middleware for LangChain's agents: recalls before each model call, and stores the conversation.

create_agent(model, middleware=[MemoryMiddleware(agent.conversation("ann"))])
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AnyMessage, SystemMessage

from ld_agent.backbones.client_message import ClientMessage
from ld_agent.conversation import Conversation
from ld_agent.integrations.remembered import last_line, lines_of, remembered, speaker_of


class MemoryMiddleware(AgentMiddleware[Any, Any]):
    """One conversation's memory around an agent; use one middleware per person.

    Args:
        person: what the user is called in the conversation; None: by the message's name, or else ``agent.user``.
    """

    def __init__(self, conversation: Conversation, person: str | None = None) -> None:
        super().__init__()
        self._conversation, self._person = conversation, person

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(self._with_memory(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        return await handler(await asyncio.to_thread(self._with_memory, request))

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store the person's message and the agent's final answer."""
        self._keep(state["messages"])

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await asyncio.to_thread(self._keep, state["messages"])

    def _with_memory(self, request: Any) -> Any:
        asked = last_line(_lines(request.messages), "user")
        known = remembered(self._conversation, asked.text) if asked else ""
        if not known:
            return request
        before = request.system_prompt
        return request.override(system_message=SystemMessage("\n\n".join(filter(None, (before, known)))))

    def _keep(self, messages: list[AnyMessage]) -> None:
        lines = _lines(messages)
        if said := last_line(lines, "user"):
            self._conversation.observe(said.text, self._person or speaker_of(said, self._conversation))
        if (answer := last_line(lines[-1:], "assistant")) and said:
            self._conversation.observe(answer.text, self._conversation.agent_name)
        self._conversation.learn_later()


def _lines(messages: list[AnyMessage]) -> list[ClientMessage]:
    return lines_of({"role": one.type, "content": one.content, "name": one.name} for one in messages)
