"""What a client's request has besides text: images, files, tools and what they returned. Knows no protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Aside:
    """A tool's call or result in a chat: read by the model, but not remembered.

    Attributes:
        after: the last line of a person before it; "": what is answered.
        name: of the tool.
        text: of a result; "": a call.
        wire: the message as an endpoint gets it.
    """

    after: str
    name: str
    text: str
    wire: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """What a client's request has besides text, for a model that takes it.

    Attributes:
        media: the images and files of each line, as parts of OpenAI's protocol.
        parameters: the client's tools and its ``response_format``, as in the request's JSON of chat completions.
        asides: calls and results of tools, in order.
        begun: how the reply begins, which is to be continued.
        formatted: the reply has the client's form, such as JSON: nothing else may stand in it, nor be taken out.
    """

    media: tuple[tuple[str, tuple[Mapping[str, Any], ...]], ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    asides: tuple[Aside, ...] = ()
    begun: str = ""
    formatted: bool = False


NOTHING_PASSED = Passed()
