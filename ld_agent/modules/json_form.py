"""Answers as JSON, from endpoints that hold a model to a schema (``backbone.json_answers``): the schema of a module's answer, the
examples of its prompt as such answers, and the one place where they are parsed. Knows no module and no endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ld_agent.backbones.base import Message

TEXT: Mapping[str, Any] = {"type": "string"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT}
FLAG: Mapping[str, Any] = {"type": "boolean"}
_TYPES: Mapping[str, type] = {"string": str, "array": list, "boolean": bool}

Parts = Mapping[str, Any]


def form_of(properties: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The JSON schema of an answer with these parts, all of them and no others, in this order: a `TEXT`, `TEXTS` or a `FLAG`."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*properties],
        "additionalProperties": False,
    }


def as_examples(messages: Sequence[Message], parts_of: Callable[[str], Parts]) -> tuple[Message, ...]:
    """A prompt whose examples, the model's turns in it, are JSON: what ``parts_of`` reads in them."""
    return tuple(
        replace(m, content=json.dumps(parts_of(m.content), ensure_ascii=False)) if m.role == "assistant" else m
        for m in messages
    )


def parts_in(answer: str, form: Mapping[str, Any]) -> Parts | None:
    """The parts of an answer of this form; None: it is not of the form."""
    try:
        said = json.loads(answer, strict=False)
    except (ValueError, RecursionError):
        return None
    wanted: Mapping[str, Mapping[str, Any]] = form["properties"]
    if not isinstance(said, dict) or not all(
        isinstance(said.get(name), _TYPES[part["type"]]) for name, part in wanted.items()
    ):
        return None
    whole = all(isinstance(each, str) for value in said.values() if isinstance(value, list) for each in value)
    return {name: said[name] for name in wanted} if whole else None
