"""What a run is, as the papers' tables tell runs apart: how each fact is read from a configuration, and which settings make a run
with it. Knows no run and no table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ld_agent.config import Config
from ld_agent.errors import LDAgentError
from ld_agent.memory.views.reply_examples import reply_examples

Settings = Mapping[str, Any]
REFLECTING = ("conditional", "history", "summary")
"""The views that search again after reflection."""
THINKING_TOKENS = {"modules.extractor.max_new_tokens": 96}
NO_EXAMPLES = {"memory.recursive.examples": None}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact.

    Attributes:
        read: its value in a configuration.
        settings: the overrides of a run in which it has a value; by default none.
    """

    read: Callable[[Config], Any]
    settings: Callable[[Any], Settings] = lambda value: {}


def _set(key: str, **further: Settings) -> Fact:
    """A fact that is the value of a key; ``further`` settings by value."""
    return Fact(attrgetter(key), lambda value: {key: value, **further.get(str(value), {})})


def _there(key: str) -> Fact:
    """Whether a key has a value."""
    return Fact(lambda config: attrgetter(key)(config) is not None)


def _banks(key: str, *speakers: bool, **off: Any) -> Fact:
    """Whether there are persona banks of the agent (True), the people (False), or any of them."""
    return Fact(
        lambda config: any(config.personas.most(of_agent=agent) > 0 for agent in speakers),
        lambda there: {} if there else {key: 0} | {name.replace("__", "."): value for name, value in off.items()},
    )


def _rounds(config: Config) -> int:
    """The maximum number of reflection rounds of any enabled view."""
    enabled = [view for view in REFLECTING if view in config.memory.views]
    return max((getattr(config.memory, view).rounds for view in enabled), default=0)


def _shots(config: Config) -> int | None:
    """The number of examples in the generator's prompts; None: their file is gone."""
    if config.memory.recursive.examples is None:
        return 0
    try:
        return len(reply_examples(config.memory.recursive.examples))
    except LDAgentError:
        return None


FACTS: Mapping[str, Fact] = {
    "views": Fact(lambda config: list(config.memory.views)),
    "personas": _banks("personas.cap", True, False, modules__generator__grounded=False),
    "user_personas": _banks("personas.user_cap", False),
    "agent_personas": _banks("personas.agent_cap", True),
    "tuned": _there("modules.generator.adapter"),
    "extractor_tuned": _there("modules.extractor.adapter"),
    "prompting": _set("modules.extractor.prompting", chain_of_thought=THINKING_TOKENS),
    "k": _set("memory.k"),
    "selection": _set("memory.conditional.selection"),
    "context": _set("memory.conditional.context"),
    "knowledge": _set("memory.conditional.knowledge"),
    "rounds": Fact(_rounds, lambda rounds: {f"memory.{view}.rounds": rounds for view in REFLECTING}),
    "examples": Fact(
        lambda config: config.memory.recursive.examples is not None,
        lambda there: {} if there else NO_EXAMPLES,
    ),
    "shots": Fact(_shots, lambda shots: {} if shots else NO_EXAMPLES),
    "question_encoder": _there("encoder.question_model"),
}


def facts_of(config: Config) -> dict[str, Any]:
    """Return every fact of a configuration."""
    return {name: fact.read(config) for name, fact in FACTS.items()}


def settings_for(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the overrides of a run with the wanted facts; facts that only a file decides are left out."""
    settings: dict[str, Any] = {}
    for name, value in wanted.items():
        if name in FACTS:
            settings |= FACTS[name].settings(value)
    views = wanted.get("views") or ()
    unused = {f"memory.{view}.rounds" for view in REFLECTING if view not in views}
    return {key: value for key, value in settings.items() if key not in unused}
