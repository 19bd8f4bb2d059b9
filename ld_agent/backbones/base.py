"""The interface between the agent and a language model: chat messages in, text out, always in batches.

A backbone knows nothing of memory, personas or prompts. It answers a batch of requests, each of which may name its
own LoRA adapter, so that requests of different modules share one forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ld_agent.backbones.answer_text import answer_text


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``content`` is data: control tokens in it reach the model as plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model.

    Attributes:
        messages: the rendered prompt.
        module: the requesting module ("generator"); selects the model name at an endpoint that serves one per module.
        adapter: name of an adapter that was added to the backbone; None: the bare base model.
        max_new_tokens: upper bound of the answer.
        temperature: 0 decodes greedily; above 0 samples, reproducibly for a given seed.
        repetition_penalty: above 1 divides the scores of tokens that prompt or answer already contain.
        on_text: called with each piece of the answer as it is generated.
        cacheable_prefix: leading messages that are constant over many calls, worth keeping encoded; a hint only.
        read: applied to the answer before it is parsed; see `Language.canonical`.
    """

    messages: tuple[Message, ...]
    module: str
    max_new_tokens: int
    adapter: str | None = None
    temperature: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    on_text: Callable[[str], None] | None = None
    cacheable_prefix: int = 0
    read: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer; its text is cleaned by `answer_text`, whatever the backbone.

    ``finish`` is "stop" (the model ended it) or "length" (max_new_tokens or the window ended it).
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: Literal["stop", "length"] = "stop"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", answer_text(self.text))


class Backbone(Protocol):
    """A language model, local or remote. Thread-safe: calls are serialised internally."""

    @property
    def context_window(self) -> int:
        """Maximum number of tokens of prompt and answer together."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order.

        What ``on_text`` raises, such as `ReplyStopped`, and a KeyboardInterrupt propagate; pieces already passed to
        ``on_text`` remain with the caller.

        Raises:
            BackboneError: the model or the endpoint failed.
        """
        ...

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Number of tokens in the rendered prompt, including the template; an upper estimate if the tokenizer is not
        available."""
        ...

    def close(self) -> None:
        """Release the model or the connection; idempotent."""
        ...
