"""Answers a few lines of chat from these lines alone. Knows no store: nothing is recalled or kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ld_agent.backbones.base import Completion, Message
from ld_agent.config.sections import AgentSection
from ld_agent.modules.generator import Generator
from ld_agent.modules.replies import ReplyStream, continued, reply_text
from ld_agent.modules.situation import Situation
from ld_agent.running.resources import Resources
from ld_agent.steps import Steps
from ld_agent.types import ReplyOptions, Utterance, checked_text, name_key


def without_memory(
    resources: Resources,
    said: Sequence[Sequence[str]],
    options: ReplyOptions | None,
    bare: bool,
    on_text: Callable[[str], None] | None,
) -> Steps[Completion]:
    """Answer the last of some lines; see `Agent.answer`."""
    options, config = options or ReplyOptions(), resources.config.agent
    generator = Generator(resources.models, resources.config.modules.generator.prompting)
    show, people = on_text, tuple[str, ...]()
    if bare:
        system = (Message("system", options.instructions),) if options.instructions else ()
        lines = [Message("assistant" if role == "assistant" else "user", checked_text(text)) for role, text, *_ in said]
        messages = (*system, *lines)
    else:
        now = resources.clock()
        lines_said = [
            Utterance("", _speaker(config, role, "".join(name)), checked_text(text), now, 1)
            for role, text, *name in said
        ]
        people = tuple(dict.fromkeys(u.speaker for u in lines_said if u.speaker != config.name))
        persona = {config.name: config.persona} if config.persona else {}
        situation = Situation(
            config.name,
            lines_said[-1],
            tuple(lines_said[:-1]),
            traits=persona,
            people=people,
            instructions=options.instructions,
            passed=options.passed,
        )
        messages = generator.prompt_for(situation).messages
        language = resources.models.language
        show = ReplyStream(config.name, people, on_text, language=language, passed=options.passed) if on_text else None
    [completion] = yield [generator.request(messages, show, options=options)]
    as_it_is = bare or options.passed.formatted
    text = completion.text if as_it_is else reply_text(completion.text, config.name, people)
    return replace(completion, text=continued(options.passed, text))


def _speaker(config: AgentSection, role: str, name: str) -> str:
    """Who a line is by; a person who is named like the agent is the user."""
    if role == "assistant":
        return config.name
    return config.user if name_key(name) in ("", name_key(config.name)) else name
