"""What a reply is made from, and the prompt that it becomes, with what a client's request has besides lines of talk: tools'
results, images, a reply begun.

An endpoint gets these in its own protocol, any other model as text. Knows no model, no client and no wording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ld_agent.backbones.base import Message
from ld_agent.checks.statements import names, part_about
from ld_agent.languages import ENGLISH, Language
from ld_agent.passed import NOTHING_PASSED, Aside, Passed
from ld_agent.prompts import as_line
from ld_agent.text import SENTENCE_END
from ld_agent.types import Recalled, Record, Utterance

LONGEST_RESULT = 2000  # characters of a tool's result; its middle is left out
MOST_RESULTS = 8


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a reply is made from.

    Attributes:
        agent: name of the replying agent.
        heard: u', the utterance to answer; not in ``context``.
        context: M_S, the running session before it, oldest first.
        recalled: m, best first.
        quotes: verbatim utterances of earlier sessions, oldest first.
        ended: traits that quotes and passages told, and that do not hold any more, by the line's id.
        slips: of these, what never held.
        corrections: what was said later that ended these, oldest first, by the same ids.
        passages: what was said that may answer a question about what was told, most relevant first, each line with what led up
            to it, and what ended it; not in the prompt.
        traits: P_u and P_a: traits by speaker, the agent's under its own name.
        people: everyone else who takes part.
        steps: instructions of the memory mechanisms on how to use what was recalled.
        examples: earlier replies as models; the first to be dropped if the window is small.
        labelled: label each memory with its mechanism.
        decides: the answer also says whether ``heard`` is worth remembering; see `decision`.
        instructions: those of the caller, added to the agent's own and cut to a quarter of the window.
        language: of the prompt.
        doubted: the channel of each trait that was not said in the chat, by speaker and text.
        aged: traits that tell an age of years ago, with what it is now, by speaker and text.
        asked: only the memory can answer, and the answer must be supported by what was said.
        about: the only speaker whom ``heard`` asks about by name, if any; see `asked_about`.
        passed: what the client sent besides text.
        shown: what was recalled for earlier lines of the running session, by the line's id; a model that follows instructions
            sees it there, so that its prompt begins as the one before. None: it sees only what was recalled for ``heard``.
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
    aged: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)
    slips: Mapping[str, str] = field(default_factory=dict)
    corrections: Mapping[str, Sequence[Utterance]] = field(default_factory=dict)
    asked: bool = False
    about: str = ""
    passed: Passed = NOTHING_PASSED
    shown: Mapping[str, Sequence[Record]] | None = None


@dataclass(frozen=True, slots=True)
class Prompted:
    """A rendered prompt, with notes on what had to be left out."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...] = ()


def with_results(situation: Situation, in_protocol: bool) -> Situation:
    """The situation with the results of tools as lines of the channel ``tool``, each after the person's line before it.

    Those of what was heard stand right before it, unless the model gets them ``in_protocol``. Results whose line is not in the
    running session are left out with it.
    """
    context, heard = [*situation.context], situation.heard
    for aside in [aside for aside in situation.passed.asides if aside.text.strip()][-MOST_RESULTS:]:
        line = replace(heard, id="", speaker=aside.name or "tool", text=bounded(aside.text), channel="tool")
        if aside.after in (heard.text, ""):
            context += [] if in_protocol else [line]
        elif place := _place_after(context, aside.after):
            context.insert(place, replace(line, at=context[place - 1].at))
    return replace(situation, context=tuple(context))


def bounded(text: str) -> str:
    half = LONGEST_RESULT // 2
    return text if len(text) <= LONGEST_RESULT else f"{text[:half]} […] {text[-half:]}"


def _place_after(context: Sequence[Utterance], text: str) -> int:
    """The place after the last line with a text and the results that already follow it; 0: there is no such line."""
    place = next((n for n in range(len(context), 0, -1) if context[n - 1].text == text), 0)
    while place and place < len(context) and context[place].channel == "tool":
        place += 1
    return place


def native(passed: Passed, heard: str) -> tuple[Aside, ...]:
    """The calls and results since what was heard, if each result has its call: an endpoint refuses others."""
    asides = tuple(aside for aside in passed.asides if aside.after == heard)
    called = {str(call.get("id")) for aside in asides for call in aside.wire.get("tool_calls", ())}
    results = [str(aside.wire.get("tool_call_id")) for aside in asides if aside.wire.get("role") == "tool"]
    return asides if results and called == {*results} else ()


def with_passed(messages: Sequence[Message], passed: Passed, exchange: Sequence[Aside]) -> tuple[Message, ...]:
    """Rendered messages with the media of their lines, then calls and results, then the reply that has begun."""
    shown = _with_media(messages, passed)
    for aside in exchange:
        if aside.wire["role"] == "tool":
            text = bounded(aside.text)
            shown.append(Message("user", f"{aside.name or 'tool'}: {text}", wire={**aside.wire, "content": text}))
        else:
            called = ", ".join(str(call["function"].get("name")) for call in aside.wire["tool_calls"])
            shown.append(Message("assistant", f"({called})", wire=aside.wire))
    return (*shown, Message("assistant", passed.begun)) if passed.begun else tuple(shown)


def only_about(person: str, situation: Situation) -> Situation:
    """The situation without what tells nothing of a person whom the question names."""

    def kept(one: Recalled) -> Recalled:
        sentences = [s for s in SENTENCE_END.split(one.record.text) if names(person, s)]
        return replace(one, record=replace(one.record, text=" ".join(sentences)))

    traits = {
        who: tuple(trait for trait in known if who == person or names(person, trait))
        for who, known in situation.traits.items()
    }
    quotes = (part_about(person, quote) for quote in situation.quotes)
    return replace(
        situation,
        recalled=tuple(one for one in map(kept, situation.recalled) if one.record.text),
        traits={who: known for who, known in traits.items() if known},
        quotes=tuple(quote for quote in quotes if quote is not None),
    )


def _with_media(messages: Sequence[Message], passed: Passed) -> list[Message]:
    """Messages with the media of their lines; of lines that say the same, each gets its own, from the last backwards."""
    shown, free = [*messages], [message.content if message.role == "user" else "" for message in messages]
    for text, media in reversed(passed.media):
        line = as_line(text)
        place = next((n for n in range(len(shown) - 1, -1, -1) if line in free[n]), None)
        if place is not None:
            before, _, after = free[place].rpartition(line)
            free[place] = f"{before}\0{after}"
            shown[place] = replace(shown[place], media=(*media, *shown[place].media))
    return shown
