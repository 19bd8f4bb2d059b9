"""What tests of the agent are made from: real memory, a scripted model that says what its prompt says, and a clock."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

START = datetime(2024, 5, 1, 18, 30, tzinfo=UTC)
DAY = timedelta(days=1)
CHECKED = {"adapter": "shipped:adapters/check"}
"""``checks`` of an agent whose memory and answers the learned check judges."""


def echo(request: Request) -> str:
    """A reply that shows the whole prompt it answers: other prompt, other reply. It tells nothing about who says it."""
    said = request.messages[-1].content.splitlines()[-1]
    return f"Re {len(str(request.messages))}: {said[:60].lower()}"


def retold(request: Request) -> str:
    """A summary made of the conversation's first two lines."""
    told = re.search(r"<conversation>\n(.*?)</conversation>", request.messages[-1].content, re.DOTALL)
    return " ".join(told.group(1).split("\n")[:2]) if told else request.messages[-1].content[:80]


def confessed(request: Request) -> str:
    """What begins with "I " is a trait of the one who says it."""
    said = re.search(r"\bI [^\n.\"]+\.", request.messages[-1].content)
    return said.group() if said else "NO_TRAIT"


def remembered(request: Request) -> str:
    """What memory mechanisms ask for, made of the prompt's last lines: a memory by speaker, or a situation and a note."""
    asked = request.messages[-1].content
    said = re.findall(r"^(\w[\w ]*): (.+)$", asked.partition("</utterance>")[0], re.MULTILINE)
    if "Write the new memory" in asked:
        known = re.findall(r"^- (.+)$", asked, re.MULTILINE)
        lines = [*known, *(f"{who} said {text}" for who, text in said)]
        return "\n".join(f"- {line}" for line in dict.fromkeys(lines))
    if "these lines about the message" in asked:
        who, text = said[-1]
        return f"Remember: yes\nRelated: none\nSituation: {who} told about the day.\nNote: {who} said {text}"
    if '"Enough:"' in asked:
        return "Enough: 1"
    told = [line.lstrip("- ") for line in asked.split("\n") if ": " in line and "<" not in line]
    return told[0] if told else "1"


class Clock:
    """Shows a time, and a minute more each time it is read."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(minutes=1)
        return self.at


class Scene:
    """Makes agents over one store; what is loaded slowly is shared between them."""

    def __init__(self, config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> None:
        self._config, self.encoder, self._topics = config, encoder, topics
        self.clock = Clock()
        self.opened: list[Agent] = []

    def agent(self, script: dict[str, Any] | None = None, background: bool = False, **settings: Any) -> Agent:
        """An agent whose modules answer by ``script`` (an exception is raised), the others by themselves."""
        answers = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered} | (
            script or {}
        )
        backbone = ScriptedBackbone({module: _answer(value) for module, value in answers.items()})
        parts: dict[str, Any] = {"clock": self.clock, "encoder": self.encoder, "topics": self._topics}
        agent = Agent(self._config(**settings), backbone=backbone, background=background, **parts)
        self.opened.append(agent)
        return agent

    def close(self) -> None:
        for agent in self.opened:
            agent.close(end_sessions=False)


def _answer(value: Any) -> Any:
    if not isinstance(value, BaseException):
        return value

    def fail(request: Request) -> str:
        raise value

    return fail


def prompt_of(request: Request) -> str:
    """All that a prompt says: what is recalled stands in the system message or before the utterance, as the template has it."""
    return "\n".join([message.content for message in request.messages])


def requests_of(agent: Agent, module: str) -> list[Request]:
    """What an agent asked of one module so far."""
    backbone = agent.models.backbone(module)
    assert isinstance(backbone, ScriptedBackbone)
    return [request for request in backbone.requests if request.module == module]
