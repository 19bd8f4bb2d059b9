"""What configs and commands name: ours by a short name, anybody's as ``package.module:Name``. Knows no kind of thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from ld_agent.errors import ConfigError

T = TypeVar("T")


def is_dotted(name: str) -> bool:
    """Whether a name has the form ``package.module:Name``, unlike paths and references of models."""
    module, _, attribute = name.partition(":")
    return attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def named(entries: Mapping[str, T], name: str, *, key: str, kinds: str, wanted: str, fits: Callable[[Any], bool]) -> T:
    """The entry of that name or, of ``package.module:Name``, what the module calls so.

    Args:
        key: what the name was given for ("memory.views"), ``kinds``: what the entries are ("views"), for messages.
        wanted: what it has to be ("a subclass of View"), ``fits``: whether it is.

    Raises:
        ConfigError: no such entry, the import fails, or it is something else.
    """
    if name in entries:
        return entries[name]
    if not is_dotted(name):
        known = ", ".join(entries)
        known = f"known {kinds}: {known}; " if known else ""
        raise ConfigError(f"{key}={name!r} is unknown; {known}name your own as package.module:Name")
    module, _, attribute = name.partition(":")
    try:
        thing = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"{key}={name!r}: {exc}; install its package, or add its folder to PYTHONPATH") from exc
    if not fits(thing):
        raise ConfigError(f"{key}={name!r} is {type(thing).__name__} {thing!r:.80}, and has to be {wanted}")
    found: T = thing
    return found
