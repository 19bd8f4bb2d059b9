"""Traits in JSON answers: lists and ``{"traits": [...]}`` are parsed; anything else, such as a tool call, is rejected.

Knows JSON but no English; the extractor decides which sentences are traits.
"""

from __future__ import annotations

import json
import re
from typing import Any

_OBJECT_OR_LIST = re.compile(r"\{\s*(?:['\"]|\}|\Z)|\[\s*[\[{\"\]]")
_INTRODUCED = re.compile(r"\A(?:.*[:>])?+\W*+(?:json)?+\W*+", re.DOTALL | re.IGNORECASE)
_KEYS = ("traits", "trait", "facts", "fact", "personas", "persona", "persona_traits", "personality_traits")
_ENDINGS = ("", "]", "}", "]}", '"]', '"}', '"]}')
"""What may be missing at the end of a truncated answer."""
_DECODER = json.JSONDecoder(strict=False)


def listed_traits(answer: str, *, bare: bool = True) -> list[str] | None:
    """Parse the traits in an answer that is JSON or contains it.

    Args:
        bare: a list without a key counts too.

    Returns:
        the traits as written; []: JSON without traits; None: not JSON, to be parsed as text.
    """
    begins = _OBJECT_OR_LIST.search(answer)
    if begins is None:
        return None
    value = _decoded(answer[begins.start() :])
    if answer[begins.start()] == "{":
        return _texts(value)
    if _INTRODUCED.fullmatch(answer[: begins.start()]) is None:
        return None
    return _texts(value) if bare else []


def _decoded(text: str) -> Any:
    """The JSON value at the beginning of a text, completed if truncated; None if it is not JSON."""
    for ending in _ENDINGS:
        try:
            return _DECODER.raw_decode(text.rstrip(" ,\n") + ending)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        by_key = {str(key).casefold(): listed for key, listed in value.items()}
        value = next((by_key[key] for key in _KEYS if key in by_key), None)
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    return [text for item in value for text in ([item] if isinstance(item, str) else _texts(item))]
