"""The response generator, r = G(u', m, M_S, P_u, P_a) of equation (5): recalled context in, reply out.

Renders a prompt that fits the model's window; what is left out is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, TypeVar

from ld_agent.backbones.base import Message, Request
from ld_agent.modules.base import Models
from ld_agent.modules.situation import Prompted, Situation, native, with_passed, with_results
from ld_agent.passed import NOTHING_PASSED, Aside
from ld_agent.prompts import as_line, as_name
from ld_agent.types import Record, ReplyOptions, Utterance

T = TypeVar("T")
DECISION_TOKENS = 12
RETRIEVED = frozenset({"history", "bm25", "dense"})
"""Views whose memories are verbatim utterances that were searched for."""
WHOLE = "full"
"""The view that recalls all earlier sessions, newest first."""
NAMED = 5
"""Maximum number of things left out that a note names."""
LONGEST_CORRECTION = 200
"""Characters of what is shown beside the quote that it ended."""
UNLIKE = 16
"""Number of the last lines, by anyone, whose wording a sampled reply avoids."""
ASSISTANT = "AI: How can I help you?"
"""What no friend says: its wording is avoided as well."""
DIRECT = "generator_direct"
"""The prompt for models that follow instructions; it says on which day a memory was told."""
ASKED = "generator_asked"
"""Their prompt for what only the memory can answer; see the file."""
SHORTENED = "the utterance is longer than the model's window; its middle was left out of the prompt"
NO_ROOM = "the model's window has no room for the instructions; set a larger one or fewer max_new_tokens"
SHORTEST_HEARD = 64  # characters; a window without room for them has none for the instructions either


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a situation of which some may be left out."""

    what: str  # its name in a note
    items: Callable[[Situation], tuple[Any, ...]]  # what goes first at the beginning
    keep: Callable[[Situation, tuple[Any, ...]], Situation]  # the situation with some of the items only
    named: Callable[[Any], str]  # an item in a note
    order: int = 1  # -1: notes name the items the other way round


_ID = attrgetter("id")
_DROPPED = (
    _Part("examples", lambda s: s.examples[::-1], lambda s, kept: replace(s, examples=kept[::-1]), lambda _: ""),
    _Part("quotes", lambda s: s.quotes, lambda s, kept: replace(s, quotes=kept), _ID),
    _Part("earlier utterances of this session", lambda s: s.context, lambda s, kept: replace(s, context=kept), _ID),
    _Part(
        "memories",
        lambda s: s.recalled[::-1],
        lambda s, kept: replace(s, recalled=kept[::-1]),
        lambda r: r.record.id,
        -1,
    ),
    _Part(
        "traits",
        lambda s: tuple((name, trait) for name, known in s.traits.items() for trait in known),
        lambda s, kept: replace(s, traits=_by_name(kept)),
        lambda trait: trait[1],
    ),
)
"""What is left out of a prompt that is too long, in this order."""


