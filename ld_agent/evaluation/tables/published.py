"""The published settings of an arm: what its shipped config sets beyond the default.

`-c dense` is an arm on the embedded default. For another model the same settings are overrides of that model's config.
Runs nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ld_agent.config import load_config
from ld_agent.evaluation.runner import flat
from ld_agent.files import shipped_path

Values = dict[str, Any]
LD_AGENT = "paper-tuned"
DEFAULT = "default"
CAPS = ("cap", "user_cap", "agent_cap")
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


def unpublished(paper: str, views: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Return the published settings of an arm that a run's configuration lacks, as assignments ("memory.quotes=0").

    Settings without effect on the run are omitted, such as those of recall without a memory.
    """
    arm = arm_of(views, paper)
    if arm is None:
        return []
    have = flat(config)
    unused = ["personas."] if not any(have[f"personas.{cap}"] for cap in CAPS) else ["personas.cap"]
    if list(views) == ["none"]:
        unused += ["memory.", "topics.", "modules.summarizer."]
    unused += [f"memory.{view}." for view in CHECKED if view not in views]
    return [
        assignment(key, value)
        for key, value in settings_of(arm).items()
        if key not in FOR_SMALL_MODELS and not key.startswith(tuple(unused)) and have.get(key) != value
    ]


def based_on(config: str, views: Sequence[str], paper: str = "") -> tuple[str, Values]:
    """Return the config that an arm is based on and the overrides it needs; on the default, the arm's own config."""
    arm = arm_of(views, paper)
    base = arm if arm and config == DEFAULT else config
    settings: Values = {}
    if arm and base != arm:
        unused = (*FOR_SMALL_MODELS, *(f"memory.{view}.checked" for view in CHECKED if view not in views))
        published = settings_of("paper" if arm == LD_AGENT else arm)
        settings |= {key: value for key, value in published.items() if key not in unused} | {"checks.adapter": None}
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
