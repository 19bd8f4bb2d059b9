"""The parts of a generator's prompt, and the ablation over them (LD-Agent, section 3.3 and table 2). Knows no files.

Each column of the table adds one part to the context of the running session; the last has all parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ld_agent.modules.generator import Situation
from ld_agent.types import Reply, Utterance


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The parts of a generator's prompt besides the running session.

    Attributes:
        memory: events are summarised and recalled.
        user_personas: traits of the others.
        agent_personas: traits of the agent.
        annotated: use annotated traits instead of the extractor's.
    """

    memory: bool = True
    user_personas: bool = True
    agent_personas: bool = True
    annotated: bool = False


FULL = "full"
ABLATIONS: Mapping[str, PromptParts] = {
    "context": PromptParts(memory=False, user_personas=False, agent_personas=False),
    "memory": PromptParts(user_personas=False, agent_personas=False),
    "user": PromptParts(memory=False, agent_personas=False),
    "agent": PromptParts(memory=False, user_personas=False),
    FULL: PromptParts(),
}


def situation_of(reply: Reply, said: Sequence[Utterance], agent: str) -> Situation:
    """What a reply was made from.

    Args:
        said: all earlier utterances of the conversation, oldest first.
    """
    heard = reply.heard
    session = [u for u in said if u.session == heard.session]
    context = tuple(session[: session.index(heard)])
    people = tuple(dict.fromkeys(u.speaker for u in (*context, heard) if u.speaker != agent))
    recalled, traits, quotes = reply.recalled, reply.traits, reply.quotes
    return Situation(agent, heard, context=context, recalled=recalled, traits=traits, people=people, quotes=quotes)


def reduced(situation: Situation, parts: PromptParts) -> Situation:
    """A situation with only these parts, as if the others had been off from the beginning of the conversation.

    The parts are independent: recall uses no traits, and the traits of one person do not depend on another's.
    """
    traits = {
        name: facts
        for name, facts in situation.traits.items()
        if (parts.agent_personas if name == situation.agent else parts.user_personas)
    }
    if not parts.memory:
        situation = replace(situation, recalled=(), quotes=())
    return replace(situation, traits=traits)
