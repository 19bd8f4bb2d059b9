"""Prompt templates: YAML in, chat messages out. A missing variable raises; what is data is rendered as data.

A template file holds a ``messages`` list of roles and Jinja templates. The ``line`` filter turns a foreign text into one
line that cannot close a section of the prompt or begin a new one; every text that people or models wrote goes through it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from ld_agent.backbones.base import Message
from ld_agent.errors import ConfigError

SECTION_TAG = re.compile(r"<(?=\s*/?\s*(?:conversation|memory|traits|utterance|summaries)\b)", re.IGNORECASE)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def as_line(text: str) -> str:
    """Return foreign text on one line, without control characters and with section tags disarmed."""
    return SECTION_TAG.sub("‹", " ".join(UNPRINTABLE.sub(" ", text).split()))


class Prompt:
    """One template.

    Args:
        name: of the file, for messages.
        source: the YAML text.

    Raises:
        ConfigError: the file is not of the format, or a template has a syntax error.
    """

    def __init__(self, name: str, source: str) -> None:
        import yaml
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import SandboxedEnvironment

        self.name = name
        environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        environment.filters["line"] = lambda value: as_line(str(value))  # str() lets a missing variable raise
        try:
            entries = yaml.safe_load(source)["messages"]
            self._templates = [(entry["role"], environment.from_string(entry["content"])) for entry in entries]
            self.constant_messages = next(
                (i for i, entry in enumerate(entries) if "{{" in entry["content"] or "{%" in entry["content"]),
                len(entries),
            )
        except (yaml.YAMLError, TemplateError, KeyError, TypeError) as exc:
            raise ConfigError(f"prompt {name}: {type(exc).__name__}: {str(exc).splitlines()[0]}") from exc

    def render(self, **variables: Any) -> tuple[Message, ...]:
        """Fill the template in.

        Raises:
            ConfigError: the template names a variable that is not given.
        """
        from jinja2 import TemplateError

        try:
            rendered = [(role, template.render(variables).strip()) for role, template in self._templates]
        except TemplateError as exc:
            raise ConfigError(f"prompt {self.name}: {exc}; it is given {', '.join(sorted(variables))}") from exc
        return tuple(Message(role, content) for role, content in rendered)


@cache
def prompt(name: str) -> Prompt:
    """Return a prompt of this folder by name."""
    return Prompt(name, files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
