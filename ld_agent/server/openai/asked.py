"""What a request asks of a turn and how it is answered, whatever its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ld_agent.server.history import Line
from ld_agent.types import Reply, ReplyOptions

CUT_OFF = "interrupted"
"""The finish of a reply whose client left; the same request, repeated, gets a complete one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks, whatever its protocol.

    Attributes:
        conversation: its id in the store; None: nothing is remembered.
        thread: None: none was named, and the request is not compared with what is stored.
        lines: the chat as the client sent it; the last is a person's, to be answered; none: the thread's last line is.
        whole: the client always sends the whole chat.
        name: what a new person is called in prompts.
        key: the Idempotency-Key.
        fingerprint: of the request's body.
        task: a job of the client's own, answered without the agent's instructions.
        kept: the answer is kept for `Answers.find`, with this id.
        model: which of the agents answers; "": the first.
    """

    conversation: str | None
    thread: str | None
    lines: tuple[Line, ...]
    options: ReplyOptions
    whole: bool = False
    name: str | None = None
    key: str | None = None
    fingerprint: str = ""
    task: bool = False
    id: str = ""
    kept: bool = False
    model: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a request was answered with.

    Attributes:
        finish: "stop", "length", or `CUT_OFF`.
        reply: None where nothing is remembered, and for a repeated request.
        calls: of the client's tools.
    """

    id: str
    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    reply: Reply | None = None
    notes: tuple[str, ...] = ()
    repeated: bool = False
    calls: tuple[Mapping[str, Any], ...] = ()

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """`finish` in the words of OpenAI's protocol."""
        if self.calls:
            return "tool_calls"
        return "length" if self.finish == "length" else "stop"
