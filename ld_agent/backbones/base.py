"""The interface between the agent and a language model: chat messages in, text out, always in batches.

A backbone knows nothing of memory, personas or prompts. It answers a batch of requests, each of which may name its
own LoRA adapter, so that requests of different modules share one forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from ld_agent.backbones.answer_text import cleaned

Lack = Literal["", "reasoning", "filter", "tool", "empty"]
_SWITCH = "switch reasoning off (backbone.thinking, or backbone.extra for an endpoint)"
_LACKS: Mapping[str, str] = {
    "reasoning": f"the model's answer was only reasoning; {_SWITCH}",
    "limit": f"the limit went to reasoning; raise modules.{{module}}.max_new_tokens, or {_SWITCH}",
    "filter": "the endpoint's content filter withheld the answer; rephrase, or use another model",
    "tool": "the model called a tool instead of answering; switch tools off at the endpoint, or use another model",
    "empty": "the endpoint gave an empty answer; check the server's log and backbone.model",
}
ASKED = "asked"
"""Subfolder of an adapter: the adapter for what only the memory can answer, where that was tuned apart from small talk."""
FORMAT = "response_format"
"""The parameter of a call that says in which form to answer."""
NOT_PASSED: Mapping[str, str] = {
    "media": "the model takes no images or files; it was told where they stand",
    "tools": "the model takes no tools; it was not told of them",
    "format": "the model takes no response_format; it was not told of it",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``content`` is data: control tokens in it reach the model as plain text.

    Attributes:
        media: images and files that ``content`` only names, for an endpoint, as parts of OpenAI's protocol.
        wire: what an endpoint gets instead, a call of a tool or its result; ``content`` says the same.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    media: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    wire: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model.

    Attributes:
        messages: the rendered prompt.
        module: the requesting module ("generator"); selects the model name at an endpoint that serves one per module.
        adapter: name of an adapter that was added to the backbone; None: the bare base model.
        max_new_tokens: upper bound of the answer.
        temperature: 0 decodes greedily; above 0 samples, reproducibly for a given seed.
        top_p: samples from the most likely tokens that have this probability together; None: the model's own setting.
        unlike: texts whose wording the answer should rather not repeat; endpoints ignore it.
        repetition_penalty: above 1 divides the scores of tokens that prompt or answer already contain.
        on_text: called with each piece of the answer as it is generated.
        cacheable_prefix: leading messages that are constant over many calls, worth keeping encoded; a hint only.
        read: applied to the answer before it is parsed; see `Language.canonical`.
        parameters: of an endpoint's call, as the client gave them: its tools, ``response_format``.
        form: JSON schema of the answer, for an endpoint that holds its model to it.
    """

    messages: tuple[Message, ...]
    module: str
    max_new_tokens: int
    adapter: str | None = None
    temperature: float = 0.0
    top_p: float | None = None
    seed: int = 0
    unlike: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    on_text: Callable[[str], None] | None = None
    cacheable_prefix: int = 0
    read: Callable[[str], str] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    form: Mapping[str, Any] | None = None

    @property
    def passes(self) -> tuple[str, ...]:
        """What only some models take of this request: "media", "tools", "format"."""
        there = {
            "media": any(message.media for message in self.messages),
            "tools": "tools" in self.parameters,
            "format": FORMAT in self.parameters or self.form is not None,
        }
        return tuple(what for what, is_there in there.items() if is_there)


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer; its text is `cleaned`, whatever the backbone.

    Attributes:
        finish: "stop" (the model ended it) or "length" (max_new_tokens or the window ended it).
        lack: why there is no answer, if the model or endpoint gave none; an empty text alone is an answer.
        reasoned: there was reasoning, which the text lacks.
        unopened: no tag opened it.
        calls: of the client's tools.
        notes: what of the request the model did not get.
        parts: what the text says by the keys of the request's ``form``; None: it has none, or the text is not of that form.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: Literal["stop", "length"] = "stop"
    lack: Lack = ""
    reasoned: bool = False
    unopened: bool = False
    calls: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        answer = cleaned(self.text)
        object.__setattr__(self, "text", answer.text)
        if answer.text.strip():
            object.__setattr__(self, "lack", "")
        elif answer.reasoned and not self.lack:
            object.__setattr__(self, "lack", "reasoning")
        object.__setattr__(self, "reasoned", self.reasoned or answer.reasoned)
        object.__setattr__(self, "unopened", self.unopened or answer.unopened)

    def why_none(self, module: str) -> str:
        """Say why this is no answer of a module, and how to fix it; "" if it is one."""
        limit = self.lack == "reasoning" and self.finish == "length"
        return _LACKS["limit" if limit else self.lack].format(module=module) if self.lack else ""


def noted(completion: Completion, request: Request, ignored: Collection[str] = NOT_PASSED) -> Completion:
    """Return an answer with notes on what of its request the model did not get, of the ``ignored`` kinds."""
    notes = tuple(NOT_PASSED[what] for what in request.passes if what in ignored)
    return replace(completion, notes=notes) if notes else completion


class Backbone(Protocol):
    """A language model, local or remote. Thread-safe: calls are serialised internally."""

    @property
    def context_window(self) -> int:
        """Maximum number of tokens of prompt and answer together."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order. Only a backbone with a true ``passes_on`` reads a message's ``media`` and ``wire``, and
        ``parameters``.

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
