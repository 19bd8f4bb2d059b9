"""What a reply is made from, and the prompt that it becomes. Knows no model and no wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ld_agent.backbones.base import Message
from ld_agent.languages import ENGLISH, Language
from ld_agent.passed import NOTHING_PASSED, Passed
from ld_agent.types import Recalled, Utterance


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a reply is made from.

    Attributes:
        agent: name of the replying agent.
        heard: u', the utterance to answer; not in ``context``.
        context: M_S, the running session before it, oldest first.
        recalled: m, best first.
        quotes: verbatim utterances of earlier sessions, oldest first.
        passages: what was said in earlier sessions, most relevant first, each line with what led up to it; for the reader
            alone, not in the prompt.
        traits: P_u and P_a: traits by speaker, the agent's under its own name.
        people: everyone else who takes part.
        steps: instructions of the memory mechanisms on how to use what was recalled.
        examples: earlier replies as models; the first to be dropped if the window is small.
        labelled: label each memory with its mechanism.
        decides: the answer also says whether ``heard`` is worth remembering; see `decision`.
        instructions: those of the caller, added to the agent's own and cut to a quarter of the window.
        language: of the prompt.
        doubted: the channel of each trait that was not said in the chat, by speaker and text.
        about: the only speaker whom ``heard`` asks about by name, if any; see `asked_about`.
        passed: what the client sent besides text.
    """

    agent: str
    heard: Utterance
    context: tuple[Utterance, ...] = ()
    recalled: tuple[Recalled, ...] = ()
    traits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    people: tuple[str, ...] = ()
    steps: str = ""
    examples: tuple[str, ...] = ()
    labelled: bool = False
    decides: bool = False
    quotes: tuple[Utterance, ...] = ()
    passages: tuple[tuple[Utterance, ...], ...] = ()
    instructions: str = ""
    language: Language = ENGLISH
    doubted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    about: str = ""
    passed: Passed = NOTHING_PASSED

    @property
    def asks_from_memory(self) -> bool:
        """Whether only the memory can answer: no tool has, no image came with the question, and no reply has begun."""
        other = (*(aside.after for aside in self.passed.asides), *(line for line, _ in self.passed.media))
        return not self.passed.begun and all(line not in (self.heard.text, "") for line in other)


@dataclass(frozen=True, slots=True)
class Prompted:
    """A rendered prompt, with notes on what had to be left out."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...] = ()
