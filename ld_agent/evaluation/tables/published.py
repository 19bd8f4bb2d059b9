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
