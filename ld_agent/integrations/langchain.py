"""Middleware for LangChain's agents: recalls before each model call, and stores the conversation.

create_agent(model, middleware=[MemoryMiddleware(agent.conversation("ann"))])
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AnyMessage, SystemMessage

from ld_agent.backbones.client_message import ClientMessage, client_message
from ld_agent.backbones.reasoning import is_known
from ld_agent.conversation import Conversation
from ld_agent.integrations.remembered import remembered


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
        known = remembered(self._conversation, asked.text) if (asked := _last(request.messages, "user")) else ""
        if not known:
            return request
        before = request.system_prompt
        return request.override(system_message=SystemMessage("\n\n".join(filter(None, (before, known)))))

    def _keep(self, messages: list[AnyMessage]) -> None:
        if said := _last(messages, "user"):
            self._conversation.observe(said.text, self._person or said.name or None)
        if (answer := _last(messages[-1:], "assistant")) and said:
            self._conversation.observe(answer.text, self._conversation.agent_name)
        self._conversation.learn_later()


def _last(messages: list[AnyMessage], role: str) -> ClientMessage | None:
    """The last message of a role that says something."""
    said = (client_message(_given(message)) for message in reversed(messages))
    return next((one for one in said if one is not None and one.role == role and one.text.strip()), None)


def _given(message: AnyMessage) -> dict[str, Any]:
    """A message without what stands in its content besides words and media, such as calls of tools."""
    content = [message.content] if isinstance(message.content, str) else message.content
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return {"role": message.type, "content": [part for part in parts if is_known(part)], "name": message.name}
