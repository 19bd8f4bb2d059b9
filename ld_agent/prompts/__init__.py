"""Prompt templates: YAML in, chat messages out. A missing variable is an error; data is rendered as data.

A template file holds a ``messages`` list of roles and Jinja templates. Text written by people or models goes through
the ``line`` filter, which turns it into one line that can neither close nor open a section of the prompt; names before
a colon go through ``name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ld_agent.backbones.base import Message
from ld_agent.errors import ConfigError

if TYPE_CHECKING:
    from jinja2 import Template

SECTION_TAG = re.compile(r"<(?=[\s/\\]*(?:conversation|memory|traits|utterance|summaries)\b)", re.IGNORECASE)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Invisible characters: zero width, bidi controls, soft hyphens, fillers, tags."""
JOINERS = re.compile("(?:^|(?<=[\x00-\x7f]))[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
"""Joiners and variation selectors without effect; after non-ASCII letters and in emoji they have meaning."""
NODES = frozenset(
    "Template Output TemplateData Name Filter For If CondExpr Test Tuple List Const Getattr Getitem Slice Or And Not Neg Add "
    "Concat Compare Operand".split()
)
FILTERS = frozenset("line name length first last default lower upper capitalize trim".split())
STEPS = 1_000_000
"""What a template may consist of, and the steps that all its loops may take together: language folders may come from
strangers, so that nothing in them may call, grow or repeat without a limit."""
COLON = re.compile("[:\u02d0\u02f8\u05c3\u2236\ua789\ufe13\ufe55\uff1a]")


def as_line(text: str) -> str:
    """Return foreign text on one line, without control and invisible characters and with section tags disarmed."""
    visible = JOINERS.sub("", INVISIBLE.sub("", text))
    return SECTION_TAG.sub("‹", " ".join(UNPRINTABLE.sub(" ", visible).split()))


def as_name(name: str) -> str:
    """Return a name for the beginning of a line "Name: text".

    Colons become hyphens; otherwise a speaker "Ann: yes. Bob" could impersonate Ann.
    """
    return COLON.sub("-", as_line(name))


class Prompt:
    """One template.

    Args:
        name: name of the file, for messages.
        source: the YAML text.

    Raises:
        ConfigError: the file does not have this format, or a template has a syntax error.
    """

    def __init__(self, name: str, source: str) -> None:
        import yaml
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import SandboxedEnvironment

        self.name, self._steps = name, 0
        self._environment = environment = SandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        environment.filters["line"] = lambda value: as_line(str(value))  # str() lets a missing variable raise
        environment.filters["name"] = lambda value: as_name(str(value))
        environment.filters["counted"] = self._counted
        try:
            entries = yaml.safe_load(source)["messages"]
            self._templates = [(entry["role"], self._compiled(entry["content"])) for entry in entries]
            self._sources = [entry["content"] for entry in entries]
            self.constant_messages = next(
                (i for i, entry in enumerate(entries) if "{{" in entry["content"] or "{%" in entry["content"]),
                len(entries),
            )
        except (yaml.YAMLError, TemplateError, KeyError, TypeError) as exc:
            raise ConfigError(f"prompt {name}: {type(exc).__name__}: {str(exc).splitlines()[0]}") from exc

    def _compiled(self, source: str) -> Template:
        from jinja2 import nodes

        tree = self._environment.parse(source)
        for node in tree.find_all(nodes.Node):
            kind = node.name if isinstance(node, nodes.Filter) else type(node).__name__
            if kind not in (FILTERS if isinstance(node, nodes.Filter) else NODES) or getattr(node, "recursive", False):
                raise TypeError(f"{kind} may not be used; use if, for and the filters {', '.join(sorted(FILTERS))}")
        for loop in list(tree.find_all(nodes.For)):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None)
        return self._environment.from_string(tree)

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        from jinja2 import TemplateRuntimeError

        for value in values:
            self._steps += 1
            if self._steps > STEPS:
                raise TemplateRuntimeError(f"its loops take more than {STEPS:,} steps")
            yield value

    @property
    def roles(self) -> list[str]:
        """The roles of its messages, in order."""
        return [role for role, _ in self._templates]

    @property
    def variables(self) -> set[str]:
        """The names of the variables that its templates use."""
        from jinja2.meta import find_undeclared_variables

        parse = self._environment.parse
        return {name for source in self._sources for name in find_undeclared_variables(parse(source))}

    def render(self, **variables: Any) -> tuple[Message, ...]:
        """Fill in the template.

        Raises:
            ConfigError: the template names a variable that is not given.
        """
        from jinja2 import TemplateError

        self._steps = 0
        try:
            rendered = [(role, template.render(variables).strip()) for role, template in self._templates]
        except TemplateError as exc:
            raise ConfigError(f"prompt {self.name}: {exc}; it is given {', '.join(sorted(variables))}") from exc
        return tuple(Message(role, content) for role, content in rendered)