class Generator:
    """Writes replies with the ``generator`` module.

    Args:
        prompting: ``direct`` tells a model that follows instructions how to talk and how to use memories; ``brief`` relies
            on tuning; ``paper`` puts everything in one message (LD-Agent, appendix D.3), as does ``rsum`` (LLM-Rsum,
            appendix B).
    """

    def __init__(self, models: Models, prompting: str) -> None:
        self._models = models
        layouts = {"paper": render_as_paper, "rsum": render_as_rsum, "direct": render_directly}
        self._layout = layouts.get(prompting, render)

    def prompt_for(self, situation: Situation) -> Prompted:
        """Render a situation so that it fits the window, for training and inference.

        What does not fit is dropped in this order: examples, the oldest quotes, the oldest lines of the context, the worst
        memories, the oldest traits, the middle of the utterance.
        """
        notes: list[str] = []
        if situation.passed.asides:
            situation = with_results(situation, self.takes_results(situation))
        if situation.instructions:
            situation = self._with_bounded_instructions(situation, notes)
        messages = self._fitting(situation)
        for part in _DROPPED:
            if messages is None and (items := part.items(situation)):
                situation = self._without_excess(situation, part, items, notes)
                messages = self._fitting(situation)
        if messages is None:
            shortened = self._shortened(situation)
            notes.append(SHORTENED if shortened != situation else NO_ROOM)
            messages = self._render(shortened)
        return Prompted(messages, tuple(notes))

    def takes_results(self, situation: Situation) -> bool:
        """Whether the model gets the results of tools in its own protocol."""
        return bool(self._native(situation))

    def _native(self, situation: Situation) -> tuple[Aside, ...]:
        """The calls and results of tools that the model gets in its own protocol."""
        asides = native(situation.passed, situation.heard.text)
        return asides if asides and self._models.passes_on("generator") else ()

    def _render(self, situation: Situation) -> tuple[Message, ...]:
        messages = self._layout(situation)
        if situation.passed == NOTHING_PASSED:
            return messages
        return with_passed(messages, situation.passed, self._native(situation))

    def _without_excess(self, situation: Situation, part: _Part, items: tuple[Any, ...], notes: list[str]) -> Situation:
        """The situation with as much of one part, that has these items, as fits the window."""
        kept = _longest_tail(items, lambda tail: self._fitting(part.keep(situation, tail)) is not None)
        if dropped := items[: len(items) - len(kept)]:
            notes.append(_left_out(part.what, [part.named(item) for item in dropped][:: part.order]))
        return part.keep(situation, kept)

    def request(
        self,
        messages: tuple[Message, ...],
        on_text: Callable[[str], None] | None = None,
        *,
        decides: bool = False,
        asked: bool = False,
        options: ReplyOptions | None = None,
    ) -> Request:
        """The request for a reply; if it ``decides``, with room for that; ``asked`` what only the memory can answer."""
        options = options or ReplyOptions()
        request = self._models.request(
            "generator",
            messages,
            seed=options.seed or 0,
            on_text=on_text,
            most=options.max_new_tokens,
            decides=decides,
            asked=asked,
        )
        temperature = request.temperature if options.temperature is None else options.temperature
        said = [message.content for message in messages if message.role != "system" and message.content]
        return replace(
            request,
            max_new_tokens=request.max_new_tokens + (DECISION_TOKENS if decides else 0),
            temperature=temperature,
            top_p=self._models.modules.generator.top_p if options.top_p is None else options.top_p,
            unlike=(*said[-UNLIKE:], ASSISTANT) if temperature > 0 else (),  # replies may vary, so they should
            read=None if options.passed.formatted else request.read,
            parameters=options.passed.parameters,
        )

    def reworded(self, request: Request) -> Request:
        """The same request for an answer in other words."""
        return self._models.reworded(request)

    def beginning(self, text: str, most: int) -> str:
        """The longest beginning of a text that has at most so many tokens."""

        def count(part: str) -> int:
            return self._models.count_tokens("generator", [Message("user", part)])

        room = count("") + most
        if count(text) <= room:
            return text
        return "".join(_longest_tail(tuple(text[::-1]), lambda tail: count("".join(tail[::-1])) <= room)[::-1]).strip()

    def _with_bounded_instructions(self, situation: Situation, notes: list[str]) -> Situation:
        """The situation with its instructions cut to a quarter of the prompt's room."""
        room = self._models.prompt_budget("generator") // 4
        words = tuple(situation.instructions.split(" "))[: 4 * room]

        def fits(tail: tuple[str, ...]) -> bool:
            message = Message("system", " ".join(tail[::-1]))
            return self._models.count_tokens("generator", [message]) <= room

        kept = _longest_tail(words[::-1], fits)[::-1]
        bounded = " ".join(kept)[: 16 * room]
        if len(bounded) < len(situation.instructions):
            notes.append("the caller's instructions were cut to a quarter of the model's window")
        return replace(situation, instructions=bounded)

    def _fitting(self, situation: Situation) -> tuple[Message, ...] | None:
        """The prompt of a situation; None: it exceeds the window."""
        budget = self._models.prompt_budget("generator") - (DECISION_TOKENS if situation.decides else 0)
        characters = len(situation.heard.text) + sum(len(u.text) for u in situation.context)
        if characters > 16 * budget:  # no tokenizer compresses this much: do not count what cannot fit
            return None
        messages = self._render(situation)
        return messages if self._models.count_tokens("generator", messages) <= budget else None

    def _shortened(self, situation: Situation) -> Situation:
        text = situation.heard.text

        def cut(keep: int) -> Situation:
            shorter = f"{text[: keep // 2]} […] {text[-(keep // 2) :]}"
            return replace(situation, heard=replace(situation.heard, text=shorter))

        low, high = min(len(text), SHORTEST_HEARD), len(text)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fitting(cut(middle)) is not None else (low, middle)
        return cut(low) if low < len(text) else situation


