"""What a run is, as the papers' tables tell runs apart, and which settings make such a run. Knows no run and no table.

A fact is read from a configuration, and has the overrides of a run in which it has a value. An arm is what a paper compares;
its published settings are what its shipped config sets beyond the default: ``-c dense`` is an arm on the embedded default, and
for another model the same settings are overrides of that model's config.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from ld_agent.config import Config, load_config
from ld_agent.errors import LDAgentError
from ld_agent.evaluation.runner import flat
from ld_agent.files import shipped_path
from ld_agent.memory.views.recursive import reply_examples

Settings = dict[str, Any]
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


def _set(key: str, **further: Mapping[str, Any]) -> Fact:
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


def settings_for(wanted: Mapping[str, Any]) -> Settings:
    """Return the overrides of a run with the wanted facts; facts that only a file decides are left out."""
    settings: Settings = {}
    for name, value in wanted.items():
        if name in FACTS:
            settings |= FACTS[name].settings(value)
    views = wanted.get("views") or ()
    unused = {f"memory.{view}.rounds" for view in REFLECTING if view not in views}
    return {key: value for key, value in settings.items() if key not in unused}


# ---- arms

LD_AGENT = "paper-tuned"
DEFAULT = "default"
CHECKED = ("recursive", "conditional", "memorybank", "memochat")
"""The mechanisms whose records are checked, except when following their papers."""
FOR_SMALL_MODELS = ("memory.conditional.decision",)
"""Settings of the arms that only apply to the embedded default."""


def arm_of(views: Sequence[str], paper: str = "") -> str | None:
    """Return the shipped config of the arm with these mechanisms, if there is one; all of LD-Agent use one, with parts off."""
    if paper == "LD-Agent" or list(views) == ["events"]:
        return LD_AGENT
    names = ["-".join(views), "-".join(reversed(views))]
    return next((name for name in names if views and shipped_path(f"configs/agent/{name}.yaml").is_file()), None)


@cache
def values_of(config: str) -> Mapping[str, Any]:
    """Return a config's values by dotted key."""
    return flat(load_config(config).model_dump(mode="json"))


@cache
def settings_of(arm: str) -> Mapping[str, Any]:
    """Return the dotted keys and values in which an arm's config differs from its base, except the views."""
    below = values_of("bare" if arm == "paper" else DEFAULT)
    return {key: value for key, value in values_of(arm).items() if value != below[key] and key != "memory.views"}


def based_on(config: str, views: Sequence[str], paper: str = "") -> tuple[str, Settings]:
    """Return the config that an arm is based on and the overrides it needs; on the default, the arm's own config."""
    arm = arm_of(views, paper)
    base = arm if arm and config == DEFAULT else config
    settings: Settings = {}
    if arm and base != arm:
        unused = (*FOR_SMALL_MODELS, *(f"memory.{view}.checked" for view in CHECKED if view not in views))
        published = settings_of("paper" if arm == LD_AGENT else arm)
        settings |= {key: value for key, value in published.items() if key not in unused}
        settings |= {"checks.adapter": None, "checks.verbatim": False}
    if views:
        settings["memory.views"] = list(views)
    if paper.startswith("Rsum") and values_of(base)["modules.generator.adapter"] is None:
        settings["modules.generator.prompting"] = "rsum"  # an adapter keeps the prompts it was tuned on
    return base, settings


def typed(base: str, settings: Mapping[str, Any]) -> str:
    """Return overrides of a config as typed into a shell, without those that change nothing."""
    have = values_of(base)
    return " ".join(shlex.quote(assignment(key, value)) for key, value in settings.items() if have.get(key) != value)


def assignment(key: str, value: Any) -> str:
    """Return an override as it is typed, without quotes for the shell."""
    if isinstance(value, list | tuple):
        text = f"[{','.join(map(str, value))}]"
    else:
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{key}={text}"
