"""Tells whether a text contains an accepted answer to a question. Pure; knows no agent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ld_agent.text import EAST_ASIAN


def contains(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the accepted answers; a word may continue after it, as in a plural.

    An answer begins where a word begins; a Chinese, Japanese or Korean one anywhere, because spaces do not separate
    words there.
    """
    plain = _plain(text)
    return any(re.search(f"{_begins(a)}{re.escape(_plain(a))}", plain) for a in answers if a.strip())


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").split())


def _begins(answer: str) -> str:
    if EAST_ASIAN.match(answer.lstrip()):
        return ""
    return r"(?<![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"  # Latin letters within Chinese begin a word