def render(situation: Situation, template: str = "generator") -> tuple[Message, ...]:
    """The messages of a situation: what is known in the system message, then the running session turn by turn.

    Everyone but the agent has the role ``user``; if there are several people, each line begins with its speaker's name.
    Consecutive lines of one role are merged, because many chat templates require alternating roles.

    Args:
        template: name of the prompt. What it has after the system message are examples of the agent's manner, left out if
            the answer has another form because it ``decides``; a last message of the user is what is recalled and stands
            right before the utterance, behind all that stays the same from one turn to the next.
    """
    several = len(situation.people) > 1
    system, *examples = situation.language.prompt(template).render(**_known(situation, template != "generator"))
    if examples and examples[-1].role == "user":
        examples.pop()
    messages = [_with_added(system, situation), *(() if situation.decides else examples)]
    begun, seen = len(messages), set[str]()
    said = (*situation.context, situation.heard)
    for one, text in zip(said, list(map(as_line, [one.text for one in said])), strict=True):
        by_agent = one.speaker == situation.agent
        if not by_agent and (several or one.channel != "chat"):
            text = f"{situation.language.with_channel(as_name(one.speaker), one.channel)}: {text}"
        if by_agent and len(messages) == begun:
            messages.append(Message("user", situation.language.words.opening))
        role: Literal["assistant", "user"] = "assistant" if by_agent else "user"
        if len(messages) > begun and messages[-1].role == role:
            messages[-1] = Message(role, f"{messages[-1].content}\n{text}")
        else:
            messages.append(Message(role, text))
        if template != "generator" and (background := _background(one, situation, template, seen)):
            messages[-1] = Message("user", f"{background}\n\n{messages[-1].content}")
    return tuple(messages)


def _background(line: Utterance, situation: Situation, template: str, seen: set[str]) -> str:
    """What was recalled for a line and stands before no earlier one; for the one to answer, also what is quoted.

    Args:
        seen: the ids of memories that stand before earlier lines; takes those of this one.
    """
    heard, shown = line is situation.heard, situation.shown if template == DIRECT else None
    recalled = [one.record for one in situation.recalled] if heard else (shown or {}).get(line.id, ())
    fresh = [record for record in recalled if record.id not in seen]
    seen.update(record.id for record in fresh)
    if shown is not None:
        fresh.sort(key=lambda record: (record.at, record.id))
    if not heard and not fresh:
        return ""
    of_line = {"memories": _memories(fresh, situation, True), **({} if heard else {"quotes": ()})}
    last = situation.language.prompt(template).render(**_known(situation, True) | of_line)[-1]
    return last.content if last.role == "user" else ""


def render_directly(situation: Situation) -> tuple[Message, ...]:
    """The messages for a model that follows instructions; if a decision is requested, its format is repeated after the
    utterance, because models tend to imitate their earlier replies, which have none.
    """
    *before, heard = render(situation, ASKED if situation.asked else DIRECT)
    if not situation.decides:
        return (*before, heard)
    reminder = situation.language.prompt("conditional_reply").render()[1].content
    return (*before, Message(heard.role, f"{heard.content}\n\n{reminder}"))


def render_as_paper(situation: Situation) -> tuple[Message, ...]:
    """The messages of a situation in LD-Agent's layout (appendix D.3): everything in one user message."""
    context = [(u.speaker, u.text) for u in situation.context]
    heard = (situation.heard.speaker, situation.heard.text)
    system, request = situation.language.prompt("generator_paper").render(
        **_known(situation), context=context, heard=heard
    )
    return (_with_added(system, situation), request)


def render_as_rsum(situation: Situation) -> tuple[Message, ...]:
    """The messages of a situation in the layout of LLM-Rsum's systems (Tables 2 and B.12 to B.14), without persona banks;
    earlier sessions that are all recalled are part of the dialogue, as those of the context-only systems."""
    records = [recalled.record for recalled in situation.recalled]
    earlier = [line for record in records[::-1] if record.view == WHOLE for line in record.text.splitlines()]
    relevant = [record for record in records if record.view in RETRIEVED]
    memories = [record for record in records if record.view not in (*RETRIEVED, WHOLE)]
    system, request = situation.language.prompt("generator_rsum").render(
        agent=situation.agent,
        earlier=earlier,
        relevant=_memories(relevant, situation),
        memories=_memories(memories, situation),
        context=[(u.speaker, u.text) for u in situation.context],
        heard=(situation.heard.speaker, situation.heard.text),
    )
    return (_with_added(system, situation), request)


def _known(situation: Situation, with_date: bool = False) -> dict[str, Any]:
    """The variables that all layouts share, besides the running session.

    Args:
        with_date: say on which day a memory was told, not only how long ago.
    """
    known = {name: [_marked(name, trait, situation) for trait in traits] for name, traits in situation.traits.items()}
    return {
        "agent": situation.agent,
        "people": situation.language.named(situation.people or (situation.heard.speaker,)),
        "agent_traits": known.get(situation.agent, ()),
        "others_traits": [(name, traits) for name, traits in known.items() if name != situation.agent and traits],
        "memories": _memories([one.record for one in situation.recalled], situation, with_date),
        "quotes": [
            (
                situation.language.origin(u.at, u.channel, situation.heard.at, dated=with_date),
                u.speaker,
                _with_correction(u, situation) if with_date else u.text,
            )
            for u in situation.quotes
        ],
    }


def _with_added(system: Message, situation: Situation) -> Message:
    added = [text for text in (*situation.examples, situation.steps, situation.instructions) if text]
    return Message(system.role, "\n\n".join([system.content, *added]))


def _memories(records: Sequence[Record], situation: Situation, with_date: bool = False) -> list[tuple[str, str]]:
    """The origin and the text of each memory."""
    return [(_origin(record, situation, with_date), record.text) for record in records]


def _origin(record: Record, situation: Situation, with_date: bool) -> str:
    """The age of a memory, its kind if several mechanisms are enabled, and its origin if it was not said in the chat."""
    language, more = situation.language, []
    if situation.labelled:
        more.append(language.words.kinds.get(record.view, record.view))
    if record.said_by and situation.heard.speaker not in record.said_by:
        more.append(language.words.said_by.format(names=language.named(record.said_by)))
    return language.origin(record.at, record.channel, situation.heard.at, *more, dated=with_date)


def _with_correction(quoted: Utterance, situation: Situation) -> str:
    """The text of a quote with what its speaker said later that ended what it tells."""
    told = " ".join(later.text for later in situation.corrections.get(quoted.id, ()))[:LONGEST_CORRECTION]
    return situation.language.words.corrected.format(text=quoted.text, told=told) if told else quoted.text


def _marked(speaker: str, trait: str, situation: Situation) -> str:
    channel, text = situation.doubted.get((speaker, trait)), situation.aged.get((speaker, trait), trait)
    return f"{text} ({situation.language.words.channels[channel]})" if channel else text


def _left_out(what: str, items: Sequence[str]) -> str:
    """A note on what did not fit, by its ids or texts; "": it has none."""
    names = [name for name in items if name]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    named = f": {', '.join(names[:NAMED])}{more}" if names else ""
    return f"{len(items)} {what} did not fit the model's window{named}"


def _by_name(traits: tuple[tuple[str, str], ...]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(t for other, t in traits if other == name) for name in dict.fromkeys(n for n, _ in traits)}


def _longest_tail(items: tuple[T, ...], fits: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """The longest suffix of ``items`` that fits, by bisection."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(items[len(items) - middle :]) else (low, middle - 1)
    return items[len(items) - low :]
